"""The real device of a layer that sources name twice: a list beats an inference, and the DLA's list beats the GPU's."""

from __future__ import annotations

import json
from typing import Any, Dict, List

import pytest

from edgedla.records.engine_info import read_engine_info
from edgedla.records.real_placement import DLA, GPU, Real, _Places, real_of_engine

NAMES = ("a", "b", "c", "d")


def placed(*layers: Dict[str, Any]) -> Real:
    plain = {"Inputs": [], "Outputs": [], "Metadata": ""}
    document = {"Layers": [{**plain, **layer} for layer in layers], "Bindings": []}
    return real_of_engine(read_engine_info(json.dumps(document).encode()), NAMES)


def on_gpu(name: str) -> Dict[str, Any]:
    return {"Name": name, "LayerType": "CaskConvolution"}


def on_dla(name: str, *members: str) -> Dict[str, Any]:
    listed = "\x1e".join(f"[ONNX Layer: {m}]" for m in members)
    return {"Name": f"{{ForeignNode[{name}]}}", "LayerType": "DLA", "Metadata": listed}


@pytest.mark.parametrize("order", [1, -1])
def test_a_layer_listed_on_both_devices_is_on_the_dla(order: int) -> None:
    layers = [on_gpu("b"), on_dla("a...c", "a", "b", "c")][::order]
    assert placed(*layers).devices == {"a": DLA, "b": DLA, "c": DLA}


def test_layers_in_a_range_without_listing_are_inferred() -> None:
    real = placed(on_gpu("b"), on_dla("a...d"))
    assert real.devices == {"a": DLA, "b": GPU, "c": DLA, "d": DLA}
    assert real.inferred == {"c"}


@pytest.mark.parametrize(
    ("steps", "device", "inferred"),
    [
        ([("put", GPU), ("put", DLA)], DLA, False),
        ([("put", DLA), ("put", GPU)], DLA, False),
        ([("put", GPU), ("infer", DLA)], GPU, False),
        ([("infer", DLA)], DLA, True),
        ([("infer", GPU), ("put", DLA)], DLA, False),
        ([("infer", GPU), ("infer", DLA)], GPU, True),
    ],
)
def test_listed_devices_override_inferred_ones_and_dla_overrides_gpu(steps: List[Any], device: str, inferred: bool) -> None:
    places = _Places(NAMES)
    for how, where in steps:
        getattr(places, how)(["b", "no such layer"], where)
    assert places.devices == {"b": device}
    assert ("b" in places.inferred) == inferred
