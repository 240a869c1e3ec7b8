"""One model's part of a placement document, if the placement fits the model and the platform."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from edgedla.errors import DocumentError
from edgedla.graph import LayerGraph
from edgedla.placement.result.document import check_input_sizes, read_placement
from edgedla.placement.result.placement import PlacedModel, Placement
from edgedla.targets.platform import Platform


def placed_model(source: Union[str, Path, Placement], graph: LayerGraph, platform: Platform, precision: str) -> PlacedModel:
    """The graph's part of a placement.

    Raises:
        DocumentError: not a placement, or one for another model, platform, precision or input sizes, or with layers
            that differ from the model's.
    """
    placement = source if isinstance(source, Placement) else read_placement(source)
    where = "placement" if isinstance(source, Placement) else str(source)
    pairs = {
        "target": (placement.platform.get("target"), platform.module.id),
        "TensorRT": (placement.platform.get("trt"), platform.release.trt_text),
        "precision": (placement.precision, precision),
    }
    for what, (placed, requested) in pairs.items():
        if placed != requested:
            raise DocumentError(
                f"placed for {what} {placed}, the build is for {requested}", where=where, hint="place the model again"
            )
    models = [m for m in placement.models if m.sha256 == graph.sha256 and m.sha256]
    models = models or [m for m in placement.models if not m.sha256 and m.name == graph.name]
    if not models:
        raise DocumentError(
            f"the placement is not for this version of {graph.name!r}",
            where=where,
            allowed=", ".join(f"{m.name} ({m.sha256[:12]})" for m in placement.models),
            hint="place the model again",
        )
    names = [layer.name for layer in graph.layers]
    if [layer.name for layer in models[0].layers] != names:
        raise DocumentError("its layers are not those of the model", where=where, hint="place the model again")
    check_input_sizes(models[0], graph, where)
    if any(not 0 <= i < len(names) for region in models[0].regions for i in region.layers):
        raise DocumentError("a region has layers that the model lacks", where=where, hint="place the model again")
    return models[0]
