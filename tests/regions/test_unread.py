"""Layers that no output depends on: TensorRT's first check includes them, then they are removed."""

from __future__ import annotations

from typing import Any

import pytest

import edgedla
from edgedla.graph import LayerGraph
from edgedla.regions import CheckReport, Placed
from edgedla.regions.fusions import fuse

pytest.importorskip("onnx")

from tests.models import node, ones, onnx_model  # noqa: E402

LIVE = [node("Conv", "x w1", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"), node("Conv", "r w2", "y")]
#: A head whose output was taken out of the model's outputs: a convolution, then what no DLA runs.
HEAD = [node("Conv", "r w2", "head"), node("Erf", "head", "erf"), node("Relu", "erf", "last")]


def model(*more: Any) -> bytes:
    weights = [ones("w1", 8, 3, 3, 3), ones("w2", 4, 8, 1, 1)]
    return onnx_model([*LIVE, *more], outputs={"y": (1, 4, 8, 8)}, constants=weights).SerializeToString()


def check(data: bytes, **asked: Any) -> CheckReport:
    return edgedla.check(data, target="agx-orin-64gb", **asked)


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_unread_layers_change_neither_regions_nor_totals(precision: str) -> None:
    alone, with_head = check(model(), precision=precision), check(model(*HEAD), precision=precision)
    assert [layer.placed for layer in with_head.layers[3:]] == [Placed.FOLDED] * 3
    assert [layer.region for layer in with_head.layers[3:]] == [None] * 3
    assert with_head.regions == alone.regions
    assert with_head.transitions == alone.transitions
    counts, folded = with_head.totals.to_dict(), alone.totals.to_dict()
    assert (counts.pop("layers"), counts.pop("layers_folded")) == (6, 3)
    assert (folded.pop("layers"), folded.pop("layers_folded")) == (3, 0)
    assert counts == folded


@pytest.mark.parametrize("where", ["GPU", "DLA0", "tensorrt"])
def test_unread_layers_cost_nothing(where: str) -> None:
    alone, with_head = (edgedla.predict(m, target="agx-orin-64gb", devices=where).streams[0] for m in (model(), model(*HEAD)))
    assert with_head.latency == alone.latency
    assert (with_head.weight_bytes, with_head.activation_bytes) == (alone.weight_bytes, alone.activation_bytes)


def test_unread_layers_are_folded_in_a_placement() -> None:
    placed = edgedla.place(model(*HEAD), target="agx-orin-64gb")
    assert [layer.why for layer in placed.models[0].layers[3:]] == ["folded"] * 3
    assert edgedla.verify(placed, [model(*HEAD)]) == ()


def test_a_refused_unread_layer_fails_a_strict_build() -> None:
    """The per-layer check runs over the network as imported: DETR's build log names constants that nothing reads."""
    strict = check(model(*HEAD), mode="strict").strict
    assert strict is not None
    assert strict.passes is False
    assert strict.offenders == ("erf",)
    assert "no output depends on" in strict.messages[0]
    fine = check(model(HEAD[0]), mode="standalone").strict
    assert fine is not None
    assert fine.passes is True


def test_an_unknown_unread_layer_leaves_a_strict_build_unknown(net: Any, judge: Any, orin: Any) -> None:
    from edgedla.regions.prediction import predict
    from edgedla.regions.strict import check_strict, known_as

    relu = {"op": "RELU"}
    lines = [("ACTIVATION", name, ["x"], (1, 64, 56, 56), relu) for name in ("a", "b")]
    graph = net(lines, outputs=["a"])
    verdicts = judge(graph, unknown={"b": "who knows"})
    prediction = predict(graph, verdicts, orin, "fp16")
    known = known_as(graph, verdicts, prediction, orin, "fp16")
    strict = check_strict(graph, prediction, orin, "strict", (), known)
    assert (strict.passes, strict.unknowns) == (None, ("T001 at b",))


def test_layers_tied_by_a_loop_are_not_unread(net: Any) -> None:
    """The borders of a loop are tied by more than tensors: they stay, with all that feeds them."""
    lines = [
        ("ACTIVATION", "a", ["x"], (1, 64, 56, 56), {"op": "RELU"}),
        ("ITERATOR", "i", ["a"], (64, 56, 56), {}),
        ("LOOP_OUTPUT", "o", ["i"], (1, 64, 56, 56), {}),
        ("ACTIVATION", "y", ["x"], (1, 64, 56, 56), {"op": "RELU"}),
        ("ACTIVATION", "gone", ["o"], (1, 64, 56, 56), {"op": "RELU"}),
    ]
    graph: LayerGraph = net(lines, outputs=["y"])
    assert graph.unread == {4}
    assert fuse(graph).erased == (4,)
    assert graph.readers("o") == ()
    assert graph.consumers("o") == (4,)
