"""Rows of a model: its TensorRT layers and ONNX nodes."""

from __future__ import annotations

from typing import Tuple

from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.tensor import dims_text
from edgedla.inspection.facts.fact import Fact, counted, scalars


def of_graph(graph: LayerGraph) -> Tuple[Fact, ...]:
    rows = scalars(
        "Model",
        [
            ("name", graph.name),
            ("opset", graph.opset or None),
            ("ONNX nodes", len(graph.nodes) or None),
            ("TensorRT layers", len(graph.layers)),
            ("as lowered by TensorRT", graph.lowering),
            ("nodes folded away", sum(n.is_folded for n in graph.nodes) or None),
            ("nodes whose layers are not known", sum(bool(n.unknown) for n in graph.nodes) or None),
        ],
    )
    for section, names in (("Inputs", graph.inputs), ("Outputs", graph.outputs)):
        for name in names:
            tensor = graph.tensors[name]
            dims = dims_text(tensor.dims)
            rows.append(Fact(section, name, f"{dims} {tensor.dtype}"))
    rows += counted("TensorRT layers by type", [layer.type for layer in graph.layers])
    rows += counted("ONNX nodes by operator", [node.op for node in graph.nodes])
    return tuple(rows)
