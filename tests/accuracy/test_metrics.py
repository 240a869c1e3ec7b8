"""Metrics: known values, the coverage of intervals, and labels that do not fit."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.accuracy.fp16_care import fp16_findings
from edgedla.accuracy.metrics import METRICS, Metric, metric_of, paired, require_labels, wilson
from edgedla.accuracy.repair import _tighter
from edgedla.accuracy.scores.intervals import mean_interval
from edgedla.accuracy.scores.judgement import EXCEEDED, judge
from edgedla.accuracy.scores.labels import boxes_fault
from edgedla.accuracy.split_samples import keep_apart
from edgedla.errors import DataError, UsageError
from edgedla.quantization.collect import Collection
from edgedla.quantization.histogram import Histogram
from edgedla.quantization.samples import InputSpec, Samples
from tests.frozen import changeable

SCORES = {"y": np.asarray([[0.1, 0.7, 0.2]])}


def test_top1_and_top5() -> None:
    assert [METRICS["top1"].of_sample(SCORES, label, None) for label in (0, 1, 2)] == [0.0, 1.0, 0.0]
    assert METRICS["top5"].of_sample(SCORES, 0, None) == 1.0
    with pytest.raises(DataError, match="class 3, and the network has 0 to 2"):
        METRICS["top1"].of_sample(SCORES, 3, None)
    with pytest.raises(UsageError, match="the network has 2"):
        METRICS["top1"].of_sample({**SCORES, "z": SCORES["y"]}, 0, None)


#: Outputs, worse ones, and the label, by metric.
GOOD_AND_WORSE = {
    **dict.fromkeys(("top1", "top5"), (np.eye(7)[3], -np.eye(7)[3], 3)),
    "miou": (np.eye(4).reshape(1, 4, 1, 4), np.eye(4)[::-1].reshape(1, 4, 1, 4), np.arange(4).reshape(1, 4)),
    **dict.fromkeys(("cosine", "l2"), (np.arange(4.0), np.ones(4), None)),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_1_for_perfect_outputs_and_lower_for_worse_ones(name: str) -> None:
    assert name in GOOD_AND_WORSE, "add outputs that this metric calls perfect, and worse ones"
    good, worse, label = GOOD_AND_WORSE[name]
    metric = METRICS[name]
    figures = [metric.figure([metric.of_sample({"y": outputs}, label, {"y": good})] * 3) for outputs in (good, worse)]
    assert figures[0] == pytest.approx(1.0)
    assert figures[1] < figures[0]


def test_top1_and_miou_refuse_batched_outputs_with_one_label() -> None:
    with pytest.raises(UsageError, match="a batch of 1"):
        METRICS["top1"].of_sample({"y": np.zeros((4, 5))}, 0, None)
    with pytest.raises(UsageError, match="a batch of 1"):
        METRICS["miou"].of_sample({"y": np.zeros((4, 3, 2, 2))}, np.zeros((2, 2)), None)
    assert METRICS["top1"].of_sample({"y": np.asarray([0.1, 0.9])}, 1, None) == 1.0


def test_nan_scores_are_never_counted_correct() -> None:
    nothing = {"y": np.full((1, 3), np.nan)}
    assert [METRICS["top1"].of_sample(nothing, label, None) for label in (0, 1, 2)] == [0.0, 0.0, 0.0]
    assert METRICS["top5"].of_sample(nothing, 0, None) == 0.0
    partly = {"y": np.asarray([[np.nan, 0.7, 0.2]])}
    assert METRICS["top1"].of_sample(partly, 1, None) == 0.0


@pytest.mark.parametrize(("metric", "right"), [("top1", 1), ("top5", 5)])
def test_of_equal_scores_the_first_classes_win(metric: str, right: int) -> None:
    """Otherwise a network of constant outputs is right about every sample."""
    constant = {"y": np.full((1, 9), 0.5)}
    assert [METRICS[metric].of_sample(constant, label, None) for label in range(9)] == [1.0] * right + [0.0] * (9 - right)


def test_the_interval_of_a_paired_difference_adds_half_a_sample_to_each_cell() -> None:
    """By hand: (3 - 1) / 12 -+ 1.96 sqrt(3 + 1 + 1 - 4 / 12) / 12."""
    half = 1.959964 * math.sqrt(5 - 4 / 12) / 12
    assert paired(3, 1, 10) == pytest.approx((2 / 12 - half, 2 / 12 + half), abs=1e-6)
    assert paired(0, 0, 0) == (-1.0, 1.0)
    half = 1.959964 * math.sqrt(61 - 400 / 102) / 102
    assert paired(40, 20, 100) == pytest.approx((20 / 102 - half, 20 / 102 + half), abs=1e-6)
    assert paired(20, 40, 100) == pytest.approx((-20 / 102 - half, -20 / 102 + half), abs=1e-6)


@pytest.mark.parametrize(("count", "judged", "result"), [(31, 31, 31), (32, 16, 16), (33, 16, 17)])
def test_half_of_the_held_out_samples_is_kept_apart_from_32_on(count: int, judged: int, result: int) -> None:
    first, last = keep_apart(Samples([{"x": np.zeros(1)}] * count, False, "data"))
    assert (len(first.feeds), len(last.feeds)) == (judged, result)


def test_cosine_is_against_the_reference() -> None:
    metric = METRICS["cosine"]
    assert metric.of_sample({"y": np.asarray([1.0, 0.0])}, None, {"y": np.asarray([1.0, 1.0])}) == pytest.approx(0.5**0.5)
    assert metric.of_sample({"y": np.zeros(2)}, None, {"y": np.zeros(2)}) == 1.0


def test_miou_is_over_all_pixels_of_all_samples() -> None:
    scores = np.zeros((1, 2, 1, 4))
    scores[0, 1, 0, 2:] = 1.0
    metric = METRICS["miou"]
    values = [metric.of_sample({"y": scores}, np.asarray([[0, 1, 1, 255]]), None)]
    # Class 0: found 0, 1; true 0 -> 1/2. Class 1: found 2; true 1, 2 -> 1/2. The last pixel does not count.
    assert metric.figure(values) == pytest.approx(0.5)
    with pytest.raises(DataError, match="a mask of"):
        metric.of_sample({"y": scores}, np.zeros((2, 2)), None)


def test_miou_of_argmax_classes_counts_classes_never_predicted() -> None:
    metric = METRICS["miou"]
    truth = np.asarray([[0, 0, 1, 255]])
    for found in (np.zeros((1, 1, 4), np.int64), np.zeros((1, 1, 1, 4), np.int64), np.zeros((1, 4), np.float32)):
        # Class 0: found three times, true twice. Class 1: never found.
        assert metric.figure([metric.of_sample({"y": found}, truth, None)]) == pytest.approx((2 / 3 + 0) / 2)


def test_miou_of_one_channel_of_scores_is_refused() -> None:
    with pytest.raises(UsageError, match="two classes or more"):
        METRICS["miou"].of_sample({"y": np.full((1, 1, 1, 4), 0.3)}, np.zeros((1, 4)), None)


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilsons_interval_contains_the_share_and_lies_within_0_and_1(hits: int, more: int) -> None:
    count = hits + more
    low, high = wilson(hits, count)
    assert 0 <= low <= hits / count <= high <= 1
    assert high - low > 0


def test_wilsons_interval_matches_published_values() -> None:
    # 81 of 263: 0.2553 to 0.3662 (Newcombe 1998, table I, method 3).
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_a_paired_difference_is_narrower_than_its_parts() -> None:
    rng = np.random.default_rng(0)
    first = (rng.random(500) < 0.9).astype(float)
    second = first.copy()
    second[:5] = 0.0
    low, high = METRICS["top1"].difference_interval(list(first), list(second))
    assert 0 <= low < high < 0.03


def test_agreement_on_few_samples_leaves_a_wide_interval_of_the_difference() -> None:
    agreed = [1.0] * 20
    low, high = METRICS["top1"].difference_interval(agreed, agreed)
    # One that is wrong on a tenth of all agrees on 20 with a chance of 12 %.
    assert low == -high
    assert 0.05 < high < 0.15
    assert METRICS["top1"].difference_interval([1.0] * 5, [0.0] * 5)[1] == 1.0


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_the_interval_of_a_difference_covers_it_in_95_percent_of_trials(share: float) -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(400):
        first = (rng.random(100) < 0.9).astype(float)
        second = np.where(rng.random(100) < share, 0.0, first)
        low, high = METRICS["top1"].difference_interval(list(first), list(second))
        held.append(low <= 0.9 * share <= high)
    assert np.mean(held) > 0.93


@pytest.mark.parametrize("name", ["l2", "cosine"])
def test_closeness_metrics_ignore_matching_infinities(name: str) -> None:
    """One infinite value made both 0, of any output: every step held the metric."""
    metric = METRICS[name]
    want = {"y": np.array([1.0, 2.0, -np.inf])}
    assert metric.of_sample(want, None, want) == pytest.approx(1)
    assert metric.of_sample({"y": np.array([1.0, 1.0, 5.0])}, None, want) < 0.99
    none = {"y": np.full(3, np.nan)}
    assert not math.isfinite(metric.of_sample(none, None, none))
    assert not math.isfinite(metric.of_sample(none, None, want))


def test_a_user_metric_is_loaded_by_module_and_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metric.py").write_text("def peak(outputs, label):\n    return outputs['y'].max()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    metric = metric_of("own_metric:peak")
    assert metric.figure([metric.of_sample(SCORES, None, None)]) == pytest.approx(0.7)
    sys.modules.pop("own_metric")
    for wrong in ("guess", "own_metric:", "no_such_module_here:f", "own_metric:nothing"):
        with pytest.raises(UsageError):
            metric_of(wrong)


def test_top1_with_fewer_folders_than_classes_is_refused() -> None:
    def fault(metric: str, **samples: Any) -> str:
        with pytest.raises(DataError) as raised:
            require_labels(METRICS[metric], Samples((), False, "pictures", **samples), {"y": np.zeros((1, 10))})
        return str(raised.value)

    assert "needs labels" in fault("top1")
    text = fault("top5", labels=[0], class_folders=3)
    assert "3 folders of pictures for 10 classes of the network" in text
    assert "--classes" in text
    for metric, folders, outputs in (
        ("top1", 10, {"y": np.zeros((1, 10))}),
        ("top1", 0, {"y": np.zeros((1, 10))}),
        ("top1", 3, None),
        ("l2", 3, {"y": np.zeros(10)}),
    ):
        require_labels(METRICS[metric], Samples((), False, "pictures", [0], class_folders=folders), outputs)


def test_a_nan_difference_gives_a_nan_interval_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    low, high = METRICS["l2"].difference_interval([math.nan] * 3, [1.0] * 3)
    assert math.isnan(low)
    assert math.isnan(high)
    assert not recwarn.list


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_infinite_outputs_have_no_figure_and_no_warning_of_numpy(metric: str, recwarn: Any) -> None:
    infinite = {"y": np.array([np.inf, np.inf])}
    assert math.isnan(METRICS[metric].of_sample(infinite, None, infinite))
    assert [str(w.message) for w in recwarn] == []


def test_networks_of_other_inputs_are_not_compared() -> None:
    from edgedla.accuracy.evaluate import Network, evaluate

    def network(name: str, *specs: InputSpec) -> Network:
        return Network(name, "fp32", specs, ("y",), lambda feed: {"y": np.zeros(1)})

    x = np.zeros((1, 3, 4, 4), np.float32)
    samples = Samples([{"x": x}], detail="one", synthetic=False)
    one, four = (network(f"n{n}", InputSpec("x", (n, 3, 4, 4), np.float32)) for n in (1, 4))
    with pytest.raises(UsageError, match="n1 takes x 1x3x4x4; n4 takes x 4x3x4x4"):
        evaluate(one, samples, METRICS["l2"], four)
    with pytest.raises(UsageError, match="n1 takes x 1x3x4x4; other takes images 1x3x4x4"):
        evaluate(one, samples, METRICS["l2"], network("other", InputSpec("images", (1, 3, 4, 4), np.float32)))


def test_the_difference_of_two_networks_is_of_the_first_to_the_second_with_its_interval() -> None:
    from edgedla.accuracy.evaluate import Network, evaluate

    def network(name: str, value: float) -> Network:
        return Network(name, "fp32", (InputSpec("x", (1,), np.float32),), ("y",), lambda feed: {"y": feed["x"] + value})

    def read(outputs: Any, label: Any, reference: Any) -> float:
        return float(outputs["y"][0])

    samples = Samples([{"x": np.full(1, n, np.float32)} for n in range(8)], detail="eight", synthetic=False)
    for metric in (Metric("mean", read, needs_labels=False), Metric("sum", read, combine=sum, needs_labels=False)):
        found = evaluate(network("a", 0.5), samples, metric, network("b", 0.25))
        assert found.difference is not None
        factor = 1 if metric.combine is None else len(samples.feeds)
        # Sample by sample they differ by the same, so that nothing is left to chance.
        assert found.difference == pytest.approx((0.25 * factor,) * 3)
        assert found.score.value > (found.against.value if found.against else math.inf)


@pytest.mark.parametrize(("given_", "taken", "runs"), [("f", np.float16, "e"), ("f", np.int64, "f"), ("q", np.float16, "q")])
def test_only_floats_are_cast_to_the_type_that_a_network_takes(given_: str, taken: type, runs: str) -> None:
    from edgedla.accuracy.evaluate import Network, _fed

    network = Network("n", "fp32", (InputSpec("x", (1,), taken),), ("y",), lambda feed: {})
    fed = _fed({"x": np.ones(1, given_), "other": np.ones(1, "f")}, network)
    assert (fed["x"].dtype.char.lower().replace("l", "q"), fed["other"].dtype.char) == (runs, "f")


@pytest.mark.parametrize(
    ("metric", "most", "ok"), [("l2", 0.1, True), ("l2", 0.09, False), ("l2", None, True), (None, 0.1, True), (None, None, True)]
)
def test_repairs_are_judged_by_a_drop_only_where_metric_and_limit_are_given(
    metric: Any, most: Any, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgedla.accuracy.phases import repairs

    monkeypatch.setattr(repairs, "metric_values", lambda *_: ([1.0], [0.9]))
    request = SimpleNamespace(metric=metric and METRICS[metric], max_drop=most)
    phase: Any = SimpleNamespace(job=SimpleNamespace(request=request), state=SimpleNamespace(judged=None))
    simulation: Any = None
    assert repairs.Repairs._drop_ok(phase, simulation) is ok


@pytest.mark.parametrize(("count", "t"), [(2, 12.7062), (5, 2.7764), (11, 2.2281), (31, 2.0423), (101, 1.984)])
def test_the_interval_of_a_mean_is_students(count: int, t: float) -> None:
    """Published values of t, 97.5 %."""
    values = [float(n % 2) for n in range(count)]
    low, high = mean_interval(values)
    assert (low + high) / 2 == pytest.approx(np.mean(values))
    assert (high - low) / 2 / (np.std(values, ddof=1) / math.sqrt(count)) == pytest.approx(t, abs=3e-4)


@pytest.mark.parametrize(("number", "fits"), [(-1, True), (0, True), (65535, True), (65536, False), (-2, False), (0.5, False)])
def test_classes_of_boxes_are_whole_numbers_below_65536(number: float, fits: bool) -> None:
    said = boxes_fault([[number, 2.0, 2.0, 9.0, 9.0]], 16, 16)
    assert said == "" if fits else said.startswith(f"class {number:g}, and classes are whole numbers from 0 to 65535")


@pytest.mark.parametrize(
    ("fallen", "max_drop", "exceeded"),
    [(0, 0.0, False), (2, 0.25, False), (3, 0.25, True), (8, 0.99, True), (8, 1.0, False), (0, math.nan, True)],
)
def test_a_drop_beyond_the_limit_is_exceeded_and_the_limit_itself_is_not(fallen: int, max_drop: float, exceeded: bool) -> None:
    found = judge(METRICS["top1"], [1.0] * 8, [0.0] * fallen + [1.0] * (8 - fallen), max_drop)
    assert (found.answer == EXCEEDED) is exceeded
    assert found.drop == fallen / 8


@pytest.mark.parametrize(("backend", "kind", "named"), [("host", "onnx", True), ("host", "chain", False), ("trt", "onnx", False)])
def test_the_first_layer_of_nan_is_named_where_a_single_model_is_simulated(backend: str, kind: str, named: bool) -> None:
    from edgedla.accuracy.evaluate import first_fault_of

    artifact: Any = SimpleNamespace(backend=backend, kind=kind)
    assert (first_fault_of(artifact) is not None) is named


def test_the_document_names_both_ends_of_a_difference() -> None:
    from edgedla.accuracy.evaluate import Evaluation, Score

    score = Score("n", "fp32", "l2", 0.9, 0.8, 1.0, 8)
    assert Evaluation(score, score, (0.1, -0.05, 0.25)).to_dict()["difference"] == {"value": 0.1, "low": -0.05, "high": 0.25}
    assert Evaluation(score).to_dict()["difference"] is None


@pytest.mark.parametrize(("value", "lossy"), [(2.0**-22, True), (1e-6, True), (1.6e-6, True), (1.8e-6, False)])
def test_the_sqnr_of_small_values_is_that_of_fp16s_least_step(value: float, lossy: bool) -> None:
    """Rounding to steps of 2**-24 errs by a twelfth of the step squared; that is told below 40 dB."""
    seen = Histogram()
    seen.add(np.full(100, value, np.float32), value)
    found = fp16_findings(Collection({"t": seen}), ["t"])
    expected = 10 * math.log10(12 * value**2 * 2.0**48)
    assert [(f.problem, f.sqnr_db) for f in found] == [("underflow", pytest.approx(expected, abs=0.1))] * lossy


@pytest.mark.parametrize(("excess", "total"), [(0.0, 1.0), (0.5, 1.0), (0.9, 1.0), (1.0, 1.0), (2.0, 1.0)])
def test_a_choice_that_misses_its_goal_asks_for_more_and_never_for_more_than_all(excess: float, total: float) -> None:
    tighter = _tighter(excess, total)
    assert tighter == total if excess >= total else excess < tighter < total


def test_what_a_score_says_is_not_changed_afterwards() -> None:
    assert changeable("accuracy") == {"Fp16Repair", "Noise", "State", "Witness"}
