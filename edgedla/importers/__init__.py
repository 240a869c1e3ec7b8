"""ONNX models as LayerGraphs, as NVIDIA's ONNX parser makes TensorRT networks of them; build logs and engine records.

`onnx` is imported when a model is read, not with this package.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph

__all__ = ["load_onnx", "lowering_for"]


def load_onnx(
    model: Any,
    *,
    trt: Tuple[int, ...] = (10, 3),
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
) -> LayerGraph:
    """The TensorRT layers that NVIDIA's ONNX parser makes of a model.

    Args:
        model: path, bytes or onnx.ModelProto. Weights are not needed: they may stand in a missing external file.
        trt: TensorRT version; before 10 the lowering of 8.6.1 is followed, from 10 on that of 10.3.0.
        shapes: dims of inputs by name, for dynamic ones and to override the model's.
        batch: the first dim of every input; `shapes` wins where both are given.

    Raises:
        ModelError: the file is no readable ONNX model, or TensorRT's parser refuses it.
        UsageError: `shapes` names no input, or does not fit it.
    """
    from edgedla.importers.onnx_model import import_model

    return import_model(model, trt=trt, shapes=shapes, batch=batch)


def lowering_for(trt: Tuple[int, ...]) -> str:
    """The parser release whose lowering stands for a TensorRT version: "8.6" before 10, else "10.3"."""
    return "8.6" if tuple(trt) < (10,) else "10.3"
