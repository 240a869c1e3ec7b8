"""The Pareto front of two objectives: placements that no other placement beats in both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import NoPlacement, UsageError
from edgedla.io.documents import header
from edgedla.placement.api import goal_of, prepare
from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import GAP
from edgedla.placement.problem.model import import_notes
from edgedla.placement.problem.read_models import ModelSource
from edgedla.placement.request import PlacementRequest
from edgedla.placement.result.placement import Placement
from edgedla.text.printable import Fields, json_text

#: Pairs with a front: for each bound on the latency of every model's frame, the second objective is optimised.
PAIRS: Tuple[Tuple[str, str], ...] = (("latency", "energy"), ("latency", "throughput"))
#: Latencies that differ by less than this share count as one point, which is far below the spread of a prediction.
RESOLUTION = 0.01
#: Gaps with room for more points than this are first halved.
WIDE = 8
#: Maximum share of the time limit for one point.
SHARE = 0.2


@dataclass(frozen=True)
class ParetoPoint:
    """One placement of a front.

    Attributes:
        proven: whether it is the proven optimum of the second objective within its latency.
        gap: by which share of its own value (energy, or time between frames) the optimum may be lower.
    """

    latency_us: float
    energy_mj: float
    throughput_fps: float
    spread: float
    energy_spread: float
    proven: bool
    placement: Placement
    gap: float = 0.0

    def to_dict(self) -> Dict[str, Any]:
        return {
            "latency_us": round(self.latency_us, 3),
            "energy_mj": round(self.energy_mj, 6),
            "throughput_fps": round(self.throughput_fps, 3),
            "spread": round(self.spread, 3),
            "energy_spread": round(self.energy_spread, 3),
            "proven": self.proven,
            "gap": round(self.gap, 6),
            "loadables": dict(self.placement.figures.regions),
        }


@dataclass(frozen=True)
class ParetoFront(Fields):
    """A Pareto front: points in order of rising latency. All figures are predicted.

    Attributes:
        complete: whether it is proven that no placement is better than all points, where latencies that differ by less
            than `resolution` count as equal. False if the time ran out first.
        resolution: a share of the latency.
        notes: of the models' import, and what a frame of each is.
    """

    objectives: Tuple[str, str]
    platform: Mapping[str, Any]
    precision: str
    models: Tuple[str, ...]
    points: Tuple[ParetoPoint, ...]
    complete: bool
    resolution: float = RESOLUTION
    notes: Tuple[str, ...] = ()

    def optimality(self, point: ParetoPoint) -> str:
        """Says whether a point is the proven optimum within its latency, or how much better the optimum may be."""
        if point.proven:
            return "proven"
        if point.gap >= 1:
            return "no bound proven"
        if self.objectives[1] == "throughput":
            return f"at most {1 / (1 - point.gap) - 1:.2%} higher"
        return f"at most {point.gap:.2%} lower"

    @property
    def completeness(self) -> str:
        """Says how far it is proven that no other placement belongs to the front."""
        if self.complete:
            return f"complete: no other placement is better in both by more than {self.resolution:.0%} of its latency"
        return "not shown to be complete in the time limit: there may be more points"

    def to_dict(self) -> Dict[str, Any]:
        return {**header("edgedla.pareto"), **super().to_dict()}

    def to_json(self) -> str:
        return json_text(self.to_dict())


@typed
def pareto(
    models: Union[ModelSource, Sequence[ModelSource]],
    request: PlacementRequest,
    objectives: Sequence[str] = ("latency", "energy"),
    spent_s: float = 0.0,
) -> ParetoFront:
    """The Pareto front: for falling latency limits, the best placement by the second objective.

    `request.time_limit_s` holds for all of them together. The latency is that of one frame of every model in turn.

    Args:
        spent_s: seconds of the time limit that are already used.

    Raises:
        UsageError: a pair of objectives without a front.
        NoPlacement: no placement keeps the limits.
    """
    pair = tuple(objectives)
    if pair not in PAIRS:
        allowed = "; ".join(",".join(p) for p in PAIRS)
        raise UsageError(f"there is no front of {', '.join(pair)}", where="pareto", allowed=allowed)
    first, second = pair
    request.check_objectives(first, second)
    if request.gap is None:
        # A front is complete only where its points are proven.
        request = replace(request, gap=GAP)
    deadline = Deadline.after(request.time_limit_s - spent_s)
    prepared = prepare(models, request)

    def best(objective: str, bound_us: Optional[float]) -> Optional[Reached]:
        goal = replace(goal_of(replace(request, objective=objective)), total_latency_us=bound_us)
        until = deadline.within(SHARE * request.time_limit_s)
        try:
            solution = prepared.solved(goal, until)
        except NoPlacement:
            if bound_us is None:
                raise
            return None
        assert solution.best is not None
        latency_us = sum(solution.best.latency(m).latency_us for m in range(len(prepared.inputs)))
        return Reached(latency_us, solution.value, solution.optimal, (goal, solution))

    fastest = best(first, None)
    assert fastest is not None
    row, complete = trace(lambda bound: best(second, bound), fastest.latency_us, lambda: deadline.passed)
    points = [_point(prepared.assembled(*point.answer)) for point in undominated(row)]
    any_point = points[0].placement
    names = tuple(m.name for m in any_point.models)
    return ParetoFront(
        (first, second),
        any_point.platform,
        any_point.precision,
        names,
        tuple(points),
        complete and fastest.proven,
        notes=tuple(import_notes(prepared.inputs)),
    )


@dataclass(frozen=True)
class Reached:
    """The result of one search. `worth`: value of the second objective, smaller is better; `answer`: the caller's object."""

    latency_us: float
    worth: float
    proven: bool
    answer: Any


def trace(
    best_within: Callable[[Optional[float]], Optional[Reached]], least_us: float, is_over: Callable[[], bool]
) -> Tuple[List[Reached], bool]:
    """(points that were reached, whether the front is complete to RESOLUTION).

    For a gap between two latencies low < high, the best placement within high decides. If its latency is at or below low,
    the gap holds no point. If it lies inside, the gap from low to just below it remains. The widest gap comes first, and a
    wide gap is halved, so that a stopped search has looked everywhere.

    Args:
        best_within: (latency bound) -> the best by the second objective within the bound; None if there is none.
        least_us: lower bound of the latency of every placement.
        is_over: () -> whether the time is up.
    """
    end = best_within(None)
    if end is None:
        return [], False
    start = best_within(least_us * (1 + 1e-9))
    points, proven = [end, *([start] if start else [])], end.proven and start is not None and start.proven
    # (low, high): latencies between are not searched yet; the best within low is known.
    gaps = [(least_us, end.latency_us)]
    while gaps:
        low, high = gaps.pop(max(range(len(gaps)), key=lambda k: gaps[k][1] / gaps[k][0]))
        bound = high / (1 + RESOLUTION)
        if bound <= low:
            continue
        if is_over():
            return points, False
        halved = bound / low > (1 + RESOLUTION) ** WIDE
        bound = math.sqrt(low * bound) if halved else bound
        point = best_within(bound)
        if point is None or not point.proven:
            proven = False
        if point is not None:
            points.append(point)
            if point.latency_us > low:
                gaps.append((low, point.latency_us))
        if halved:
            gaps.append((bound, high))
    return points, proven


def undominated(row: Sequence[Reached]) -> List[Reached]:
    """The entries that no other beats in both objectives, in order of rising latency."""
    front: List[Reached] = []
    for point in sorted(row, key=lambda p: (p.latency_us, p.worth)):
        if not front or point.worth < front[-1].worth - 1e-9 * abs(front[-1].worth):
            front.append(point)
    return front


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
        placement.proof.gap,
    )
