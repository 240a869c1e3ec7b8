"""A LayerGraph as the `edgedla layers` document: JSON or a text table."""

from __future__ import annotations

from typing import List

from edgedla.graph import LayerGraph
from edgedla.graph.document import to_document
from edgedla.graph.tensor import dims_text
from edgedla.reports.text import Line, clean, print_lines, table_lines
from edgedla.text.printable import json_text


def render_layers(graph: LayerGraph, output_format: str, terminal: bool = False) -> str:
    """The layers as "json" (the form of the recorded parser output) or "text"."""
    if output_format == "json":
        return json_text(to_document(graph))
    rows = [("#", "TYPE", "LAYER", "ONNX NODE", "OP", "INPUT DIMS", "OUTPUT DIMS")]
    for layer in graph.layers:
        rows.append(
            (
                str(layer.index),
                layer.type,
                clean(layer.name),
                clean(layer.onnx_node),
                clean(layer.onnx_op),
                ", ".join(dims_text(t.dims) for t in graph.activations(layer)),
                ", ".join(dims_text(t.dims) for t in graph.output_tensors(layer)),
            )
        )
    head = f"{graph.name}: {len(graph.layers)} TensorRT layers of {len(graph.nodes)} ONNX nodes"
    head += f", as the ONNX parser of TensorRT {graph.lowering} makes them"
    lines: List[Line] = [("", 0, clean(head)), *(("", 0, f"note: {clean(note)}") for note in graph.notes), ("", 0, "")]
    return print_lines([*lines, *table_lines(rows, terminal)], terminal)
