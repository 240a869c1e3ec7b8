"""The files that an artifact keeps of its INT8 scales, where a build measured them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Optional, Tuple

from edgedla.builder.plan.devices import by_name
from edgedla.builder.plan.measured_scales import BuiltScales, Explain, MeasuredScales
from edgedla.quantization.numerics import INT8_EQUAL_SCALES

if TYPE_CHECKING:
    from edgedla.builder.artifact.artifact import Artifact
    from edgedla.builder.request import BuildRequest


def explained(
    explain: Optional[Explain], scales: Optional[MeasuredScales], artifact: Artifact, request: BuildRequest
) -> Dict[Tuple[str, str], bytes]:
    """(role, file name) -> content; empty without `explain`, or if nothing was measured on samples.

    Args:
        artifact: the whole network's artifact, with its devices and accuracy.
    """
    from edgedla.targets import platform_for

    if explain is None or scales is None:
        return {}
    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    precisions = by_name(request.options.precisions, scales.graph, "precisions")
    equal = request.options.numerics.get(INT8_EQUAL_SCALES) != "own"
    return explain(BuiltScales(scales, platform, artifact.placement_predicted, precisions, artifact.accuracy, equal))
