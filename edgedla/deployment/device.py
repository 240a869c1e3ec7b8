"""The accepted candidate as the backend builds it; on a device each kept step has to hold what was predicted of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.search import Trial
from edgedla.deployment.steps import Steps

#: A step that measures slower by less than this share is as fast: medians differ as much from run to run.
NOISE = 0.02


@dataclass(frozen=True)
class Built:
    """Attributes:
    candidate: what stands at the end. artifact: its folder. score: on the last samples, by that artifact.
    measured: "before", "after": times of the first candidate and of this one; {} where nothing was measured.
    trials: steps that were taken back here.
    """

    candidate: Candidate
    artifact: Path
    score: Mapping[str, Any]
    measured: Mapping[str, Any]
    trials: Tuple[Trial, ...] = ()


def on_device(
    asked: DeployRequest, steps: Steps, first: Candidate, standing: List[Candidate], score: Mapping[str, Any]
) -> Built:
    """Builds and measures what was kept, the last first; one that measures slower than the one before it is undone.

    Args:
        standing: what was kept, in order, the accepted one last. score: of the accepted one, simulated.
    """
    from edgedla.builder.building import backend_of

    backend = backend_of(asked.backend)
    best = standing[-1]
    if backend == "host":
        assert best.artifact is not None
        return Built(best, best.artifact, score, {})
    trials: List[Trial] = []
    for at in range(len(standing) - 1, -1, -1):
        best = standing[at]
        folder, digest, after = _measured(steps, best, backend)
        score = steps.score(folder, digest, "final", f"{best.name}, on this device").value
        if at == 0:
            break
        _, _, before = _measured(steps, standing[at - 1], backend)
        taken_back = _taken_back(asked, best, score, before, after)
        if taken_back is None:
            break
        trials.append(taken_back)
    before = after if first is best else _measured(steps, first, backend)[2]
    return Built(best, folder, score, {"before": before, "after": after}, tuple(trials))


def _measured(steps: Steps, candidate: Candidate, backend: str) -> Tuple[Path, str, Dict[str, Any]]:
    """(folder of the artifact, its digest, its times)."""
    step = steps.build(candidate, backend)
    folder, digest = step.file("artifact"), str(step.value["digest"])
    return folder, digest, dict(steps.measure(folder, digest, candidate.name).value)


def _taken_back(
    asked: DeployRequest,
    candidate: Candidate,
    score: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> Optional[Trial]:
    """Why the step does not stand on this device; None where it does."""
    if score["drop"] > asked.max_drop:
        why = f"{score['metric']} falls by {score['drop']:.4g} on this device"
        return Trial(candidate.name, candidate.level, "rejected", why, drop=float(score["drop"]))
    times = [_value(asked.objective, t) for t in (before, after)]
    if times[0] is None or times[1] is None or times[1] <= times[0] * (1 + NOISE):
        return None
    unit = "us between frames" if asked.objective == "throughput" else "us"
    why = f"measured {times[1]:.5g} {unit} on this device, {times[0]:.5g} {unit} without it"
    return Trial(candidate.name, candidate.level, "undone", why, times[0], times[1])


def _value(objective: str, times: Mapping[str, Any]) -> Optional[float]:
    """What the objective counts of measured times, lower is better; None where times do not show it."""
    if objective == "latency":
        return float(times["latency_us"])
    if objective == "throughput" and times["throughput_fps"] > 0:
        return 1e6 / float(times["throughput_fps"])
    return None
