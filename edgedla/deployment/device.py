"""Builds the accepted candidate with the backend. On a device, undoes kept steps that measure slower."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.request import DeployRequest
from edgedla.deployment.search import Trial
from edgedla.deployment.steps import Steps

#: A smaller relative slowdown counts as equal: medians differ by this much from run to run.
NOISE = 0.02


@dataclass(frozen=True)
class Built:
    """Attributes:
    candidate: the final candidate. artifact: its folder. score: the artifact's metric on the final samples.
    measured: "before", "after": times of the first candidate and of this one; {} if nothing was measured.
    trials: steps that were undone here.
    """

    candidate: Candidate
    artifact: Path
    score: Mapping[str, Any]
    measured: Mapping[str, Any]
    trials: Tuple[Trial, ...] = ()


def require_device(request: DeployRequest) -> None:
    """Compares the request with this board before the work, not behind it.

    Raises:
        EnvironmentMissing: TensorRT is to build here, and is missing, or of another release than the request's.
    """
    from edgedla.builder.building import backend_of
    from edgedla.builder.tensorrt.bindings import installed_version, require_release
    from edgedla.targets import platform_for

    installed = installed_version() if backend_of(request.backend) == "tensorrt" else None
    if installed is not None:
        require_release(installed, platform_for(**request.platform).release.trt)


def on_device(
    request: DeployRequest, steps: Steps, first: Candidate, standing: List[Candidate], score: Mapping[str, Any]
) -> Built:
    """Builds and measures the kept candidates, the last first. Undoes one that is slower than the one before it.

    Args:
        standing: the kept candidates in order, the accepted one last. score: the accepted one's score, simulated.
    """
    from edgedla.builder.building import backend_of

    backend = backend_of(request.backend)
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
        taken_back = _undone(request, best, score, before, after)
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


def _undone(
    request: DeployRequest, candidate: Candidate, score: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Optional[Trial]:
    """The trial that says why the step is undone on this device; None if it is kept."""
    if score["drop"] > request.max_drop:
        why = f"{score['metric']} falls by {score['drop']:.4g} on this device"
        return Trial(candidate.name, candidate.level, "rejected", why, drop=float(score["drop"]))
    times = [_value(request.objective, t) for t in (before, after)]
    if times[0] is None or times[1] is None or times[1] <= times[0] * (1 + NOISE):
        return None
    unit = "us between frames" if request.objective == "throughput" else "us"
    why = f"measured {times[1]:.5g} {unit} on this device, {times[0]:.5g} {unit} without it"
    return Trial(candidate.name, candidate.level, "undone", why, times[0], times[1])


def _value(objective: str, times: Mapping[str, Any]) -> Optional[float]:
    """The objective's value from measured times, lower is better; None if times do not show the objective."""
    if objective == "latency":
        return float(times["latency_us"])
    if objective == "throughput" and times["throughput_fps"] > 0:
        return 1e6 / float(times["throughput_fps"])
    return None
