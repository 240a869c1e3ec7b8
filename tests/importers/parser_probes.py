"""The stored record of the layers that NVIDIA's ONNX parser made of small models: tests/data/parser_lowerings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

import onnx
from google.protobuf.json_format import ParseDict

FOLDER = Path(__file__).resolve().parent.parent / "data" / "parser_lowerings"
#: Releases whose parser was run, in the order of the record.
VERSIONS = ("8.4", "8.5", "8.6", "10.0", "10.3", "10.7")


def probes() -> List[Dict[str, Any]]:
    """One per model: name, model (protobuf's JSON form), and for each of VERSIONS its layers, or None where refused."""
    return _filled(_rows("probes.jsonl"))


def networks() -> List[Dict[str, Any]]:
    """As `probes`, of whole networks without their weights."""
    with gzip.open(FOLDER / "networks.jsonl.gz", "rt", encoding="utf-8") as f:
        return _filled([json.loads(line) for line in f])


def _filled(given: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    rows = []
    for row in given:
        answer: Any = []
        for version in VERSIONS:
            # The record leaves out what equals the release before.
            answer = row[version] = row.get(version, answer)
        rows.append(row)
    return rows


def classes() -> List[Dict[str, Any]]:
    """One per smallest model: name, model, answers by version: kinds of layers (None where refused), and if all of them."""
    return _rows("classes.jsonl")


def _rows(name: str) -> List[Dict[str, Any]]:
    with open(FOLDER / name, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def model_of(form: Dict[str, Any]) -> onnx.ModelProto:
    """The model of its JSON form. Large weights have no data: no reader needs it."""
    return ParseDict(form, onnx.ModelProto())


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
