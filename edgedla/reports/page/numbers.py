"""Numbers as pages and tables write them: three significant digits, a space before the unit, a real minus sign."""

from __future__ import annotations

from edgedla.text.printable import MINUS, significant

__all__ = ["MINUS", "megabytes", "milliseconds", "signed", "signed_count", "significant"]


def milliseconds(latency_us: float) -> str:
    """A time in ms from 0.1 ms on, below that in µs: `3.60 ms`, `8.41 µs`."""
    if abs(latency_us) >= 100 or latency_us == 0:
        return f"{significant(latency_us / 1e3)} ms"
    return f"{significant(latency_us)} µs"


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign: `+29`, `−0.202`."""
    return significant(value, digits) if value < 0 else f"+{significant(value, digits)}"


def signed_count(value: int) -> str:
    """An exact number with its sign."""
    return f"{MINUS}{-value}" if value < 0 else f"+{value}"


def megabytes(size_bytes: float) -> str:
    """`0.978 MB`; below 0.1 MB in kB."""
    if size_bytes >= 1e5 or size_bytes == 0:
        return f"{significant(size_bytes / 1e6)} MB"
    return f"{significant(size_bytes / 1e3)} kB"
