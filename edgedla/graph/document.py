"""Converts a LayerGraph to and from the `edgedla layers` document, in the form of the recorded parser output."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping

from edgedla.errors import DocumentError
from edgedla.graph.layer import Layer, OnnxNode
from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.source import SourceLocation
from edgedla.graph.tensor import Tensor
from edgedla.io.documents import header


def to_document(graph: LayerGraph) -> Dict[str, Any]:
    """The graph as one JSON object: model, parsed, error, inputs, outputs, layers (live layers only)."""

    def tensor(name: str) -> Dict[str, Any]:
        t = graph.tensors[name]
        return {"name": t.name, "dims": list(t.dims), "dtype": t.dtype}

    return {
        **header("edgedla.layers"),
        "model": graph.name,
        "parsed": True,
        "error": "",
        "lowering": graph.lowering,
        "stands_in_for": graph.stands_in_for,
        "inputs": [tensor(t) for t in graph.inputs],
        "outputs": [tensor(t) for t in graph.outputs],
        "layers": [
            {
                "type": layer.type,
                "name": layer.name,
                "onnx_node": layer.onnx_node,
                "onnx_op": layer.onnx_op,
                "inputs": [tensor(t) for t in layer.inputs if t],
                "outputs": [tensor(t) for t in layer.outputs],
                "params": {name: _finite(value) for name, value in layer.params.items()},
                **({} if layer.source is None else {"source": layer.source.to_dict()}),
            }
            for layer in graph.layers
        ],
        "notes": list(graph.notes),
    }


def from_document(document: Mapping[str, Any]) -> LayerGraph:
    """The LayerGraph of such an object. Tensors that no layer writes and that are no network input are constants.

    Raises:
        DocumentError: a field is missing or has the wrong form.
    """
    try:
        if not document["parsed"]:
            raise DocumentError(f"the model was refused: {document.get('error', '')}", where=document.get("model"))
        inputs = {t["name"] for t in document["inputs"]}
        written = {t["name"] for entry in document["layers"] for t in entry["outputs"]}
        tensors: Dict[str, Tensor] = {}

        def add(entry: Mapping[str, Any]) -> str:
            name = str(entry["name"])
            constant = name not in written and name not in inputs
            tensors[name] = Tensor(name, tuple(entry["dims"]), entry["dtype"], constant, name if constant else None)
            return name

        network_inputs = tuple(add(t) for t in document["inputs"])
        layers: List[Layer] = []
        of_node: Dict[str, List[int]] = {}
        ops: Dict[str, str] = {}
        users: Dict[str, int] = {}
        for index, entry in enumerate(document["layers"]):
            layer = Layer(
                index=index,
                type=entry["type"],
                name=entry["name"],
                onnx_node=entry.get("onnx_node") or "",
                onnx_op=entry.get("onnx_op") or "",
                inputs=tuple(add(t) for t in entry["inputs"]),
                outputs=tuple(add(t) for t in entry["outputs"]),
                params=dict(entry["params"]),
                source=SourceLocation(**entry["source"]) if entry.get("source") else None,
            )
            layers.append(layer)
            for t in set(layer.inputs):
                if tensors[t].is_constant:
                    users[t] = users.get(t, 0) + 1
            of_node.setdefault(layer.onnx_node, []).append(index)
            ops.setdefault(layer.onnx_node, layer.onnx_op)
        return LayerGraph(
            name=document["model"],
            layers=tuple(layers),
            tensors=tensors,
            inputs=network_inputs,
            outputs=tuple(add(t) for t in document["outputs"]),
            nodes=tuple(OnnxNode(n, ops[n], tuple(ix)) for n, ix in of_node.items()),
            lowering=str(document.get("lowering") or ""),
            stands_in_for=document.get("stands_in_for", ""),
            notes=tuple(document.get("notes", ())),
            constant_users=users,
        )
    except (KeyError, TypeError) as e:
        raise DocumentError(f"not a layers document: {e!r}", where=str(document.get("model", ""))) from e


def _finite(value: Any) -> Any:
    """A parameter as JSON has it: NaN and infinity, which a broken model may carry, as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
