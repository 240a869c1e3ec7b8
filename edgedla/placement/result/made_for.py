"""The platform, precision and power mode that a placement was made for, and how a use of it differs."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgedla.costs.model import CostModel
from edgedla.errors import UsageError
from edgedla.placement.result.placement import Placement
from edgedla.targets import Platform, module_for
from edgedla.vocabulary import PRECISIONS


class ResolvedPlatform(NamedTuple):
    """Arguments of platform_for, and the precision."""

    target: str
    jetpack: Optional[str]
    trt: Optional[str]
    precision: str


def resolved_platform(
    placement: Optional[Placement], target: Optional[str], jetpack: Optional[str], trt: Optional[str], precision: Optional[str]
) -> ResolvedPlatform:
    """Module, release and precision to build or predict for: those that are named, else the placement's.

    The placement's release is used only with its module; another module gets its own newest release.

    Raises:
        UsageError: no module is named, and there is no placement.
    """
    if placement is None:
        if not target:
            allowed = "a module, or a placement, which names its own"
            raise UsageError("no module is named", where="target", allowed=allowed)
        return ResolvedPlatform(target, jetpack, trt, precision or PRECISIONS[0])
    made = placement.platform
    if not (jetpack or trt) and (not target or module_for(target).id == made.get("target")):
        jetpack, trt = (str(made[name]) if made.get(name) else None for name in ("jetpack", "trt"))
    return ResolvedPlatform(target or str(made.get("target") or ""), jetpack, trt, precision or placement.precision)


def departures(placement: Placement, platform: Platform, costs: CostModel) -> Tuple[str, ...]:
    """Notes for the user on how the platform and the costs differ from those that the placement was made for."""
    made, used = dict(placement.costs), costs.to_dict()
    pairs = [
        (str(placement.platform.get("title")), platform.module.title),
        (placement.precision.upper(), costs.precision.upper()),
        (f"TensorRT {placement.platform.get('trt')}", f"TensorRT {platform.release.trt_text}"),
        (placement.power_mode or "no power mode", costs.power_mode or "no power mode"),
    ]
    if (made.get("target"), made.get("power_mode")) == (used["target"], used["power_mode"]):
        # Else the clocks follow from the module and its mode.
        pairs.append((_clocks(made), _clocks(used)))
    other = [(was, now) for was, now in pairs if was != now]
    if not other:
        return ()
    was, now = (", ".join(texts) for texts in zip(*other))
    return (f"the placement was made for {was}; this prediction is for {now}",)


def _clocks(costs: Dict[str, Any]) -> str:
    clocks = costs.get("clocks_mhz") or {}
    dla = ", ".join(f"{mhz:g}" for mhz in clocks.get("dla") or ())
    return f"clocks of {clocks.get('gpu') or 0:g} (GPU), {dla or 'none'} (DLA) and {clocks.get('emc') or 0:g} MHz (memory)"
