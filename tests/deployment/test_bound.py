"""A latency bound: on the prediction with everything that adds to a frame, or on the measured time of a device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping, Optional

import pytest

from edgedla.deployment import figures
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.details import bound_kept, bound_notes
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.steps import Steps
from edgedla.deployment.store import Store

SLOW: Mapping[str, Any] = {"after": {"latency_us": 130.0}}
FAST: Mapping[str, Any] = {"after": {"latency_us": 90.0}}


def candidate(latency_us: float, bound_us: Optional[float], extra_us: float = 0.0, spread: float = 0.1) -> Candidate:
    predicted = {
        "build": {"latency_us": latency_us, "spread": spread},
        "tensorrt": None,
        "check": {},
        "bound_us": bound_us,
        "bound_kept": bound_us is None or latency_us <= bound_us,
    }
    return Candidate("INT8", 2, Path(), "", "int8", {}, {}, predicted, Path(), extra_us=extra_us)


@pytest.mark.parametrize(
    ("latency_us", "extra_us", "bound_us", "kept"),
    [(100, 0, 100, True), (100, 1, 100, False), (101, 0, 100, False), (99, 1, 100, True), (500, 9, None, True)],
)
def test_the_time_of_fp16_layers_counts_against_the_bound(
    latency_us: float, extra_us: float, bound_us: Optional[float], kept: bool
) -> None:
    one = candidate(latency_us, bound_us, extra_us)
    assert one.bound_kept is bound_kept(one, {}) is kept
    assert one.better_than(candidate(1000, 100), "latency")


def test_a_measured_latency_decides_whether_the_bound_is_kept() -> None:
    assert not bound_kept(candidate(100, 120), SLOW)
    assert bound_kept(candidate(125, 120), FAST)
    assert bound_kept(candidate(125, None), SLOW)


@pytest.mark.parametrize(
    ("one", "measured", "says"),
    [
        (candidate(100, 105), {}, "within its spread a frame may take 110 us; measure it"),
        (candidate(100, 120), {}, "with its whole spread; no board measured it"),
        (candidate(100, None), {}, ""),
        (candidate(130, 120), {}, ""),
        (candidate(100, 105), FAST, ""),
    ],
)
def test_a_bound_checked_by_prediction_alone_is_noted(one: Candidate, measured: Mapping[str, Any], says: str) -> None:
    notes = bound_notes(one, measured)
    assert len(notes) == bool(says)
    assert not says or says in notes[0]


@pytest.mark.parametrize(("bound_us", "kept"), [(100.0, True), (99.9, False), (None, True)])
@pytest.mark.parametrize("place", ["dla", "best"])
def test_the_bound_is_checked_on_the_placement_that_is_built(
    place: str, bound_us: Optional[float], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT's own, at 100 us, or the best one, which the search found within the bound."""
    placed: Any = SimpleNamespace(proof=SimpleNamespace(optimal=True, timed_out=False), to_json=lambda: "{}")
    monkeypatch.setattr("edgedla.placement.api.place", lambda *_, **options: placed)
    monkeypatch.setattr(figures, "own_placement", lambda *_: ({}, []))
    monkeypatch.setattr(figures, "figures_of", lambda *_: ({"latency_us": 50.0}, {"latency_us": 100.0}))
    monkeypatch.setattr(figures, "gpu_alone", lambda *_: {})
    monkeypatch.setattr(figures, "placed_layers", lambda placement: [])
    (tmp_path / "m.onnx").write_bytes(b"")
    request = DeployRequest("agx-orin-64gb", place=place, max_latency_us=bound_us)
    nothing: Any = SimpleNamespace()
    steps = Steps(request, Store(tmp_path / "work"), nothing, nothing, tmp_path / "m.onnx")
    value = steps.predict(tmp_path / "m.onnx", "fp16", "").value
    assert value["build"] == {"latency_us": 100.0 if place == "dla" else 50.0}
    assert value["bound_kept"] is (kept or place == "best")
