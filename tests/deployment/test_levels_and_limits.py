"""Every level of a search on given figures, with what it says of each step; limits of a request; notes, layers and errors of a report."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import pytest

from edgedla.deployment import details, figures
from edgedla.deployment.budget import Budget
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.search import Search, Trial
from edgedla.errors import BudgetSpent, EnvironmentMissing, ModelError, RunError, UsageError

NO_SCORE = {"drop": 0.0, "metric": "top1"}


class Script:
    """Steps whose answers are given by the name of the model: "plain", "fixed fp16", "fixed int8", "rough NAME", "scaled"."""

    def __init__(self, folder: Path, **request: Any) -> None:
        self.folder = folder
        self.us: Dict[str, Any] = {}
        self.drops: Dict[str, float] = {}
        self.fixes: Dict[str, Dict[str, int]] = {}
        self.refused: List[str] = []
        self.scales: Dict[str, Any] = {}
        self.raised: Dict[str, BaseException] = {}
        self.asked: List[str] = []
        self.source = self._file("plain")
        self.converted = ""
        self.store = SimpleNamespace(failed_in="")
        self.parts = SimpleNamespace(calibration=request.pop("calibration", "samples"))
        self.request = SimpleNamespace(
            **{
                "level": 1,
                "objective": "latency",
                "place": "tensorrt",
                "max_drop": 0.005,
                "metric": "top1",
                "approximate": 0.03,
                "platform": {"target": "agx-orin-64gb"},
                **request,
            }
        )

    def _file(self, name: str) -> Path:
        path = self.folder / name
        path.write_text(name)
        return path

    def _asks(self, what: str) -> None:
        self.asked.append(what)
        if what in self.raised:
            self.store.failed_in = what.partition(" ")[0]
            raise self.raised[what]

    def fix(
        self,
        model: Path,
        precision: str,
        title: str,
        approximate: float = 0.0,
        only: Sequence[str] = (),
        opset: Optional[int] = None,
    ) -> Any:
        name = f"rough {only[0]}" if only else f"fixed {precision}" + (f" {opset}" if opset else "")
        assert bool(approximate) is bool(only)
        self._asks(f"fix {model.name} {name} {title}")
        rewrites = self.fixes.get(name, {})
        path = self._file(name) if rewrites else self.folder / "none" / name
        return SimpleNamespace(
            value={"refused": name in self.refused, "rewrites": rewrites, "proof": {"of": name} if rewrites else {}},
            file=lambda kind: path,
        )

    def predict(self, model: Path, precision: str, name: str, scales: Mapping[str, Any] = {}) -> Any:
        self._asks(f"predict {model.name} {precision}")
        us = self.us.get(f"{model.name} {precision}", self.us.get(model.name, 100.0))
        value = {
            "build": {"latency_us": us},
            "tensorrt": None,
            "check": {"share_macs_dla": 1.0, "loadables": 2, "dropped": 0},
            "bound_us": None,
            "bound_kept": True,
            "fp16_extra_us": 1.0,
        }
        return SimpleNamespace(value=value, folder=self.folder, file=lambda kind: self.folder / kind)

    def quantize(self, model: Path, watch: Any) -> Any:
        self._asks(f"quantize {model.name}")
        value = {"met": True, "dead": [], "changed": False, "precisions": {}, "extra_us": 0.0, **self.scales}
        return SimpleNamespace(value=value, folder=self.folder, key="k", file=lambda kind: self._file("scaled"))

    def built(self, candidate: Candidate) -> Candidate:
        self._asks(f"build {candidate.model.name}")
        return replace(candidate, score={**NO_SCORE, "drop": self.drops.get(candidate.model.name, 0.0)})

    def final_score(self, candidate: Candidate) -> Dict[str, Any]:
        return NO_SCORE


def searched(steps: Script) -> Search:
    search = Search(steps, Budget(None), lambda phase, done, of: None)  # type: ignore[arg-type]
    search.run()
    return search


def told(search: Search, level: int) -> List[Tuple[str, str, str]]:
    return [(t.name, t.outcome, t.reason) for t in search.trials if t.level == level]


BEGIN = ("the model as it is", "kept", "where every other step begins")


def test_level_0_builds_the_model_alone(tmp_path: Path) -> None:
    steps = Script(tmp_path, level=0)
    search = searched(steps)
    assert [t.to_dict() for t in search.trials] == [
        {
            "name": BEGIN[0],
            "level": 0,
            "outcome": BEGIN[1],
            "reason": BEGIN[2],
            "before": None,
            "after": 100.0,
            "drop": 0.0,
            "commands": [],
        }
    ]
    assert steps.asked == ["predict plain fp16", "build plain"]
    assert search.best is search.first
    steps = Script(tmp_path, level=0)
    steps.converted = "x"
    assert told(searched(steps), 0)[0][0] != BEGIN[0]


def test_exact_rewrites_that_gain_are_kept_with_their_command(tmp_path: Path) -> None:
    steps = Script(tmp_path)
    steps.fixes = {"fixed fp16": {"a": 2, "b": 1}}
    steps.us = {"fixed fp16": 80.0}
    search = searched(steps)
    (trial,) = (t for t in search.trials if t.level == 1)
    assert trial == Trial(
        "exact rewrites",
        1,
        "kept",
        "predicted 80 us instead of 100 us",
        100.0,
        80.0,
        0.0,
        ("edgedla fix MODEL -o model.onnx --only a,b",),
    )
    assert search.best is not None
    assert (search.best.rewrites, search.best.proof, search.best.placement) == ({"a": 2, "b": 1}, {"of": "fixed fp16"}, None)
    assert [c.model.name for c in search.passed] == ["plain", "fixed fp16"]
    assert "fix plain fixed fp16 rewriting (exact)" in steps.asked


@pytest.mark.parametrize(
    ("us", "drop", "outcome", "reason"),
    [
        (100.0, 0.0, "undone", "predicted 100 us, no better than 100 us"),
        (120.0, 0.0, "undone", "predicted 120 us, no better than 100 us"),
        (80.0, 0.0051, "rejected", "top1 falls by 0.0051, more than 0.005"),
        (80.0, 0.005, "kept", "predicted 80 us instead of 100 us"),
    ],
)
def test_exact_rewrites_have_to_gain_and_to_keep_the_metric(
    us: float, drop: float, outcome: str, reason: str, tmp_path: Path
) -> None:
    steps = Script(tmp_path)
    steps.fixes, steps.us, steps.drops = {"fixed fp16": {"a": 1}}, {"fixed fp16": us}, {"fixed fp16": drop}
    search = searched(steps)
    assert told(search, 1) == [("exact rewrites", outcome, reason)]
    assert search.best is not None
    assert (search.best.model.name == "plain") is (outcome != "kept")
    assert ("build fixed fp16" in steps.asked) is (outcome != "undone")


def test_without_a_rewrite_nothing_is_built(tmp_path: Path) -> None:
    search = searched(Script(tmp_path))
    assert told(search, 1) == [
        ("exact rewrites", "undone", "nothing to rewrite: none applies, or none lowers the predicted cost")
    ]


def test_a_refused_rewrite_is_tried_in_an_older_operator_set(tmp_path: Path) -> None:
    steps = Script(tmp_path)
    steps.refused = ["fixed fp16"]
    steps.fixes, steps.us = {"fixed fp16 17": {"a": 1}}, {"fixed fp16 17": 80.0}
    assert told(searched(steps), 1) == [("exact rewrites", "kept", "predicted 80 us instead of 100 us")]
    assert "fix plain fixed fp16 17 rewriting (exact), operator set 17" in steps.asked


def test_a_model_that_is_refused_may_be_built_after_rewriting(tmp_path: Path) -> None:
    steps = Script(tmp_path)
    steps.raised["predict plain fp16"] = ModelError("the parser refuses it")
    steps.fixes = {"fixed fp16": {"a": 1}}
    search = searched(steps)
    assert told(search, 0) == [("the model as it is", "failed", "the parser refuses it")]
    assert told(search, 1) == [("exact rewrites", "kept", "it can be built now")]
    assert search.first is search.best
    steps.request.level = 0
    with pytest.raises(ModelError, match="the parser refuses it"):
        searched(steps)
    steps.request.level, steps.fixes = 1, {}
    with pytest.raises(ModelError, match="the parser refuses it"):
        searched(steps)


def test_a_model_without_finite_outputs_may_be_built_in_int8(tmp_path: Path) -> None:
    steps = Script(tmp_path, level=2)
    steps.raised["build plain"] = RunError("values beyond FP16")
    steps.raised["quantize plain"] = RunError("also here")
    with pytest.raises(RunError, match="values beyond FP16"):
        searched(steps)
    steps.request.level = 0
    with pytest.raises(RunError, match="values beyond FP16"):
        searched(steps)


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (BudgetSpent("the budget of 3 s is spent"), "skipped", "the budget of 3 s is spent"),
        (EnvironmentMissing("no library"), "skipped", "no library"),
        (RunError("it broke"), "failed", "fix: it broke"),
    ],
)
def test_a_level_that_fails_leaves_the_best_before_it(error: BaseException, outcome: str, reason: str, tmp_path: Path) -> None:
    steps = Script(tmp_path)
    steps.raised["fix plain fixed fp16 rewriting (exact)"] = error
    search = searched(steps)
    assert told(search, 1) == [("exact rewrites", outcome, reason)]
    assert search.best is search.first


def test_int8_needs_samples_and_a_release_without_strong_types(tmp_path: Path) -> None:
    assert told(searched(Script(tmp_path, level=2, calibration=None)), 2) == [
        ("INT8", "skipped", "INT8 needs samples to calibrate on (--data)")
    ]
    typed = Script(tmp_path, level=2, platform={"target": "agx-orin-64gb", "trt": "11.0"})
    ((name, outcome, reason),) = told(searched(typed), 2)
    assert (name, outcome) == ("INT8", "skipped")
    assert reason.startswith("from TensorRT 11 on INT8 is Q/DQ in the model")


@pytest.mark.parametrize(
    ("scales", "metric", "outcome", "reason"),
    [
        ({}, "top1", "kept", "predicted 50 us instead of 100 us"),
        ({"extra_us": 20.0}, "top1", "kept", "predicted 70 us instead of 100 us"),
        ({"extra_us": -20.0}, "top1", "kept", "predicted 50 us instead of 100 us"),
        (
            {"extra_us": 49.5},
            "top1",
            "undone",
            "predicted 99.5 us, hardly better than 100 us: a change that may cost accuracy has to lower the cost by 1%",
        ),
        ({"met": False}, "top1", "rejected", "no scales and no mix with FP16 keep the metric within 0.005"),
        (
            {"met": False},
            "l2",
            "rejected",
            "no scales and no mix with FP16 keep the metric within 0.005; l2 counts every deviation: "
            "try --metric top1, miou or map with labels, or a larger --max-drop",
        ),
        ({"dead": ["a", "b"]}, "top1", "rejected", "INT8 rounds channels away, and no layers in FP16 bring them back: a, b"),
        (
            {"precisions": {"a": "fp16"}, "int8_nodes": 0},
            "top1",
            "rejected",
            "every layer on the DLA would have to stay in FP16 to keep the metric within 0.005",
        ),
        ({"precisions": {"a": "fp16"}, "int8_nodes": 1}, "top1", "kept", "predicted 50 us instead of 100 us"),
        ({"precisions": {"a": "fp16"}}, "top1", "kept", "predicted 50 us instead of 100 us"),
        ({"int8_nodes": 0}, "top1", "kept", "predicted 50 us instead of 100 us"),
    ],
)
def test_what_becomes_of_int8(scales: Dict[str, Any], metric: str, outcome: str, reason: str, tmp_path: Path) -> None:
    steps = Script(tmp_path, level=2, metric=metric)
    steps.us, steps.scales = {"plain int8": 50.0}, scales
    search = searched(steps)
    ((name, got, said),) = told(search, 2)
    assert (name, got, said) == ("INT8", outcome, reason)
    (trial,) = (t for t in search.trials if t.level == 2)
    assert trial.commands == (
        ("edgedla quantize MODEL --data DATA -o quantization",) if "extra_us" in scales or outcome == "kept" else ()
    )
    assert search.best is not None
    assert (search.best.precision, search.best.quantization_key) == (("int8", "k") if outcome == "kept" else ("fp16", ""))


@pytest.mark.parametrize(
    ("scales", "us", "model"),
    [
        ({"changed": True}, 60.0, "scaled"),
        ({"changed": True, "devices": {"a": "GPU"}}, 61.0, "scaled"),
        ({"devices": {"a": "GPU"}}, 51.0, "plain"),
    ],
)
def test_int8_has_the_figures_of_what_is_built(scales: Any, us: float, model: str, tmp_path: Path) -> None:
    steps = Script(tmp_path, level=2)
    steps.us, steps.scales = {"plain int8": 50.0, "scaled int8": 60.0}, scales
    best = searched(steps).best
    assert best is not None
    assert (best.model.name, best.value("latency")) == (model, us)
    assert best.to_dict()["predicted"]["fp16_extra_us"] == (1.0 if "devices" in scales else 0.0)


def test_the_better_predicted_int8_is_calibrated_first(tmp_path: Path) -> None:
    steps = Script(tmp_path, level=2)
    steps.fixes, steps.us = {"fixed int8": {"a": 1}}, {"plain int8": 60.0, "fixed int8": 50.0}
    search = searched(steps)
    assert [(t.name, t.outcome) for t in search.trials if t.level == 2] == [
        ("INT8 and exact rewrites", "kept"),
        ("INT8", "undone"),
    ]
    assert [a for a in steps.asked if a.startswith("quantize")] == ["quantize fixed int8"]
    steps = Script(tmp_path, level=2)
    steps.raised["fix plain fixed int8 rewriting for INT8 (exact)"] = EnvironmentMissing("Python 3.9 is needed")
    assert told(searched(steps), 2)[0] == ("exact rewrites for INT8", "skipped", "Python 3.9 is needed")


def test_approximate_rewrites_add_to_what_is_there(tmp_path: Path) -> None:
    from edgedla.rules.remedies import rewrite_entries

    names = [e.id for e in rewrite_entries().values() if e.equality == "approximate"]
    assert names
    steps = Script(tmp_path, level=3, calibration=None)
    steps.fixes = {"fixed fp16": {"a": 1}, f"rough {names[0]}": {names[0]: 2}}
    steps.us = {"fixed fp16": 90.0, f"rough {names[0]}": 70.0}
    search = searched(steps)
    assert told(search, 3) == [
        (f"approximate: {names[0]}", "kept", "predicted 70 us instead of 90 us"),
        *((f"approximate: {n}", "undone", "it matches nothing here, or lowers no predicted cost") for n in names[1:]),
    ]
    assert search.best is not None
    assert search.best.rewrites == {"a": 1, names[0]: 2}
    assert search.best.level == 3
    assert f"fix fixed fp16 rough {names[0]} rewriting ({names[0]})" in steps.asked


def test_time_is_kept_for_what_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    steps = Script(tmp_path, level=1)
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def built(candidate: Candidate) -> Candidate:
        now[0] += 2.0
        return replace(candidate, score=NO_SCORE)

    def final_score(candidate: Candidate) -> Dict[str, Any]:
        now[0] += 3.0
        return NO_SCORE

    monkeypatch.setattr(steps, "built", built)
    monkeypatch.setattr(steps, "final_score", final_score)
    budget = Budget(100.0)
    search = Search(steps, budget, lambda phase, done, of: None)  # type: ignore[arg-type]
    search.run()
    # One more build, and one final score.
    assert budget.reserve_s == pytest.approx(5.0)
    now[0] = 95.0
    with pytest.raises(BudgetSpent):
        search._watched("calibrating", 1, 2)


# --- Requests


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("level", (0, 1, 2, 3), (-1, 4)),
        ("max_drop", (0.0, 0.5, 7.0), (-0.001, math.inf, math.nan)),
        ("budget_s", (0.001, 1e9), (0.0, -1.0, math.inf, math.nan)),
        ("max_latency_us", (0.001,), (0.0, math.inf)),
        ("objective", ("latency", "throughput", "energy", "gpu-time", "loadables"), ("speed",)),
        ("place", ("best", "dla"), ("gpu",)),
        ("shapes", ({"x": (1, 1)},), ({"x": (0, 1)}, {"x": (1, -1)})),
    ],
)
def test_limits_of_a_request(field: str, good: Tuple[Any, ...], bad: Tuple[Any, ...]) -> None:
    for value in good:
        given: Dict[str, Any] = {field: value}
        assert getattr(DeployRequest(target="orin", **given), field) == value
    for value in bad:
        given = {field: value}
        with pytest.raises(UsageError) as caught:
            DeployRequest(target="orin", **given)
        assert field in str(caught.value)


@pytest.mark.parametrize(("error", "good"), [(0.0, False), (1e-9, True), (0.999, True), (1.0, False), (math.nan, False)])
def test_an_approximate_error_is_between_0_and_1(error: float, good: bool) -> None:
    if good:
        assert DeployRequest(target="orin", level=3, approximate=error).approximate == error
        with pytest.raises(UsageError, match="makes no approximate rewrites"):
            DeployRequest(target="orin", level=2, approximate=error)
    else:
        with pytest.raises(UsageError, match="an error of"):
            DeployRequest(target="orin", level=3, approximate=error)


@pytest.mark.parametrize(
    ("given", "level", "metric", "place", "approximate"),
    [
        ({}, 1, "l2", "best", None),
        ({"data": "random"}, 2, "l2", "best", None),
        ({"data": "random", "level": 0, "metric": "top1"}, 0, "top1", "best", None),
        ({"objective": "loadables"}, 1, "l2", "dla", None),
    ],
)
def test_what_a_request_leaves_open_is_filled_in(
    given: Dict[str, Any], level: int, metric: str, place: str, approximate: Any
) -> None:
    made = DeployRequest(target="orin", **given)
    assert (made.level, made.metric, made.place, made.approximate) == (level, metric, place, approximate)
    assert (made.max_drop, made.backend, made.budget_s) == (0.005, "auto", None)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"holdout": "h"}, "these samples only judge"), ({"place": "dla", "devices": "gpu"}, "TensorRT's own placement")],
)
def test_what_does_not_go_together(given: Dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        DeployRequest(target="orin", **given)


# --- Reports


def best_of(latency: float = 100.0, spread: float = 0.2, bound: Optional[float] = None, **more: Any) -> Any:
    predicted = {"bound_us": bound, "build": {"spread": spread}, "optimal": more.pop("optimal", True)}
    kept = bound is None or latency <= bound
    facts = {
        "predicted": predicted,
        "value": lambda objective: latency,
        "bound_kept": kept,
        "precision": "fp16",
        "quantization": None,
    }
    return SimpleNamespace(**{**facts, **more})


@pytest.mark.parametrize(
    ("bound", "measured_us", "kept", "notes"),
    [
        (None, None, True, []),
        (99.0, None, False, []),
        (
            120.0,
            None,
            True,
            ["the bound of 120 us is kept as predicted (100 us ±20%), with its whole spread; no board measured it"],
        ),
        (
            119.0,
            None,
            True,
            [
                "the bound of 119 us is kept as predicted (100 us ±20%): within its spread a frame may take 120 us; "
                "measure it on the board"
            ],
        ),
        (119.0, 119.0, True, []),
        (119.0, 119.1, False, []),
    ],
)
def test_a_bound_is_kept_as_measured_or_as_predicted(
    bound: Optional[float], measured_us: Optional[float], kept: bool, notes: List[str]
) -> None:
    measured = {} if measured_us is None else {"after": {"latency_us": measured_us}}
    best = best_of(bound=bound)
    assert details.bound_kept(best, measured) is kept
    assert details.bound_notes(best, measured) == notes


@pytest.mark.parametrize(("after_us", "said"), [(102.0, False), (102.1, True), (90.0, False)])
def test_a_build_slower_than_before_is_noted(after_us: float, said: bool) -> None:
    parts: Any = SimpleNamespace(search=SimpleNamespace(synthetic=False))
    artifact: Any = SimpleNamespace(simulated=False)
    measured = {"before": {"latency_us": 100.0}, "after": {"latency_us": after_us}}
    notes = details.notes_of(best_of(), artifact, parts, None, [], measured)
    assert [n.startswith("measured, a frame takes longer") for n in notes] == ([True] if said else [])


def test_notes_say_what_a_figure_is_worth(tmp_path: Path) -> None:
    parts: Any = SimpleNamespace(search=SimpleNamespace(synthetic=True))
    devices = {f"n{i}": "GPU" for i in range(7)}
    (tmp_path / "quantization.json").write_text(json.dumps({"devices": devices}))
    best = best_of(precision="int8", quantization=tmp_path, optimal=False)
    layers = [{"device": "GPU"}, {"device": "DLA0"}, {"device": ""}]
    artifact: Any = SimpleNamespace(simulated=True)
    random, on_gpu, moved, cut = details.notes_of(best, artifact, parts, None, layers, {})
    assert random.startswith("the samples are random numbers")
    assert on_gpu.startswith("1 of 2 layers run on the GPU")
    assert moved == "7 layers moved to the GPU by accuracy: n0, n1, n2, n3, n4, n5, ..."
    assert cut.startswith("the search for the placement was cut short")
    artifact = SimpleNamespace(simulated=False)
    assert len(details.notes_of(best, artifact, parts, None, layers, {})) == 3


def test_twenty_errors_are_named_the_largest_first(tmp_path: Path) -> None:
    errors = [
        {"tensor": f"t{i:02}", "alone_db": i, "accumulated_db": None, "output_share": i / 100 or None, "more": 1}
        for i in range(25)
    ]
    (tmp_path / "quantization.json").write_text(json.dumps({"errors": errors}))
    found = details._errors(best_of(quantization=tmp_path))
    assert [e["tensor"] for e in found] == [f"t{i:02}" for i in range(24, 4, -1)]
    assert found[0] == {"tensor": "t24", "alone_db": 24, "accumulated_db": None, "output_share": 0.24}
    assert details._errors(best_of()) == []


def test_layers_of_a_placement_say_where_and_why() -> None:
    rows = [("a", "DLA0", "fits", 0, ""), ("b", "GPU", "rule", None, "a rule"), ("c", "GPU", "folded", None, "")]
    layers = [SimpleNamespace(name=n, type="CONV", device=d, why=w, region=r, reason=t) for n, d, w, r, t in rows]
    placement: Any = SimpleNamespace(models=[SimpleNamespace(layers=layers)])
    assert figures.placed_layers(placement) == [
        {"name": "a", "type": "CONV", "device": "DLA0", "loadable": 0, "reason": "fits"},
        {"name": "b", "type": "CONV", "device": "GPU", "loadable": None, "reason": "a rule"},
        {"name": "c", "type": "CONV", "device": "", "loadable": None, "reason": "folded"},
    ]


def test_figures_are_plain_numbers() -> None:
    latency = SimpleNamespace(latency_us=1.23456, spread=0.12345, basis="fitted")
    given: Any = SimpleNamespace(
        latency=latency,
        period=SimpleNamespace(latency_us=2.34567),
        throughput_fps=426.31897,
        energy=SimpleNamespace(energy_mj=0.12345678),
        busy_gpu_us=None,
        regions={"DLA0": 2, "DLA1": 1},
    )
    assert figures._plain(given) == {
        "latency_us": 1.235,
        "spread": 0.123,
        "period_us": 2.346,
        "throughput_fps": 426.319,
        "energy_mj": 0.123457,
        "busy_gpu_us": 0.0,
        "loadables": 3,
        "basis": "fitted",
    }
