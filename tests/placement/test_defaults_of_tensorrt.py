"""The cost of the default build that `check` predicts: the same loadables, even if the second look splits a candidate."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

import edgedla
from edgedla.builder.request import PlanOptions
from edgedla.costs.model import CostModel
from edgedla.importers import load_onnx
from edgedla.placement.worth import worth_of
from edgedla.rules import load_rules
from edgedla.targets import platform_for
from tests.models import node, onnx_model

TARGET = "agx-orin-64gb"


def side_branch() -> ModelProto:
    """A chain of two poolings, and beside it an addition that passes the first check only.

    The candidate holds all until the second look splits it, at the network's order. With the addition on the GPU from the
    start the chain stays whole.
    """
    nodes = [
        node("MaxPool", "x", "a0", kernel_shape=[2, 2]),
        node("Add", "x row", "b1"),
        node("MaxPool", "a0", "a1", kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", "b1", "b2"),
        node("Concat", "a1 b2", "y", axis=1),
    ]
    row = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 8)
    return onnx_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 16, 8, 8)}, {"row": row})


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_loadables_are_those_that_check_predicts(precision: str) -> None:
    report = edgedla.check(side_branch(), target=TARGET, precision=precision)
    assert report.totals.regions == 2
    assert [str(layer.cause) for layer in report.layers if str(layer.placed) == "gpu"] in (["unknown"], ["validation"])
    assert [[(cut.kind, cut.layer) for cut in region.cuts] for region in report.regions] == [
        [("validation", 1)]
    ] * 2, "no GPU layer lies between the poolings"
    asked = {"target": TARGET, "precision": precision}
    for word in ("tensorrt", "DLA0"):
        (stream,) = edgedla.predict(side_branch(), devices=word, **asked).streams
        assert {x.layers for x in stream.loadables} == {r.layers for r in report.regions}
    (both,) = {tuple(len(s.loadables) for s in edgedla.predict([side_branch()] * 2, devices=["DLA0", "DLA1"], **asked).streams)}
    assert both == (2, 2)
    baselines = {b.name: b.figures for b in edgedla.place(side_branch(), **asked).baselines}
    assert baselines["tensorrt"].regions["DLA0"] == 2
    assert baselines["tensorrt"].latency.latency_us == pytest.approx(
        edgedla.predict(side_branch(), devices="tensorrt", **asked).streams[0].latency.latency_us
    )


def test_a_plan_with_other_loadables_than_check_notes_it() -> None:
    """A build tells TensorRT which layers are the GPU's, so the second look splits nothing."""
    plan = edgedla.plan_build(side_branch(), edgedla.BuildRequest(target=TARGET))
    assert len(plan.regions) == 1
    assert any(note.startswith("1 loadable; TensorRT by itself makes 2, as `edgedla check` says") for note in plan.notes)
    pinned = edgedla.BuildRequest(target=TARGET, options=PlanOptions(devices={"b1": "GPU"}))
    assert not any("by itself" in note for note in edgedla.plan_build(side_branch(), pinned).notes)


def test_checks_worth_equals_the_prediction_of_its_loadables() -> None:
    platform = platform_for(TARGET)
    graph = load_onnx(side_branch(), trt=platform.release.trt)
    worth = worth_of(graph, platform, load_rules().check(graph, platform, "fp16"), CostModel.load(platform, "fp16"))
    (stream,) = edgedla.predict(side_branch(), devices="tensorrt", target=TARGET, precision="fp16").streams
    assert worth.ways[0].cost.latency_us == pytest.approx(stream.latency.latency_us)


def test_pinned_gpu_layers_give_predict_and_place_the_same_loadables() -> None:
    pins = {layer.name: "DLA0" for layer in edgedla.check(side_branch(), target=TARGET).layers}
    pins.update(b1="GPU")
    (pinned,) = edgedla.predict(side_branch(), devices=pins, target=TARGET).streams
    placed = edgedla.place(side_branch(), target=TARGET, pins="a*:DLA0,b2:DLA0,y:DLA0")
    (stream,) = edgedla.predict(side_branch(), devices=placed, target=TARGET).streams
    assert len(stream.loadables) == len(placed.models[0].regions)
    assert [x.layers for x in stream.loadables] == [x.layers for x in pinned.loadables] == [(0, 2, 3, 4)]
    assert edgedla.verify(placed, [side_branch()]) == ()
