"""The Pareto front of two objectives: placements of which none is better in both."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from edgedla.documents import header
from edgedla.errors import NoPlacement, UsageError
from edgedla.placement.api import Prepared, prepare
from edgedla.placement.problem.read_models import ModelSource
from edgedla.placement.request import PlacementRequest
from edgedla.placement.result.placement import Placement

#: Pairs that can be traded: the second is the best for a bound on the latency of each model's frame.
PAIRS: Tuple[Tuple[str, str], ...] = (("latency", "energy"), ("latency", "throughput"))
#: Latency bounds between the fastest placement and the one that is best by the other objective.
STEPS = 8


@dataclass(frozen=True)
class ParetoPoint:
    """One placement; `proven`: nothing is better in the second objective within its latency."""

    latency_us: float
    energy_mj: float
    throughput_fps: float
    spread: float
    energy_spread: float
    proven: bool
    placement: Placement

    def to_dict(self) -> Dict[str, Any]:
        return {
            "latency_us": round(self.latency_us, 3),
            "energy_mj": round(self.energy_mj, 6),
            "throughput_fps": round(self.throughput_fps, 3),
            "spread": round(self.spread, 3),
            "energy_spread": round(self.energy_spread, 3),
            "proven": self.proven,
            "loadables": dict(self.placement.figures.regions),
        }


@dataclass(frozen=True)
class ParetoFront:
    """Points by rising latency. All figures are predicted; `complete` is False where the time ran out between points."""

    objectives: Tuple[str, str]
    platform: Mapping[str, Any]
    precision: str
    models: Tuple[str, ...]
    points: Tuple[ParetoPoint, ...]
    complete: bool

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.pareto"),
            "objectives": list(self.objectives),
            "platform": dict(self.platform),
            "precision": self.precision,
            "models": list(self.models),
            "points": [p.to_dict() for p in self.points],
            "complete": self.complete,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def pareto(
    models: Union[ModelSource, Sequence[ModelSource]],
    request: PlacementRequest,
    objectives: Sequence[str] = ("latency", "energy"),
) -> ParetoFront:
    """The front: for each of several latency bounds the best placement by the second objective.

    `request.time_limit_s` holds for all of them together.

    Raises:
        UsageError: a pair that cannot be traded.
        NoPlacement: no placement keeps the limits.
    """
    pair = tuple(objectives)
    if pair not in PAIRS:
        allowed = "; ".join(",".join(p) for p in PAIRS)
        raise UsageError(f"no front of {', '.join(pair)}", where="pareto", allowed=allowed)
    first, second = pair
    deadline = time.monotonic() + request.time_limit_s
    prepared = prepare(models, request)
    share = request.time_limit_s / (STEPS + 2)

    def until() -> float:
        return min(deadline, time.monotonic() + share)

    fastest = prepared.best(first, request.latency_bound_us, until())
    best = prepared.best(second, request.latency_bound_us, until())
    ends = [max(m.latency.latency_us for m in p.models) for p in (fastest, best)]
    points = [_point(fastest), _point(best)]
    complete = True
    for step in range(STEPS):
        if time.monotonic() >= deadline:
            complete = False
            break
        bound = ends[0] * (ends[1] / ends[0]) ** (step / STEPS) if ends[0] > 0 else 0.0
        placement = _within(prepared, second, bound, until())
        if placement is not None:
            points.append(_point(placement))
    chosen = _undominated(points, second)
    names = tuple(m.name for m in fastest.models)
    return ParetoFront((first, second), fastest.platform, fastest.precision, names, chosen, complete)


def _within(prepared: Prepared, objective: str, bound_us: float, deadline: float) -> Union[None, Placement]:
    if not bound_us > 0:
        return None
    try:
        return prepared.best(objective, bound_us * (1 + 1e-6), deadline)
    except NoPlacement:
        return None


def _point(placement: Placement) -> ParetoPoint:
    figures = placement.figures
    return ParetoPoint(
        figures.latency.latency_us,
        figures.energy.energy_mj,
        figures.throughput_fps,
        figures.latency.spread,
        figures.energy.energy_spread,
        placement.proof.optimal,
        placement,
    )


def _undominated(points: Sequence[ParetoPoint], second: str) -> Tuple[ParetoPoint, ...]:
    def worth(p: ParetoPoint) -> float:
        return p.energy_mj if second == "energy" else -p.throughput_fps

    kept: List[ParetoPoint] = []
    for point in sorted(points, key=lambda p: (p.latency_us, worth(p))):
        if not kept or worth(point) < worth(kept[-1]) - 1e-9 * abs(worth(kept[-1])):
            kept.append(point)
    return tuple(kept)
