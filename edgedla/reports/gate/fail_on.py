"""The layers that count as failures under `--fail-on`."""

from __future__ import annotations

from typing import Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Placed
from edgedla.reports import layer_groups

#: From the mildest to the strictest setting; each includes those before it.
#: never: nothing. unsupported: a layer that the DLA refuses, or a build that would fail. fallback: any layer that runs
#: on the GPU, even if because of others. unknown: any layer that no rule decides.
FAIL_ON: Tuple[str, ...] = ("never", "unsupported", "fallback", "unknown")


def offenders(report: CheckReport, fail_on: str) -> Tuple[LayerReport, ...]:
    """The layers that count under `fail_on`, in network order."""
    level = FAIL_ON.index(fail_on)
    return tuple(layer for layer in report.layers if 0 < _severity(report, layer) <= level)


def passes(report: CheckReport, fail_on: str) -> bool:
    """True if the check passes under `fail_on`: no layer counts, and a build without fallback would not fail."""
    level = FAIL_ON.index(fail_on)
    if level == 0:
        return True
    if not report.platform.has_dla:
        return report.platform.dla_unknown and level < FAIL_ON.index("unknown")
    if report.strict is not None:
        if report.strict.passes is False:
            return False
        if report.strict.passes is None and level >= FAIL_ON.index("unknown"):
            return False
    if layer_groups.unknown_nodes(report) and level >= FAIL_ON.index("unknown"):
        return False
    return not offenders(report, fail_on)


def _severity(report: CheckReport, layer: LayerReport) -> int:
    """Index in FAIL_ON of the mildest setting that counts the layer; 0 if none does."""
    if layer.placed is Placed.FOLDED:
        return 0
    if layer_groups.is_unknown(layer) or report.platform.dla_unknown:
        # Not "unsupported": an unknown layer is predicted on the GPU only because it is unknown.
        return FAIL_ON.index("unknown")
    if layer.placed is Placed.DLA:
        return 0
    return FAIL_ON.index("unsupported") if layer.cause.is_root else FAIL_ON.index("fallback")
