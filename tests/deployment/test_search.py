"""Which INT8 candidate is calibrated, and which is kept; which candidate wins if the predicted cost is equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest

from edgedla.deployment.budget import Budget
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.search import Search, _text
from edgedla.io.files import sha256_of
from tests.frozen import changeable

PLAIN_US, FIXED_US = 100.0, 104.0


class StepsOfTimes:
    """Steps whose predictions and scales are given: the fixed model is predicted a little slower at INT8."""

    def __init__(self, folder: Path, extra_us: Dict[str, float], unmet: str) -> None:
        self.source, self.fixed = folder / "plain", folder / "fixed"
        for file in (self.source, self.fixed):
            file.write_text(file.name)
        platform = {"target": "agx-orin-64gb"}
        self.request = SimpleNamespace(
            level=2, objective="latency", place="tensorrt", max_drop=0.005, metric=None, platform=platform
        )
        self.parts, self.store = SimpleNamespace(calibration="samples"), SimpleNamespace(failed_in="")
        self.calibrated: List[str] = []
        self.store = SimpleNamespace(failed_in="")
        self.precisions: Dict[str, str] = {}
        self.int8_nodes = 3
        self.converted = ""
        self._extra_us, self._unmet = extra_us, unmet

    def fix(self, model: Path, precision: str, title: str, **options: Any) -> SimpleNamespace:
        # FP16 has no rewrite that helps.
        file = self.fixed if precision == "int8" else self.source / "none"
        return SimpleNamespace(value={"refused": "", "rewrites": {}, "proof": {}}, file=lambda name: file)

    def predict(self, model: Path, precision: str, name: str, scales: Any = None) -> SimpleNamespace:
        latency_us = 200.0 if precision == "fp16" else {"plain": PLAIN_US, "fixed": FIXED_US}[model.name]
        value = {
            "build": {"latency_us": latency_us},
            "tensorrt": None,
            "check": {"share_macs_dla": 1.0},
            "bound_us": None,
            "bound_kept": True,
        }
        return SimpleNamespace(value=value, folder=model.parent)

    def quantize(self, model: Path, watch: Any) -> SimpleNamespace:
        self.calibrated.append(model.name)
        value = {
            "met": model.name != self._unmet,
            "dead": [],
            "changed": False,
            "precisions": self.precisions,
            "int8_nodes": self.int8_nodes,
            "extra_us": self._extra_us.get(model.name, 0.0),
        }
        return SimpleNamespace(value=value, folder=model.parent, key=model.name)

    def built(self, candidate: Candidate) -> Candidate:
        return replace(candidate, score={"drop": 0.0, "metric": "l2"})

    def final_score(self, candidate: Candidate) -> Dict[str, Any]:
        return {"drop": 0.0, "metric": "l2"}


@pytest.mark.parametrize(
    ("extra_us", "unmet", "calibrated", "stands"),
    [
        ({}, "", ["plain"], "plain"),
        ({"plain": 3.0}, "", ["plain"], "plain"),
        # The first needs layers in FP16 that cost more than the second is slower.
        ({"plain": 20.0}, "", ["plain", "fixed"], "fixed"),
        ({"plain": 20.0, "fixed": 30.0}, "", ["plain", "fixed"], "plain"),
        ({}, "plain", ["plain", "fixed"], "fixed"),
        # Layers that left the DLA for the metric are no gain of INT8.
        ({"fixed": -50.0}, "", ["plain"], "plain"),
        ({"plain": 20.0, "fixed": -50.0}, "", ["plain", "fixed"], "fixed"),
    ],
)
def test_the_second_model_is_calibrated_only_if_it_may_be_faster(
    tmp_path: Path, extra_us: Dict[str, float], unmet: str, calibrated: List[str], stands: Optional[str]
) -> None:
    steps = StepsOfTimes(tmp_path, extra_us, unmet)
    search = Search(steps, Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]
    best = search.run()
    assert steps.calibrated == calibrated
    assert (best.precision, best.model.name) == ("int8", stands)
    assert best.value("latency") >= {"plain": PLAIN_US, "fixed": FIXED_US}[best.model.name]


def way(level: int, precision: str, latency_us: float, by_tensorrt_us: float, bound_kept: bool = True) -> Candidate:
    predicted = {
        "build": {"latency_us": latency_us},
        "tensorrt": {"latency_us": by_tensorrt_us},
        "check": {"share_macs_dla": 1.0, "loadables": 1, "dropped": 0},
        "bound_us": None,
        "bound_kept": bound_kept,
    }
    return Candidate("one", level, Path(), "", precision, {}, {}, predicted, Path())


@pytest.mark.parametrize(
    ("new", "kept", "replaces"),
    [
        # The best placement leaves the DLA empty; on the DLA the step would be faster.
        (way(1, "fp16", 200.0, 300.0), way(0, "fp16", 200.0, 900.0), True),
        (way(2, "int8", 200.0, 300.0), way(0, "fp16", 200.0, 900.0), False),
        (way(3, "fp16", 200.0, 300.0), way(1, "fp16", 200.0, 900.0), False),
        (way(3, "int8", 200.0, 300.0), way(3, "int8", 200.0, 900.0), False),
        # Between two in INT8 nothing more is lost.
        (way(2, "int8", 200.0, 300.0), way(2, "int8", 200.0, 900.0), True),
        (way(2, "int8", 197.0, 950.0), way(0, "fp16", 200.0, 900.0), True),
        # Half a percent is within what a prediction can tell.
        (way(2, "int8", 199.0, 300.0), way(0, "fp16", 200.0, 900.0), False),
        (way(1, "fp16", 199.0, 950.0), way(0, "fp16", 200.0, 900.0), True),
        (way(2, "int8", 200.0, 900.0), way(0, "fp16", 200.0, 900.0, bound_kept=False), True),
        (way(2, "int8", 200.0 * (1 - 1e-9), 300.0), way(0, "fp16", 200.0, 900.0), False),
    ],
)
def test_steps_that_may_cost_accuracy_must_lower_the_objective(new: Candidate, kept: Candidate, replaces: bool) -> None:
    assert new.better_than(kept, "latency") is replaces


@pytest.mark.parametrize(
    ("int8_us", "why"),
    [(200.0, "has to lower the cost itself"), (199.0, "hardly better than"), (199.0, "has to lower the cost by 1%")],
)
def test_int8_that_lowers_no_prediction_is_not_calibrated(tmp_path: Path, int8_us: float, why: str) -> None:
    steps = StepsOfTimes(tmp_path, {}, "")
    figures = {"fp16": (200.0, 900.0), "int8": (int8_us, 300.0)}
    steps.predict = lambda model, precision, name, scales: SimpleNamespace(  # type: ignore[method-assign]
        value=way(0, precision, *figures[precision]).predicted, folder=model.parent
    )
    search = Search(steps, Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]
    assert search.run().precision == "fp16"
    assert steps.calibrated == []
    undone = [t.reason for t in search.trials if t.level == 2]
    assert len(undone) == 2
    assert all(why in reason for reason in undone)


def test_int8_with_all_layers_kept_in_fp16_is_rejected(tmp_path: Path) -> None:
    steps = StepsOfTimes(tmp_path, {"plain": 1.0}, "")
    steps.precisions, steps.int8_nodes = {"Conv_1": "fp16"}, 0
    search = Search(steps, Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]
    assert search.run().precision == "fp16"
    rejected = [t for t in search.trials if t.outcome == "rejected"]
    assert len(rejected) == 2
    assert all("every layer on the DLA would have to stay in FP16" in t.reason for t in rejected)
    assert all("or a larger --max-drop" in t.reason for t in rejected)


LIMIT = 0.005


@pytest.mark.parametrize(("drop", "kept"), [(LIMIT, True), (float(np.nextafter(LIMIT, 1)), False), (-1.0, True)])
def test_a_drop_of_exactly_the_limit_is_accepted(tmp_path: Path, drop: float, kept: bool) -> None:
    steps = StepsOfTimes(tmp_path, {}, "")
    steps.built = lambda c: replace(  # type: ignore[method-assign]
        c, score={"drop": drop if c.precision == "int8" else 0.0, "metric": "top1"}
    )
    search = Search(steps, Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]
    assert search.run().precision == ("int8" if kept else "fp16")
    assert ("rejected" in [t.outcome for t in search.trials]) is not kept


@pytest.mark.parametrize(
    ("precision", "share", "kept"),
    [
        ("fp16", 0.9, True),
        ("fp16", 0.9 - 1e-10, True),
        ("fp16", 0.9 - 1e-8, False),
        ("fp16", 1.0, True),
        # Between precisions the share says nothing: INT8 has kernels of its own.
        ("int8", 0.5, True),
    ],
)
def test_a_faster_build_may_not_take_macs_off_the_dla_in_the_same_precision(
    tmp_path: Path, precision: str, share: float, kept: bool
) -> None:
    search = Search(StepsOfTimes(tmp_path, {}, ""), Budget(60.0), lambda phase, done, of: None)  # type: ignore[arg-type]

    def candidate(precision: str, latency_us: float, share: float) -> Candidate:
        one = way(1, precision, latency_us, latency_us)
        return replace(one, predicted={**one.predicted, "check": {"share_macs_dla": share, "loadables": 1, "dropped": 0}})

    search.best = candidate("fp16", 200.0, 0.9)
    why = search._no_gain(candidate(precision, 100.0, share))
    assert (why == "") is kept
    assert kept or "of the MACs can run on the DLA" in why


@pytest.mark.parametrize(
    ("value", "precision", "replaces"),
    [
        # Rounding (SAME) decides nothing; a gain worth a coarser computation (WORTH_ACCURACY) is a hundredth.
        (200.0 * (1 - 2e-6), "fp16", True),
        (200.0 * (1 - 0.9e-6), "fp16", False),
        (200.0 * (1 - 1.01e-2), "int8", True),
        (200.0 * (1 - 0.99e-2), "int8", False),
    ],
)
def test_the_least_gains_are_a_millionth_and_a_hundredth(value: float, precision: str, replaces: bool) -> None:
    kept = way(0, "fp16", 200.0, 900.0)
    assert way(1, precision, value, 900.0).better_than(kept, "latency") is replaces


def test_gpu_time_counts_neither_the_frame_nor_layers_in_fp16(tmp_path: Path) -> None:
    predicted = {"build": {"latency_us": 900.0, "busy_gpu_us": 60.0}, "bound_us": 950.0, "bound_kept": True}
    candidate = Candidate("INT8", 1, tmp_path, "", "int8", {}, {}, {**predicted, "tensorrt": None}, tmp_path, extra_us=30.0)
    assert candidate.value("gpu-time") == 60.0
    assert candidate.bound_kept
    assert not replace(candidate, extra_us=60.0).bound_kept


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        ("latency", "200 us (900 as TensorRT places it)"),
        ("throughput", "150 us between frames (800 as TensorRT places it)"),
        ("energy", "3 mJ"),
        ("gpu-time", "60 us of the GPU"),
        ("loadables", "1 loadables"),
    ],
)
def test_a_gain_is_told_in_the_objectives_unit_and_beside_tensorrts_own_placement(objective: str, text: str) -> None:
    """That is left out where it is equal or not known, and for loadables, which it does not hold."""
    one = way(1, "fp16", 200.0, 900.0)
    build = {"latency_us": 200.0, "period_us": 150.0, "energy_mj": 3.0, "busy_gpu_us": 60.0}
    tensorrt = {"latency_us": 900.0, "period_us": 800.0, "energy_mj": 3.0}
    one = replace(one, predicted={**one.predicted, "build": build, "tensorrt": tensorrt})
    assert _text(one, objective) == text


def test_int8_that_changed_the_model_is_offered_with_the_changed_one(tmp_path: Path) -> None:
    steps = StepsOfTimes(tmp_path, {}, "")
    quantize = steps.quantize
    equalised = tmp_path / "fixed"

    def changes(model: Path, watch: Any) -> SimpleNamespace:
        scales = quantize(model, watch)
        scales.value["changed"], scales.file = True, lambda name: equalised
        return scales

    steps.quantize = changes  # type: ignore[method-assign]
    best = Search(steps, Budget(60.0), lambda phase, done, of: None).run()  # type: ignore[arg-type]
    assert (best.precision, best.model, best.value("latency")) == ("int8", equalised, FIXED_US)
    assert best.model_sha256 == sha256_of(equalised)


def test_trials_and_candidates_are_not_changed_afterwards() -> None:
    assert changeable("deployment") == {"Deployment"}


@pytest.mark.parametrize(("seconds", "scored"), [(None, []), (1e6, ["the model as it is"])])
def test_with_a_budget_the_first_final_score_shows_how_long_the_others_will_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: Optional[float], scored: List[str]
) -> None:
    """Intervals of mAP take longer than the runs, so that the time of a build says little about them."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("edgedla.deployment.search.time", SimpleNamespace(monotonic=lambda: clock.now))
    steps, seen = StepsOfTimes(tmp_path, {}, ""), []

    def taking(taken_s: float, work: Callable[[Candidate], Any]) -> Callable[[Candidate], Any]:
        def step(candidate: Candidate) -> Any:
            clock.now += taken_s
            return work(candidate)

        return step

    monkeypatch.setattr(steps, "built", taking(2.0, steps.built))
    monkeypatch.setattr(steps, "final_score", taking(30.0, lambda c: seen.append(c.name)))
    budget = Budget(seconds)
    search = Search(steps, budget, lambda phase, done, of: None)
    search.run()
    assert seen == scored
    assert len(search.passed) == 2
    # One kept before the last level began and one that it adds; the first is scored already.
    assert budget.reserve_s == (30.0 + 2.0 if scored else 2.0)
