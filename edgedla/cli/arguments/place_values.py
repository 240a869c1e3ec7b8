"""The values of `place`'s options, of the text that a user types."""

from __future__ import annotations

from typing import Dict, Optional, Tuple, Union

from edgedla.errors import UsageError


def chosen_clocks(texts: Tuple[str, ...]) -> Optional[Dict[str, float]]:
    """--clock dla=1200 --clock gpu=800 as a mapping.

    Raises:
        UsageError: another form.
    """
    clocks: Dict[str, float] = {}
    for text in texts:
        name, equals, mhz = text.partition("=")
        try:
            clocks[name.strip().lower()] = float(mhz)
        except ValueError as e:
            raise UsageError(f"{text!r} is no clock", where="--clock", allowed="dla=MHZ, gpu=MHZ, emc=MHZ") from e
        if not equals:
            raise UsageError(f"{text!r} is no clock", where="--clock", allowed="dla=MHZ, gpu=MHZ, emc=MHZ")
    return clocks or None


def chosen_devices(text: Optional[str], core: Optional[int]) -> Optional[Tuple[str, ...]]:
    """--devices, or GPU and the core of trtexec's --useDLACore."""
    if text is not None:
        return tuple(d.strip().replace(":", "") for d in text.split(",") if d.strip())
    return None if core is None else ("GPU", f"DLA{core}")


def latency_bounds(text: Optional[str]) -> Union[None, float, Tuple[float, ...]]:
    """--max-latency 5000 for all models, 5000,8000 for each of two."""
    bounds = numbers(text, "--max-latency", "microseconds: 5000, or one number per model: 5000,8000")
    return bounds[0] if bounds and len(bounds) == 1 else bounds


def numbers(text: Optional[str], option: str, allowed: str) -> Optional[Tuple[float, ...]]:
    """Numbers separated by commas. `allowed` says what they are.

    Raises:
        UsageError: another form.
    """
    if text is None:
        return None
    try:
        return tuple(float(r) for r in text.split(","))
    except ValueError as e:
        raise UsageError(f"{text!r} is no list of numbers", where=option, allowed=allowed) from e
