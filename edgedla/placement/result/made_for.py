"""The module, release, precision and power mode that a placement was made for, and in what a use of it departs from them."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from edgedla.costs.model import CostModel
from edgedla.placement.result.placement import Placement
from edgedla.targets import Platform, module_for


def placed_platform(
    placement: Placement, target: Optional[str], jetpack: Optional[str], trt: Optional[str]
) -> Dict[str, Any]:
    """target, precision, and where no other module or release is named, jetpack and trt of a placement."""
    platform = placement.platform
    named = {"target": str(platform.get("target") or ""), "precision": placement.precision}
    if not (jetpack or trt) and (not target or module_for(target).id == named["target"]):
        named.update({name: str(platform[name]) for name in ("jetpack", "trt") if platform.get(name)})
    return named


def departures(placement: Placement, platform: Platform, costs: CostModel) -> Tuple[str, ...]:
    """What the placement was made for, where that is not what the costs are for: a note each for a person."""
    made, used = dict(placement.costs), costs.to_dict()
    pairs = [
        (str(placement.platform.get("title")), platform.module.title),
        (placement.precision.upper(), costs.precision.upper()),
        (f"TensorRT {placement.platform.get('trt')}", f"TensorRT {platform.release.trt_text}"),
        (placement.power_mode or "no power mode", costs.power_mode or "no power mode"),
    ]
    if (made.get("target"), made.get("power_mode")) == (used["target"], used["power_mode"]):
        # Else they follow from the module and its mode.
        pairs.append((_clocks(made), _clocks(used)))
    other = [(was, now) for was, now in pairs if was != now]
    if not other:
        return ()
    was, now = (", ".join(texts) for texts in zip(*other))
    return (f"the placement was made for {was}; this prediction is for {now}",)


def _clocks(costs: Dict[str, Any]) -> str:
    clocks = costs.get("clocks_mhz") or {}
    dla = ", ".join(f"{mhz:g}" for mhz in clocks.get("dla") or ())
    return (
        f"clocks of {clocks.get('gpu') or 0:g} (GPU), {dla or 'none'} (DLA) and {clocks.get('emc') or 0:g} MHz (memory)"
    )
