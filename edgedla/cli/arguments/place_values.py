"""Parses the values of options of `place`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Dict, Optional, Tuple, Union

from edgedla.cli.arguments.option import LATENCY_US
from edgedla.errors import UsageError

if TYPE_CHECKING:
    from edgedla.placement.problem.problem import Limits
    from edgedla.targets import Platform


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
            raise UsageError(f"{text!r} is not a clock", where="--clock", allowed="dla=MHZ, gpu=MHZ, emc=MHZ") from e
        if not equals:
            raise UsageError(f"{text!r} is not a clock", where="--clock", allowed="dla=MHZ, gpu=MHZ, emc=MHZ")
    return clocks or None


def chosen_devices(text: Optional[str], core: Optional[int]) -> Optional[Tuple[str, ...]]:
    """--devices, or GPU and the core of trtexec's --useDLACore."""
    if text is not None:
        return tuple(d.strip().replace(":", "") for d in text.split(",") if d.strip())
    return None if core is None else ("GPU", f"DLA{core}")


def limits_for(platform: Platform, per_core: Optional[int], max_regions: Optional[int], min_region: int, models: int) -> Limits:
    """--loadables-per-core, --max-regions and --min-region.

    Raises:
        UsageError: more loadables on a core than the release takes.
    """
    from edgedla.placement.problem.inputs import limits_on, require_loadables
    from edgedla.placement.problem.problem import Limits

    limits = Limits(max_regions=max_regions, min_region_layers=min_region)
    if per_core is None:
        return limits_on(platform, limits, models)
    require_loadables(platform, per_core, models)
    return replace(limits, loadables_per_core=per_core)


def latency_bounds(text: Optional[str]) -> Union[None, float, Tuple[float, ...]]:
    """--max-latency 5ms for all models, 5ms,8ms for each of two."""
    bounds = None if text is None else tuple(LATENCY_US.read(part, "--max-latency") for part in text.split(","))
    return bounds[0] if bounds and len(bounds) == 1 else bounds


def numbers(text: Optional[str], option: str, allowed: str) -> Optional[Tuple[float, ...]]:
    """Numbers separated by commas. `allowed` is the error's text on what is allowed.

    Raises:
        UsageError: another form.
    """
    if text is None:
        return None
    try:
        return tuple(float(r) for r in text.split(","))
    except ValueError as e:
        raise UsageError(f"{text!r} is not a list of numbers", where=option, allowed=allowed) from e
