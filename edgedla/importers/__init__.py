"""Reads ONNX models as LayerGraphs: the TensorRT layers that NVIDIA's ONNX parser makes. Also build logs, engine records.

`onnx` is imported when a model is read, not with this package.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import UsageError
from edgedla.graph import LayerGraph

__all__ = ["load_onnx"]


@typed
def load_onnx(
    model: Any,
    *,
    trt: Union[str, Sequence[int]] = (10, 3),
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    open_batch: Optional[int] = None,
    as_trained: bool = False,
) -> LayerGraph:
    """Imports a model: the TensorRT layers that NVIDIA's ONNX parser makes of it.

    Args:
        model: path, bytes or onnx.ModelProto. Weights are not needed: they may be in a missing external file. A
            LayerGraph of the same parser is returned unchanged.
        trt: TensorRT version, as "10.3" or (10, 3). `LayerGraph.lowering` says which observed parser the layers follow.
        shapes: dims of inputs by name, for dynamic ones and to override the model's.
        batch: the first dim of every input; `shapes` wins where both are given.
        open_batch: the first dim of inputs whose batch is open and not given by `shapes` or `batch`; a note says so. Commands
            that answer for a build give graph.open_sizes.TRTEXEC_BATCH, as trtexec does. None: it stays open.
        as_trained: a model that was exported before training shares equal parameters through Identity nodes. True gives the
            layers after training, with the layers of the file in `LayerGraph.as_exported`.

    Raises:
        ModelError: the file is not a readable ONNX model, or TensorRT's parser refuses it.
        UsageError: `trt` is not a version; `shapes` names an unknown input or does not fit it; `model` is a LayerGraph of
            another parser.
    """
    version = _version(trt)
    if isinstance(model, LayerGraph):
        return _as_imported(model, version, shapes, batch)
    from edgedla.importers.onnx_model import import_model

    return import_model(model, trt=version, shapes=shapes, batch=batch, open_batch=open_batch, as_trained=as_trained)


def _as_imported(
    graph: LayerGraph, version: Tuple[int, ...], shapes: Optional[Mapping[str, Sequence[int]]], batch: Optional[int]
) -> LayerGraph:
    from edgedla.importers.parser_releases import lowering_name

    if shapes or batch is not None:
        raise UsageError("sizes of a graph that is already imported are fixed", hint="give them to load_onnx")
    lowering = lowering_name(version)
    if graph.lowering and graph.lowering != lowering:
        raise UsageError(
            f"the graph has the layers of TensorRT {graph.lowering}'s parser",
            where=graph.name,
            allowed=lowering,
            hint=f'load_onnx(model, trt="{lowering}")',
        )
    return graph


def _version(trt: Union[str, Sequence[int]]) -> Tuple[int, ...]:
    parts: Sequence[Any] = trt.split(".") if isinstance(trt, str) else trt
    try:
        version = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        version = ()
    if not version or any(part < 0 for part in version):
        raise UsageError(f"trt={trt!r} is not a TensorRT version", allowed="'10.3', '8.5.2' or (10, 3)")
    # "10" alone is the first release of that number.
    return version if len(version) > 1 else (*version, 0)
