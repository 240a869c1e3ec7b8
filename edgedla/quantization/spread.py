"""Ranges for tensors that only TensorRT's network has, from those of the ONNX tensors around them."""

from __future__ import annotations

from typing import Dict, Mapping

from edgedla.graph import LayerGraph

#: LayerTypes that move values without changing them, so that the range of the input holds.
_MOVING = frozenset({"SHUFFLE", "IDENTITY", "CAST", "SLICE"})


def spread_ranges(graph: LayerGraph, absmax: Mapping[str, float]) -> Dict[str, float]:
    """`absmax` with the tensors in between filled in, for the tensors of this graph only.

    TensorRT's parser makes several layers of some ONNX nodes (a Gemm is a product and a sum), and the tensors between
    them have no ONNX name and hence no range. One that only moves values has the range of its input; any other gets
    the range of its node's last output. A tensor without either stays without: its layer runs in FP16.
    """
    found = {name: value for name, value in absmax.items() if name in graph.tensors}
    last: Dict[str, float] = {}
    for layer in graph.layers:
        for name in layer.outputs:
            if name in found:
                last[layer.onnx_node] = found[name]
    for layer in graph.layers:
        for name in layer.outputs:
            if name in found:
                continue
            moved = found.get(layer.inputs[0]) if layer.type in _MOVING and layer.inputs else None
            value = moved if moved is not None else last.get(layer.onnx_node)
            if value is not None:
                found[name] = value
    return found
