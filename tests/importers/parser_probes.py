"""The carried record of what NVIDIA's ONNX parser made of small models: tests/data/parser_lowerings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List

import onnx
import onnx.parser

RECORD = Path(__file__).resolve().parent.parent / "data" / "parser_lowerings" / "probes.jsonl"
LEFT_OUT = "left_out_"


def probes() -> List[Dict[str, Any]]:
    """One per model: name, model (ONNX text), weights (name -> [data type, dims]), "10.3" and "8.6": layers or None."""
    with open(RECORD, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def model_of(text: str, weights: Dict[str, Any]) -> onnx.ModelProto:
    """The model in text form, its large weights added as tensors without data: no reader needs their values."""
    # The newest onnx for Python 3.8 is 1.17, which reads neither node names nor inputs that are left out.
    names = iter(re.findall(r"^ *\[([^\]]*)\] ", text, re.M))
    text = re.sub(r"^( *)\[[^\]]*\] ", r"\1", text, flags=re.M)
    model = onnx.parser.parse_model(re.sub(r', ""(?=[,)])', f", {LEFT_OUT}", text))
    _complete(model.graph, names)
    for name, (data_type, dims) in weights.items():
        model.graph.initializer.add(name=name, data_type=data_type, dims=dims)
    return model


def _complete(graph: onnx.GraphProto, names: Iterator[str]) -> None:
    for node in graph.node:
        name = next(names, "")
        if name:
            node.name = name
        for i, tensor in enumerate(node.input):
            if tensor == LEFT_OUT:
                node.input[i] = ""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _complete(attribute.g, names)


def near(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return abs(a - b) <= 1e-4 * max(1.0, abs(a), abs(b))
    return bool(a == b)


def differences(expected: List[List[Any]], graph: Any) -> List[str]:
    """What is missing, different or too much in a LayerGraph, against rows of [node, type, output dims, parameters]."""
    left = [
        (layer, [layer.onnx_node, layer.type, list(graph.tensors[layer.outputs[0]].dims) if layer.outputs else []])
        for layer in graph.layers
    ]
    found = []
    for node, kind, dims, params in expected:
        for at, (layer, key) in enumerate(left):
            if key == [node, kind, dims] and all(near(v, layer.params.get(k)) for k, v in params.items()):
                del left[at]
                break
        else:
            found.append(f"missing: {node} {kind} {dims} {params}")
    return found + [f"too much: {key} {dict(layer.params)}" for layer, key in left]
