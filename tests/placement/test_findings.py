"""Errors of version 0.1 found by comparison with 746 published figures, each with its tests.

FINDINGS names the tests; those that stood nowhere else follow. The figures are those of rules/evidence/performance.csv and
of the sources named here.
"""

from __future__ import annotations

import ast
import itertools
import json
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Mapping, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import edgedla
from edgedla.costs.coefficients import coefficients
from edgedla.costs.fit.evidence import load_rows
from edgedla.costs.fit.samples import Sample, samples_of
from edgedla.costs.fit.solve import fit_all, stretch
from edgedla.costs.model import CostModel
from edgedla.costs.networks import network
from edgedla.placement.result.placement import Placement, Proof
from edgedla.reports import render_check
from edgedla.reports.placement import render_placement
from edgedla.reports.placement.text import proof_text
from edgedla.targets import platform_for
from tests.models import node, onnx_model
from tests.placement.placement_models import small_model

TESTS = Path(__file__).resolve().parents[1]
ORIN = {"target": "agx-orin-64gb", "precision": "int8"}

#: Finding -> (what was wrong, the tests that show it mended: file under tests/ and name).
FINDINGS: Mapping[int, Tuple[str, Tuple[str, ...]]] = {
    1: (
        "a recurrent network ends `place` and the HTML page with an error",
        (
            "placement/test_prediction.py::test_a_recurrent_network_is_predicted_as_one_gpu_segment",
            "placement/test_placement_goals.py::test_a_network_with_loops_is_placed_as_brute_force_places_it",
            "placement/test_findings.py::test_a_recurrent_network_is_placed_and_rendered_for_every_objective",
        ),
    ),
    2: (
        "slowdown counts the engines in use, not how busy they are, and stretches arithmetic too",
        (
            "placement/test_prediction.py::test_traffic_slows_an_engine_down_on_its_transfers_alone",
            "placement/test_prediction.py::test_memory_traffic_of_others_slows_transfers_only",
            "placement/test_prediction.py::test_engine_sets_of_resnet50_are_predicted_in_measured_order",
            "placement/test_prediction.py::test_alexnet_on_the_dla_slows_down_as_measured_next_to_a_gpu_network",
        ),
    ),
    3: (
        "a DLA stream's visits to the GPU do not queue behind the GPU's stream",
        (
            "placement/test_prediction.py::test_each_gpu_segment_waits_for_one_frame_of_a_saturating_stream",
            "placement/test_placement_goals.py::test_place_and_predict_agree_on_one_frame_in_flight",
            "placement/test_placement_goals.py::test_the_wait_for_a_full_gpu_is_part_of_the_throughput",
            "placement/test_findings.py::test_resnet50_on_gpu_and_dla_together_is_predicted_within_15_percent",
        ),
    ),
    4: ("the stated spread is the error within the fit", ("costs/test_fit.py::test_the_spread_is_calibrated_on_unseen_sources",)),
    5: (
        "engines with fallback are predicted too fast, with a narrow spread",
        (
            "placement/test_findings.py::test_loadables_of_yolo_on_the_dla_are_within_their_spread",
            "placement/test_findings.py::test_gpu_fallback_widens_the_spread_and_suggests_a_profile",
            "placement/test_findings.py::test_fp16_lookup_tables_cost_by_element_and_slices_by_byte",
        ),
    ),
    6: (
        "an engine that is wholly on the DLA is not charged its call",
        ("placement/test_findings.py::test_a_final_reshape_costs_the_same_implicit_and_explicit",),
    ),
    7: (
        "`nothing runs on the DLA: every placement with it costs more` where the proof was stopped",
        (
            "placement/test_findings.py::test_unproven_placements_are_not_reported_as_optimal",
            "placement/test_findings.py::test_a_stopped_search_does_not_report_that_all_others_cost_more",
        ),
    ),
    8: (
        "a clock that no source states is taken as the highest",
        (
            "costs/test_sweeps.py::test_no_power_mode_is_predicted_faster_than_a_higher_one",
            "costs/test_cost_model.py::test_a_clock_that_no_source_states_makes_a_guess_and_is_named",
        ),
    ),
    9: (
        "the DLA's energy follows its time alone, not its multiply-accumulates",
        (
            "costs/test_energy.py::test_predictions_match_the_published_advantage_of_the_dla_without_being_fitted_to_it",
            "placement/test_findings.py::test_the_dlas_energy_grows_with_its_arithmetic",
        ),
    ),
    10: (
        "the GPU's memory term is faster than the DRAM, its launches do not follow the clock",
        (
            "placement/test_findings.py::test_gpu_time_is_bounded_by_dram_and_launch_time_by_the_clock",
            "costs/test_fit.py::test_networks_of_unseen_sources_lie_within_fifteen_percent",
            "costs/test_fit.py::test_power_modes_lie_within_eight_percent",
        ),
    ),
    11: (
        "no figure says how near to its peak Xavier's DLA runs INT8",
        ("costs/test_fit.py::test_int8_on_xaviers_dla_is_near_the_figures_that_nothing_was_fitted_to",),
    ),
    12: (
        "clocks, formats at the border, and a given assignment cannot be asked for",
        (
            "placement/test_prediction.py::test_lower_clocks_take_longer",
            "placement/test_prediction.py::test_formats_of_the_dla_at_the_border_need_no_reformat",
            "placement/test_prediction.py::test_predict_of_a_placement_equals_place",
            "placement/test_pareto.py::test_an_invalid_placement_request_names_the_mistake",
        ),
    ),
    13: (
        "large throughput problems end at a baseline; equal models and cores are searched twice; the limit is not kept",
        (
            "placement/test_placement_own_sums.py::test_two_equal_models_equal_independent_sums",
            "placement/test_findings.py::test_many_layers_on_three_engines_beat_every_baseline",
            "placement/test_findings.py::test_the_time_limit_counts_from_reading_the_model",
            "placement/test_findings.py::test_the_time_limit_holds_for_the_whole_command",
        ),
    ),
}


def test_every_finding_has_a_test_that_exists() -> None:
    assert sorted(FINDINGS) == list(range(1, 14))
    for _, names in FINDINGS.values():
        for name in names:
            file, _, function = name.partition("::")
            tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
            assert function in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, name


def recurrent_model() -> onnx.ModelProto:
    """Convolution, LSTM over its columns, convolution."""
    w = {"c": (8, 3, 1, 1), "lw": (1, 32, 8), "lr": (1, 32, 8), "d": (8, 8, 1, 1)}
    weights = [numpy_helper.from_array(np.zeros(dims, np.float32), name) for name, dims in w.items()]
    sizes = {"steps": [16, 1, 8], "image": [1, 8, 4, 4]}
    weights += [numpy_helper.from_array(np.array(dims, np.int64), name) for name, dims in sizes.items()]
    nodes = [
        node("Conv", "x c", "a", "conv", kernel_shape=[1, 1]),
        node("Reshape", "a steps", "b", "columns"),
        node("LSTM", "b lw lr", "l", "lstm", hidden_size=8),
        node("Reshape", "l image", "e", "rows"),
        node("Conv", "e d", "y", "last", kernel_shape=[1, 1]),
    ]
    return onnx_model(nodes, {"x": (1, 3, 4, 4)}, {"y": (1, 8, 4, 4)}, weights, name="recurrent")


def test_a_recurrent_network_is_placed_and_rendered_for_every_objective() -> None:
    model = recurrent_model()
    for objective in ("latency", "throughput", "energy"):
        placement = edgedla.place(model, objective=objective, **ORIN)
        assert "lstm" in render_placement(placement, "html", (), False, True)
    both = edgedla.place([model, model], objective="makespan", **ORIN)
    assert both.figures.makespan_us == pytest.approx(both.proof.value)
    report = edgedla.check(model, target="agx-orin-64gb", precision="int8")
    assert "lstm" in render_check([report], "html")


def test_resnet50_on_gpu_and_dla_together_is_predicted_within_15_percent() -> None:
    """AGX Orin, MAXN, INT8, TensorRT 10.3 (embedded-ai-quantization-guide): the DLA's stream beside the GPU's 211 frames/s,
    657 alone; sums within 15 %."""
    graph = network("resnet50_b1")
    beside = edgedla.predict([graph, graph], devices=["GPU", "DLA0"], trt="10.3", **ORIN)
    alone = edgedla.predict(graph, devices="DLA0", trt="10.3", **ORIN)
    assert beside.throughput_fps == pytest.approx(1069, rel=0.15)
    assert beside.streams[1].throughput_fps < 0.5 * alone.throughput_fps
    assert beside.streams[1].throughput_fps == pytest.approx(211, rel=0.5)


@lru_cache(maxsize=None)
def yolo_samples() -> Mapping[str, Sample]:
    """Loadables of YOLO11n at FP16 (1, attention, 3, 4) , and at INT8 YOLO26n's attention and YOLO11n without it, on Orin's DLA."""
    rows = ("p587", "p588", "p656", "p657", "p658", "p659", "p664")
    return {s.row.id: s for use in ("fit", "check") for s in samples_of(load_rows(), use) if s.row.id in rows}


def predicted_us(sample: Sample) -> float:
    """By the carried coefficients; that of an engine's call is the GPU's."""
    values = {"engine": coefficients("gpu-orin").values["engine"], **coefficients(sample.group).values}
    return sum(values[name] * value for name, value in sample.features.items())


@lru_cache(maxsize=None)
def unlocked() -> float:
    """By how much the source of YOLO11n's loadables exceeds boards with locked clocks."""
    fitted = fit_all(samples_of(load_rows(), "fit"))
    return stretch(yolo_samples()["p587"].row, fitted.values())


@pytest.mark.long
def test_loadables_of_yolo_on_the_dla_are_within_their_spread() -> None:
    samples = yolo_samples()
    assert len(samples) == 7
    for sample in samples.values():
        numbers = coefficients(sample.group)
        slower = unlocked() if "unlocked" in sample.row.includes else 1.0
        # What little but tables, slices or a softmax fills has the spread of a single source.
        assert predicted_us(sample) * slower == pytest.approx(sample.time_us, rel=numbers.fixed_spread)


def test_attention_on_the_dla_is_slower_than_on_the_gpu() -> None:
    """A softmax over 2 x 400 x 400: 4.6 ms at INT8 and 5.2 ms at FP16 on a core, 0.16 ms on the GPU (source of row p658)."""
    axis = 400
    nodes = [node("Conv", "x w", "c", "conv", kernel_shape=[1, 1]), node("Softmax", "c", "y", "softmax", axis=1)]
    weights = [numpy_helper.from_array(np.zeros((axis, 16, 1, 1), np.float32), "w")]
    model = onnx_model(nodes, {"x": [1, 16, 2, axis]}, {"y": [1, axis, 2, axis]}, weights)
    for precision, slowest in (("fp16", 8000), ("int8", 8000)):
        on_gpu = edgedla.predict(model, target="agx-orin-64gb", precision=precision, devices="GPU").latency_us
        on_dla = edgedla.predict(model, target="agx-orin-64gb", precision=precision, devices="DLA0").latency_us
        assert 5 * on_gpu < on_dla < slowest


def test_gpu_fallback_widens_the_spread_and_suggests_a_profile() -> None:
    prediction = edgedla.predict(small_model(), devices="DLA0", **ORIN)
    whole = edgedla.predict(small_model(pool=False), devices="DLA0", **ORIN)
    assert prediction.spread > whole.spread
    assert any("--export-profile" in note for note in prediction.notes)
    assert not any("--export-profile" in note for note in whole.notes)


def test_fp16_lookup_tables_cost_by_element_and_slices_by_byte() -> None:
    """Loadables 1, 3 and 4 of YOLO11n at 640 x 640: 9.2, 4.1 and 2.7 million elements in tables, 1.6, 1.0 and none in slices.

    A constant for each table is wrong: YOLO26n at 320 and 640 has as many tables and takes 6.8 and 27.7 ms (rows p663, p661).
    """
    values = coefficients("dla2-fp16").values
    elements = {"p587": (9.216e6, 1.638e6), "p656": (4.096e6, 0.973e6), "p657": (2.7328e6, 0.0)}
    for row, (in_tables, in_slices) in elements.items():
        sample = yolo_samples()[row]
        # At the clock of the mode.
        assert sample.features["lut"] * 1369.6 == pytest.approx(in_tables, rel=0.01)
        assert sample.features.get("slice", 0.0) * 1369.6 == pytest.approx(2 * in_slices, rel=0.01)
    assert 0.1 < values["lut"] < 0.3
    assert 0.5 < values["slice"] < 0.8


def test_a_network_with_slices_is_predicted_at_both_precisions() -> None:
    """YOLO11n without attention, whole on the DLA: 26.8 ms at FP16, 3.8 ms at INT8, neither of which the fit uses.

    What its FP16 loadables say of slices by byte, and of the source's board, holds at INT8 too.
    """
    checked = {s.row.id: s for s in samples_of(load_rows(), "check")}
    for row, time_us in (("p665", 26816), ("p664", 3789)):
        assert predicted_us(checked[row]) * unlocked() == pytest.approx(time_us, rel=0.05)
    int8 = checked["p664"]
    assert coefficients("dla2-int8").values["slice"] * int8.features["slice"] * unlocked() > 0.4 * int8.time_us


def test_yolo26n_on_a_board_with_locked_clocks_is_predicted_without_any_figure_of_it() -> None:
    """FP16 and INT8 at 640 and 320 pixels; at INT8 copies of its attention between GPU and DLA take longer than predicted."""
    checked = {s.row.id: s for s in samples_of(load_rows(), "check")}
    for row, within in (("p661", 0.1), ("p663", 0.1), ("p660", 0.2), ("p662", 0.1)):
        assert predicted_us(checked[row]) == pytest.approx(checked[row].time_us, rel=within)


def test_rows_of_products_on_the_dla_are_predicted_without_any_figure_of_detr() -> None:
    """78.5 ms at INT8 and 399 ms at FP16: rows are samples, and samples cost what NVIDIA's figures at batch 2 say."""
    checked = {s.row.id: s for s in samples_of(load_rows(), "check")}
    for row in ("p675", "p676"):
        sample = checked[row]
        assert predicted_us(sample) == pytest.approx(sample.time_us, rel=0.1)
        rest = coefficients(sample.group).values["sample"] * sample.features["sample"]
        assert predicted_us(sample) - rest < 0.8 * sample.time_us


def test_fp16_below_the_highest_dla_clock_is_less_sure_and_says_what_would_settle_it() -> None:
    """Figures in such modes are 1.4 or 0.6 times as long as those in the highest modes say."""
    graph = network("resnet50_b1")

    def spread(precision: str, mode: str, devices: str = "DLA0") -> Tuple[float, str]:
        found = edgedla.predict(graph, target="agx-orin-64gb", precision=precision, power_mode=mode, devices=devices)
        return found.spread, " ".join(found.notes)

    (top, plain), (below, doubtful) = spread("fp16", "MAXN"), spread("fp16", "30W")
    assert below > top + 0.15
    words = "the clock of DLA0 in this mode from the cost of FP16 layers (±40% for it)"
    assert words in doubtful
    assert words not in plain
    assert words not in spread("int8", "30W")[1]
    assert spread("fp16", "30W", "GPU")[0] == pytest.approx(spread("fp16", "MAXN", "GPU")[0], rel=0.1)
    assert words not in spread("fp16", "30W", "GPU")[1]


def test_yolov5s_without_slices_takes_no_time_for_tables_at_int8() -> None:
    checked = {s.row.id: s for s in samples_of(load_rows(), "check")}["p319"]
    assert "slice" not in checked.features
    assert predicted_us(checked) == pytest.approx(2400, rel=0.1)


def test_a_final_reshape_costs_the_same_implicit_and_explicit() -> None:
    """Both engines are called once, wherever their layers are."""
    weights = [
        numpy_helper.from_array(np.zeros((16, 64, 1, 1), np.float32), "w"),
        numpy_helper.from_array(np.array([1, 16], np.int64), "flat"),
    ]

    def model(explicit: bool) -> onnx.ModelProto:
        nodes = [node("Conv", "x w", "c", "conv", kernel_shape=[1, 1])]
        output, dims = "c", [1, 16, 1, 1]
        if explicit:
            nodes.append(node("Reshape", "c flat", "y", "reshape"))
            output, dims = "y", [1, 16]
        return onnx_model(nodes, {"x": (1, 64, 1, 1)}, {output: dims}, weights, name="end")

    plain, explicit = (edgedla.predict(model(e), devices="DLA0", **ORIN) for e in (False, True))
    call_us = CostModel.load(platform_for("agx-orin-64gb"), "int8").engine().latency_us
    assert plain.latency_us > call_us
    assert explicit.latency_us - plain.latency_us < 0.5 * call_us


def test_unproven_placements_are_not_reported_as_optimal() -> None:
    placement = edgedla.place(small_model(widths=(8,), size=8), **ORIN)
    assert not placement.models[0].regions
    texts = {True: "every placement with it costs more", False: "is not proven"}
    assert any(texts[True] in note for note in placement.notes)
    stopped = replace(
        placement, proof=Proof("highs", placement.proof.value, 0.5 * placement.proof.value, 0.5, False, True), notes=()
    )
    for page, proven in ((placement, True), (stopped, False)):
        text = render_placement(page, "html", (), False, False)
        assert ("no placement with a loadable costs less" in text) == proven
        assert ("is not proven" in text) != proven
    assert proof_text(stopped) == "best found, at most 50 % from the optimum"


def test_a_stopped_search_does_not_report_that_all_others_cost_more(monkeypatch) -> None:
    from edgedla.placement import api

    solve = api.solve

    def stopped(*problem, **options):
        solution = solve(*problem, **options)
        return replace(solution, bound=0.5 * solution.value, timed_out=True)

    monkeypatch.setattr(api, "solve", stopped)
    placement = edgedla.place(small_model(widths=(8,), size=8), **ORIN)
    assert not placement.models[0].regions
    assert any("that none with it is better is not proven" in note for note in placement.notes)
    assert not any("costs more under the cost model" in note for note in placement.notes)


def test_the_dlas_energy_grows_with_its_arithmetic() -> None:
    energy = CostModel.load(platform_for("agx-orin-64gb"), "int8").energy
    assert energy.of("DLA", 1000.0, 10**9, 1600.0) > energy.of("DLA", 1000.0, 0, 1600.0)
    # Six dense networks in two modes of power imply 0.84 to 1.18 pJ a multiply-accumulate in all.
    graph = network("rn34_backbone_1280x768")
    costs = CostModel.load(platform_for("agx-orin-64gb"), "int8")
    layers = costs.layer_costs(graph)
    mj = sum(layers[i, "DLA"].energy_mj for i in range(len(graph.layers)))
    assert 0.6 < mj / 71.8 < 1.3


def test_gpu_time_is_bounded_by_dram_and_launch_time_by_the_clock() -> None:
    for chip in ("orin", "xavier"):
        values = coefficients(f"gpu-{chip}").values
        assert values["memory"] >= 1.0
        assert values["mac.dense"] >= 1.0
    platform = platform_for("agx-orin-64gb")
    high, low = (CostModel.load(platform, "int8", clocks={"gpu": mhz}).engine().latency_us for mhz in (1300.0, 650.0))
    assert low == pytest.approx(2 * high)


def many_layers(count: int) -> onnx.ModelProto:
    return small_model(widths=(64,) * count, size=28, pool=False)


def baselines_of(placement: Placement) -> float:
    return min(b.figures.period.latency_us for b in placement.baselines if not b.broken)


def test_many_layers_on_three_engines_beat_every_baseline() -> None:
    placement = edgedla.place(many_layers(60), objective="throughput", time_limit_s=5, **ORIN)
    assert placement.proof.value < 0.8 * baselines_of(placement)
    assert placement.proof.gap < 0.02


def test_the_time_limit_counts_from_reading_the_model(monkeypatch) -> None:
    """Whatever comes before the solver is taken off its time: with all of it gone, the best start is returned."""
    from edgedla.placement import api, deadline

    given = []
    solve = api.solve

    def timed(*problem, deadline, **options):
        given.append(deadline.left_s)
        return solve(*problem, deadline=deadline, **options)

    ticks = itertools.count(0.0, 3.0)
    monkeypatch.setattr(api, "solve", timed)
    monkeypatch.setattr(deadline.time, "thread_time", lambda: next(ticks))
    edgedla.place(small_model(), objective="throughput", time_limit_s=20.0, **ORIN)
    assert given
    assert given[0] <= 20.0 - 2 * 3.0


def test_the_time_limit_holds_for_the_whole_command(monkeypatch, tmp_path) -> None:
    """What Python, imports and reading took is over; the rest of a limit that is over already is a good start."""
    from edgedla.cli.main import exit_code_of
    from edgedla.placement import api

    given = []
    solve = api.solve

    def timed(*problem, deadline, **options):
        given.append(deadline.left_s)
        return solve(*problem, deadline=deadline, **options)

    monkeypatch.setattr(api, "solve", timed)
    model = tmp_path / "model.onnx"
    onnx.save(many_layers(12), str(model))
    command = ["place", str(model), "--objective", "throughput", "--time-limit", "600"]
    command += ["--target", ORIN["target"], "--precision", ORIN["precision"]]
    best = []
    for spent_s in (580.0, 700.0):
        file = tmp_path / f"{spent_s:.0f}.json"
        assert exit_code_of([*command, "-o", str(file)], time.process_time() - spent_s) == 0
        document = json.loads(file.read_text())
        best.append(document["proof"]["value"])
        assert best[-1] < 0.9 * min(b["period"]["latency_us"] for b in document["baselines"] if b["legal"])
    assert 0 < given[0] < 20
    assert given[1] < 0
