"""The second large answer: the gain of changes is mentioned if it is notable."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from onnx import numpy_helper

from edgedla import PlacementRequest, pareto, place, predict
from edgedla.importers import load_onnx
from edgedla.placement.check_cost import with_cost
from edgedla.placement.worth.value import Baseline
from edgedla.regions import check_graph
from edgedla.regions.values import SlowerChanges
from edgedla.reports import gains
from edgedla.reports.check.markdown import to_markdown
from edgedla.reports.check.next_command import next_command
from edgedla.reports.check.slower import slower_changes
from edgedla.reports.check.text import to_text
from edgedla.reports.check.view import CheckView
from edgedla.reports.prediction import render_front
from edgedla.reports.table import render_table, table_of_reports
from edgedla.targets import platform_for
from edgedla.text.printable import significant
from tests.models import node, onnx_model

#: A global average between two convolutions keeps parts off the DLA.
MODEL = onnx_model(
    [node("Relu", "x", "a"), node("GlobalAveragePool", "a", "b"), node("Mul", "a b", "c"), node("Relu", "c", "y")],
    {"x": [1, 8, 64, 64]},
    {"y": [1, 8, 64, 64]},
)


@pytest.mark.parametrize(
    ("with_us", "told"),
    [
        (240.0, "but a frame takes 0.240 ms instead of 0.222 ms (predicted)"),
        (222.01, "but a frame takes as long, 0.222 ms (predicted)"),
        # Less than LEAST_GAIN, for which nobody changes a model.
        (221.0, "but a frame takes hardly less, 0.221 ms instead of 0.222 ms (predicted)"),
    ],
)
def test_a_change_that_is_left_out_shows_the_times_with_and_without_it(with_us: float, told: str) -> None:
    report = check_graph(load_onnx(MODEL), platform_for("orin"), "fp16")
    assert told in slower_changes(replace(report, slower=SlowerChanges(("no-identity",), with_us, 222.0)))


@pytest.mark.parametrize(("batch", "told"), [(1, False), (4, True)])
def test_a_frame_of_a_batch_is_noted_as_one(batch: int, told: bool) -> None:
    platform = platform_for("orin", trt="8.5")
    graph = load_onnx(MODEL, trt=platform.release.trt, batch=batch)
    report = with_cost(check_graph(graph, platform, "fp16"), graph)
    said = f"a frame is one run of the network: a batch of {batch}"
    assert (said in to_text((report,), CheckView())) == told
    assert (f"per frame (batch {batch})" in to_text((report,), CheckView(quiet=True))) == told
    assert report.to_dict()["worth"]["batch"] == batch
    assert (said in predict(MODEL, target="orin", trt="8.5", devices="GPU", batch=batch).notes) == told
    assert (said in place(MODEL, target="orin", trt="8.5", batch=batch).notes) == told
    front = pareto(MODEL, PlacementRequest(target="orin", trt="8.5", batch=batch))
    assert (said in front.to_dict()["notes"]) == told
    assert [(said in render_front(front, form)) for form in ("text", "html")] == [told, told]
    table = table_of_reports((report,))
    assert [(said in render_table(table, form)) for form in ("text", "markdown", "html")] == [told] * 3


def test_a_table_weighs_a_fixed_model_against_the_users_own_on_the_gpu() -> None:
    platform = platform_for("orin-nx-16gb")
    graph = load_onnx(MODEL, trt=platform.release.trt)
    report = with_cost(check_graph(graph, platform, "fp16"), graph)
    own = Baseline("fp16", 500.0, 2.5)
    fixed = replace(report, worth=replace(report.worth, baselines=(own,)))  # type: ignore[type-var]
    (row,) = csv.DictReader(StringIO(render_table(table_of_reports([fixed]), "csv")))
    assert [float(row[name]) for name in ("gpu_ms", "gpu_mj", "gpu_fps")] == [0.5, 2.5, 2000.0]
    # The table's figures give its ratio.
    assert float(row["time_ratio"]) == pytest.approx(float(row["dla_ms"]) / float(row["gpu_ms"]), abs=1e-3)


def test_markdown_holds_the_screens_verdict_and_figures() -> None:
    platform = platform_for("orin", trt="8.5")
    graph = load_onnx(MODEL, trt=platform.release.trt)
    report = with_cost(check_graph(graph, platform, "fp16"), graph)
    text = to_markdown((report,), CheckView(files=("a model.onnx",)))
    verdict = gains.verdict(report)
    assert f"**{verdict.word}**: " in text
    assert next_command(report, "a model.onnx") is None
    assert "Next: Nothing to gain from the DLA here" in text
    dla = gains.way(report, "tensorrt")
    assert dla is not None
    assert f"{significant(dla.cost.energy_mj)} mJ" in text


@pytest.mark.parametrize(("positions", "names"), [(400, True), (20, False)])
def test_a_softmax_that_takes_much_of_the_frame_is_named_as_slow(positions: int, names: bool) -> None:
    nodes = [
        node("Conv", "x w", "a", "embed", kernel_shape=[1, 1]),
        node("Softmax", "a", "b", "attention", axis=1),
        node("Conv", "b v", "y", "head", kernel_shape=[1, 1]),
    ]
    weights = [
        numpy_helper.from_array(np.zeros((positions, 16, 1, 1), np.float32), "w"),
        numpy_helper.from_array(np.zeros((8, positions, 1, 1), np.float32), "v"),
    ]
    model = onnx_model(nodes, {"x": [1, 16, 2, positions]}, {"y": [1, 8, 2, positions]}, weights)
    platform = platform_for("orin", trt="8.6")
    graph = load_onnx(model, trt=platform.release.trt)
    report = with_cost(check_graph(graph, platform, "int8"), graph)
    priced = gains.worth_of(report)
    assert priced is not None
    assert [layer.name for layer in priced.slow] == (["attention"] if names else [])
    assert all(layer.dla_us > 5 * layer.gpu_us for layer in priced.slow)
    text = to_text((report,), CheckView())
    for form in (text, to_markdown((report,), CheckView())):
        assert ("attention takes " in form) == names
    assert ("slow on the DLA" in text) == names
    assert ("--layerDeviceTypes=attention:GPU" in text) == names
    assert bool(priced.to_dict()["slow"]) == names
