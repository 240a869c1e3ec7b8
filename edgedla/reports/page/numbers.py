"""Numbers as pages and tables write them: three significant digits, a space before the unit, a real minus sign."""

from __future__ import annotations

import math

from edgedla.text.printable import MINUS as MINUS
from edgedla.text.printable import significant as significant
from edgedla.text.printable import slower


def milliseconds(latency_us: float) -> str:
    """A time in ms from 0.1 ms on, below that in µs: `3.60 ms`, `8.41 µs`."""
    if abs(latency_us) >= 100 or latency_us == 0:
        return f"{significant(latency_us / 1e3)} ms"
    return f"{significant(latency_us)} µs"


def percent_up(share: float) -> str:
    """A share in percent with two digits, rounded up: `0.39 %`."""
    percent = share * 100
    step = 10.0 ** (math.floor(math.log10(percent)) - 1) if percent > 0 else 1.0
    return f"{math.ceil(percent / step - 1e-9) * step:.3g} %"


def best_found(gap: float) -> str:
    """How good a placement without a proof is."""
    return f"best found, at most {percent_up(gap)} from the optimum"


def beside(now_us: float, other_us: float) -> str:
    """`1.4 times slower than`, `as fast as`."""
    text = slower(now_us / other_us)
    return "as fast as" if text.startswith("1.0 ") else f"{text} than"


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
