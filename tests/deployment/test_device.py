"""On a device a step must confirm its prediction: one that measures slower is undone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping, Tuple

import pytest

from edgedla.deployment.device import on_device

Figures = Tuple[float, float]


class Device:
    """Answers as `Steps` does. Candidates by name: (latency in us, drop of the metric); what was asked for, in order."""

    def __init__(self, figures: Mapping[str, Figures]) -> None:
        self.figures, self.asked = figures, []  # type: Mapping[str, Figures], List[str]

    def build(self, candidate: Any, backend: str) -> Any:
        assert backend == "tensorrt"
        return SimpleNamespace(file=lambda name: Path(candidate.name), value={"digest": candidate.name})

    def measure(self, folder: Path, digest: str, name: str) -> Any:
        self.asked.append(name)
        latency = self.figures[name][0]
        return SimpleNamespace(value={"latency_us": latency, "throughput_fps": 2e6 / latency, "frames": 100})

    def score(self, folder: Path, digest: str, part: str, name: str) -> Any:
        assert part == "final"
        return SimpleNamespace(value={"metric": "top1", "drop": self.figures[digest][1]})


def deployed(figures: Mapping[str, Figures], objective: str, monkeypatch: pytest.MonkeyPatch) -> Tuple[Any, Device]:
    monkeypatch.setattr("edgedla.builder.building.backend_of", lambda name: "tensorrt")
    device: Any = Device(figures)
    standing: List[Any] = [SimpleNamespace(name=name, level=level) for level, name in enumerate(figures)]
    asked: Any = SimpleNamespace(backend="auto", objective=objective, max_drop=0.01)
    return on_device(asked, device, standing[0], standing, {}), device


@pytest.mark.parametrize(
    ("figures", "kept", "outcomes"),
    [
        ({"as it is": (100, 0.0), "exact": (90, 0.0)}, "exact", []),
        ({"as it is": (100, 0.0), "exact": (101.9, 0.0)}, "exact", []),
        ({"as it is": (100, 0.0), "exact": (102.1, 0.0)}, "as it is", ["undone"]),
        ({"as it is": (100, 0.0), "exact": (90, 0.0), "INT8": (95, 0.0)}, "exact", ["undone"]),
        ({"as it is": (100, 0.0), "exact": (120, 0.0), "INT8": (130, 0.0)}, "as it is", ["undone", "undone"]),
        ({"as it is": (100, 0.0), "exact": (90, 0.0), "INT8": (50, 0.02)}, "exact", ["rejected"]),
        ({"as it is": (100, 0.0), "exact": (110, 0.0), "INT8": (50, 0.02)}, "as it is", ["rejected", "undone"]),
        ({"as it is": (100, 0.03)}, "as it is", []),
    ],
)
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_a_step_that_measures_slower_on_the_device_is_undone(
    figures: Dict[str, Figures], kept: str, outcomes: List[str], objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, _ = deployed(figures, objective, monkeypatch)
    assert built.candidate.name == kept
    assert built.artifact == Path(kept)
    assert [trial.outcome for trial in built.trials] == outcomes
    assert built.score["drop"] == figures[kept][1]
    assert built.measured["before"]["latency_us"] == figures["as it is"][0]
    assert built.measured["after"]["latency_us"] == figures[kept][0]
    assert {t.reason for t in built.trials if t.outcome == "rejected"} <= {"top1 falls by 0.02 on this device"}


def test_the_reason_of_an_undone_step_names_both_measured_times(monkeypatch: pytest.MonkeyPatch) -> None:
    built, _ = deployed({"as it is": (100, 0.0), "exact": (150, 0.0)}, "latency", monkeypatch)
    (trial,) = built.trials
    assert (trial.name, trial.level, trial.before, trial.after) == ("exact", 1, 100, 150)
    assert trial.reason == "measured 150 us on this device, 100 us without it"


@pytest.mark.parametrize("objective", ["energy", "loadables"])
def test_steps_for_energy_or_loadables_are_judged_by_prediction(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built, _ = deployed({"as it is": (100, 0.0), "exact": (150, 0.0)}, objective, monkeypatch)
    assert (built.candidate.name, built.trials) == ("exact", ())


def test_steps_superseded_by_the_best_one_are_not_built_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"as it is": (100, 0.0), "exact": (90, 0.0), "INT8": (50, 0.0), "approximate": (40, 0.0)}
    _, device = deployed(figures, "latency", monkeypatch)
    assert "exact" not in device.asked
