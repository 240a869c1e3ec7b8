"""What a deployment counts and quotes: placed layers and MACs, proofs of rewrites, where a score comes from, the time kept free."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Tuple

import pytest

from edgedla.deployment import budget, deploy, details, figures, networks
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.search import Search
from edgedla.errors import BudgetSpent

ROWS = (("a", "dla", 1), ("b", "dla", 20), ("c", "gpu", 300), ("d", "", 4000))


@pytest.mark.parametrize(
    ("moved", "macs_dla", "devices"),
    [
        ((), 21, ["DLA0", "DLA0", "GPU", ""]),
        (("a",), 20, ["GPU", "DLA0", "GPU", ""]),
        (("c",), 21, ["DLA0", "DLA0", "GPU", ""]),
        (("a", "b"), 0, ["GPU", "GPU", "GPU", ""]),
        (("nowhere",), 21, ["DLA0", "DLA0", "GPU", ""]),
    ],
)
def test_layers_that_leave_the_dla_take_their_macs_along(
    monkeypatch: pytest.MonkeyPatch, moved: Tuple[str, ...], macs_dla: int, devices: List[str]
) -> None:
    totals = SimpleNamespace(
        layers=9,
        layers_folded=2,
        layers_dla=5,
        layers_unknown=1,
        macs=4321,
        macs_dla=21,
        regions=3,
        regions_dropped=1,
        transitions=6,
    )
    layers = [SimpleNamespace(name=n, type="T", placed=p, region=0, reason=f"of {n}", macs=m) for n, p, m in ROWS]
    monkeypatch.setattr(figures, "check", lambda *words, **options: SimpleNamespace(totals=totals, layers=layers))
    counts, rows = figures.own_placement(Path("m.onnx"), DeployRequest(target="orin"), "fp16", moved)
    assert [row["device"] for row in rows] == devices
    assert [(row["name"], row["reason"]) for row in rows] == [(n, f"of {n}") for n, _, _ in ROWS]
    assert counts == {
        "layers": 7,
        "layers_dla": 5,
        "layers_unknown": 1,
        "macs": 4321,
        "macs_dla": macs_dla,
        "share_macs_dla": round(macs_dla / 4321, 6),
        "loadables": 3,
        "dropped": 1,
        "transitions": 6,
    }


@pytest.mark.parametrize(
    ("rewrites", "written", "count"), [({}, True, 0), ({"a": 1}, False, 0), ({"a": 1}, True, 1), ({}, False, 0)]
)
def test_proofs_are_quoted_of_rewrites_that_were_made(
    tmp_path: Path, rewrites: Dict[str, int], written: bool, count: int
) -> None:
    proof = {"status": "proven", "equality": "rounding", "rel_l2": 1e-6, "samples": 3}
    if written:
        text = json.dumps({"applied": [{"rewrite": "a", "output": "y", "proof": proof}]})
        (tmp_path / "fixes.json").write_text(text)
    candidate: Any = SimpleNamespace(model=tmp_path / "model.onnx", rewrites=rewrites)
    quoted = {"rewrite": "a", "output": "y", "status": "proven", "equality": "rounding", "rel_l2": 1e-6}
    assert details._proofs(candidate) == [quoted] * count


@pytest.mark.parametrize(("simulated", "basis"), [(True, "simulated"), (False, "measured")])
def test_a_score_says_whether_a_device_computed_it(monkeypatch: pytest.MonkeyPatch, simulated: bool, basis: str) -> None:
    ports = [SimpleNamespace(name=n, shape_nchw=(1, 2), dtype=next(iter(networks.FED_TYPES))) for n in ("x", "y")]
    artifact: Any = SimpleNamespace(inputs=ports[:1], outputs=ports[1:], simulated=simulated)
    monkeypatch.setattr(networks, "ArtifactRunner", lambda a: SimpleNamespace(run=lambda feed: {"y": feed}))
    monkeypatch.setattr(networks, "first_fault_of", lambda a: None)
    network, _ = networks.artifact_network(artifact, "net")
    assert (network.name, network.basis, network.outputs) == ("net", basis, ("y",))
    assert [spec.name for spec in network.inputs] == ["x"]
    assert network.run({"x": 1}) == {"y": {"x": 1}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("now_s", "reserve_s", "alarm_s"),
    [(0.0, 0.0, 10.0), (4.0, 0.0, 6.0), (4.0, 5.0, 1.0), (9.9999, 0.0, 1e-3), (0.0, -1e12, budget.LONGEST_S)],
)
def test_the_alarm_leaves_what_is_kept_free(
    monkeypatch: pytest.MonkeyPatch, now_s: float, reserve_s: float, alarm_s: float
) -> None:
    clock, alarms = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(budget.signal, "setitimer", lambda which, seconds: alarms.append(seconds))
    ten = budget.Budget(10.0)
    clock.now, ten.reserve_s = now_s, reserve_s
    before = signal.getsignal(signal.SIGALRM)
    with ten.bound():
        assert signal.getsignal(signal.SIGALRM) != before
    assert alarms == [pytest.approx(alarm_s), 0.0]
    assert signal.getsignal(signal.SIGALRM) == before
    clock.now = 10.0 - reserve_s
    assert ten.spent
    with pytest.raises(BudgetSpent):
        ten.check()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"metric": "map", "decode": "yolov8"}, {}),
        ({"level": 3, "approximate": 0.01}, {}),
        ({"batch": 4}, {}),
        ({"shapes": {"x": (1, 3, 8, 8)}}, {"shapes": {"x": [1, 3, 8, 8]}}),
        ({"devices": ("gpu", "dla")}, {"devices": ["gpu", "dla"]}),
        ({"max_drop": 0.25}, {}),
        ({"power_mode": "MAXN"}, {}),
        ({"max_latency_us": 900.0}, {}),
        ({"place": "dla"}, {}),
    ],
)
def test_the_document_states_the_request(given: Dict[str, Any], told: Dict[str, Any]) -> None:
    plain = DeployRequest(target="orin").to_dict()
    assert DeployRequest(target="orin", **given).to_dict() == {**plain, **given, **told}


@pytest.mark.parametrize(
    ("given", "shapes", "batch"),
    [
        ({}, None, None),
        ({"batch": 2}, {"x": (2, 3, 32, 32)}, None),
        ({"shapes": {"": (2, 3, 32, 32)}}, {"x": (2, 3, 32, 32)}, None),
        ({"shapes": {"x": (2, 3, 32, 32)}}, {"x": (2, 3, 32, 32)}, None),
    ],
)
def test_steps_know_the_sizes_of_every_input_by_its_name(
    monkeypatch: pytest.MonkeyPatch, model: Path, given: Dict[str, Any], shapes: Any, batch: Optional[int]
) -> None:
    parts = SimpleNamespace(search=SimpleNamespace(feeds=[]))
    monkeypatch.setattr(deploy, "parts_of", lambda *_: parts)
    store: Any = None
    steps, _ = deploy._steps(DeployRequest(target="orin", **given), store, model)
    stated = steps.request.shapes
    assert (stated and {n: tuple(dims) for n, dims in stated.items()}, steps.request.batch) == (shapes, batch)
    assert steps._sizes() == {"shapes": {name: list(dims) for name, dims in (shapes or {}).items()}, "batch": batch}


@pytest.mark.parametrize(
    ("best", "tried", "measured", "told"),
    [
        (200.0, 120.0, None, (200.0, 120.0)),
        (200.0, None, None, (200.0, None)),
        (None, 120.0, None, (None, 120.0)),
        (200.0, None, 90.0, (None, 90.0)),
        (None, None, None, (None, None)),
    ],
)
def test_a_trial_states_the_figure_before_and_after(best: Any, tried: Any, measured: Any, told: Any) -> None:
    def candidate(value: Any) -> Any:
        return None if value is None else SimpleNamespace(value=lambda objective: value)

    search: Any = SimpleNamespace(best=candidate(best), request=SimpleNamespace(objective="latency"), trials=[])
    Search._note(search, "INT8", 2, "kept", "faster", candidate(tried), after=measured)
    assert [(trial.before, trial.after) for trial in search.trials] == [told]
