"""Models that compute in FP16 by their own types: INT8 is measured and simulated on FP32 tensors."""

from __future__ import annotations

from edgedla.errors import ModelError
from edgedla.graph import LayerGraph


def require_fp32(graph: LayerGraph) -> None:
    """Raises:
    ModelError: a layer computes in FP16, so that it would get no scale and no rounding. A cast at an input does not count.
    """
    half = [x for x in graph.layers if x.type != "CAST" and any(graph.tensors[t].dtype == "HALF" for t in x.outputs)]
    if half:
        raise ModelError(
            f"{len(half)} of {len(graph.layers)} layers compute in FP16, first {half[0].name!r}: INT8 is measured and "
            "simulated in FP32 only",
            where=graph.name,
            hint="export the model in FP32; a build makes FP16 and INT8 of it by itself",
        )
