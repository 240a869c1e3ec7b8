"""`check`, `place` and `place --evaluate` give the same figures for one placement, and name every part of a time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Mapping

import pytest

from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.placement.check_cost import with_cost
from edgedla.placement.prediction.predict import predict
from edgedla.placement.problem.problem import Problem
from edgedla.placement.result.document import read_placement
from edgedla.placement.result.placement import Placement
from edgedla.regions import check_graph
from edgedla.reports import gains
from edgedla.reports.fixes.text import ROWS
from edgedla.reports.page.numbers import milliseconds
from edgedla.reports.placement import render_placement
from edgedla.reports.prediction import render_prediction
from edgedla.reports.words import macs_text
from edgedla.targets import platform_for
from tests.models import node, ones, onnx_model

PLATFORM: Mapping[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "fp16"}
MODEL = onnx_model(
    [
        node("Conv", "x w", "a", kernel_shape=[3, 3], strides=[2, 2]),
        node("Relu", "a", "b"),
        node("Conv", "b v", "c", kernel_shape=[3, 3]),
        node("BatchNormalization", "c s s s s", "d"),
        node("Relu", "d", "y"),
    ],
    {"x": (1, 3, 64, 64)},
    {"y": (1, 8, 29, 29)},
    [ones("w", 8, 3, 3, 3), ones("v", 8, 8, 3, 3), ones("s", 8)],
)


@pytest.fixture(scope="module")
def placement() -> Placement:
    return place(MODEL, **PLATFORM, pins="*:DLA0")


def test_the_parts_of_a_placements_latency_add_up_to_it(placement: Placement) -> None:
    """The call of the engine stood in no line: a whole-DLA model showed a loadable and a busier core."""
    (model,) = placement.models
    assert model.call is not None
    assert model.call.device == "DLA0"
    loadables = sum(r.cost.latency_us for r in model.regions)
    moved = sum(t.cost.latency_us for t in model.transitions)
    loads = placement.figures.loads
    assert loads["DLA0"].latency_us == pytest.approx(loadables + model.call.cost.latency_us)
    assert model.latency.latency_us == pytest.approx(loadables + moved + model.call.cost.latency_us)
    text = render_placement(placement, "text")
    assert f"the call of the engine, once per frame: {model.call.cost.latency_us:.1f} us of DLA0" in text


def test_a_placement_document_keeps_the_call_cost_and_reads_without_it(placement: Placement, tmp_path: Any) -> None:
    file = tmp_path / "placement.json"
    file.write_text(placement.to_json(), encoding="utf-8")
    assert read_placement(file).to_json() == placement.to_json()
    (model,) = placement.models
    older = replace(placement, models=(replace(model, call=None),))
    file.write_text(older.to_json(), encoding="utf-8")
    assert "engine, once" not in render_placement(read_placement(file), "text")


def test_a_divided_operator_is_a_part_of_the_latency() -> None:
    placement = place(MODEL, **PLATFORM, pins="c:DLA0,d:GPU,*:DLA0")
    (model,) = placement.models
    assert model.torn
    assert model.call is not None
    layers = [x.costs[x.device].latency_us for x in model.running if x.region is None and x.costs]
    parts = [*(r.cost for r in model.regions), *(t.cost for t in model.transitions), model.call.cost]
    total = sum(layers) + sum(cost.latency_us for cost in (*parts, *(x.cost for x in model.torn)))
    assert model.latency.latency_us == pytest.approx(total)
    assert "operators that are divided between devices cost more" in render_placement(placement, "text")


def test_check_and_predict_name_the_parts_of_latency_alike(placement: Placement) -> None:
    platform = platform_for("agx-orin-64gb", trt="10.3")
    graph = load_onnx(MODEL, trt=platform.release.trt)
    report = with_cost(check_graph(graph, platform, "fp16"), graph)
    as_checked = gains.way(report, "tensorrt")
    assert as_checked is not None
    prediction = predict(MODEL, **PLATFORM, devices="DLA0")
    (stream,) = prediction.streams
    assert stream.parts == as_checked.parts
    assert gains.parts_text(as_checked.parts) in render_prediction(prediction, "text")
    busy_us = placement.figures.loads["GPU"].latency_us
    assert as_checked.parts.busy_gpu_us == pytest.approx(busy_us)
    # Reformats are kernels of the GPU: a model that is wholly on the DLA does not leave it free.
    gpu_time = next(row for row in gains.axis_rows(report) if row.axis.name == "gpu")
    assert busy_us > 0
    assert gpu_time.note == "of a frame, reformats included"
    assert gpu_time.value == milliseconds(busy_us)


def test_place_and_predict_count_the_layers_of_a_loadable_alike() -> None:
    """TensorRT merges a Gemm's addition into it, and its caps count what is left."""
    gemm = onnx_model([node("Gemm", "x g b", "y")], {"x": (1, 8)}, {"y": (1, 4)}, [ones("g", 8, 4), ones("b", 4)])
    placement = place(gemm, **PLATFORM, pins="*:DLA0")
    (region,) = placement.models[0].regions
    (loadable,) = predict(gemm, **PLATFORM, devices="DLA0").streams[0].loadables
    assert region.size < len(region.layers) == len(loadable.layers)
    text = render_placement(placement, "text")
    assert "layers (fused)" in text
    assert f"{len(region.layers)} ({region.size})" in text


def test_a_slowdown_that_rounds_to_0_percent_is_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def notes(gpu: float) -> str:
        factors = {"GPU": gpu, "DLA0": 1.001}
        monkeypatch.setattr(Problem, "factor", lambda self, engines, device: factors[device] if len(engines) > 1 else 1.0)
        placed = place(MODEL, **PLATFORM, pins="a:DLA0,c:GPU", devices=("GPU", "DLA0"))
        return "\n".join(placed.notes)

    assert "slows them down" not in notes(1.002)
    assert "their memory traffic slows them down: GPU 1.20x" in notes(1.2)
    assert "DLA0 1.00x" not in notes(1.2)


def test_predict_does_not_use_places_term_side_by_side() -> None:
    """`side by side` is one frame of every model in `place`; beside streams that go on, a frame takes another time."""
    names = replace(load_onnx(MODEL), name="first"), replace(load_onnx(MODEL), name="second")
    text = render_prediction(predict(list(names), **PLATFORM, devices=["GPU", "DLA0"]), "text")
    assert "while the other models keep running" in text
    assert "side by side" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    macs = dict(ROWS)["MACs"]
    assert macs(SimpleNamespace(macs=31_311_360)) == macs_text(31_311_360) == "31.3 M"  # type: ignore[arg-type]
