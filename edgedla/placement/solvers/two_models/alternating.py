"""Two models placed in turns: each is re-placed around the schedule of the other while the pair gets shorter."""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import Schedule, shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.two_models.fit_around import Taken, around, taken
from edgedla.vocabulary import GPU

#: Numbers of items that a move takes, and most placements that moves of the borders give.
MOVED, MOST_MOVED = (1, 2, 3, 5, 8, 13, 21, 34), 48


def with_moved_borders(problem: Problem, assignment: Tuple[str, ...], m: int) -> List[Tuple[str, ...]]:
    """The placement with some layers moved to the neighbouring device where model m changes devices.

    Placing one model around the others cannot do this: here a model gives up some time of a device, and only another model
    gains from it.
    """
    items = problem.items_of(m)
    on = [assignment[i] for i in items]
    moved: Dict[Tuple[str, ...], None] = {}
    for shift in MOVED:
        for p in [p for p in range(1, len(on)) if on[p] != on[p - 1]]:
            for part, device in ((range(p, p + shift), on[p - 1]), (range(p - shift, p), on[p])):
                changed = list(assignment)
                for k in part:
                    if 0 <= k < len(on) and device in problem.items[items[k]].allowed:
                        changed[items[k]] = device
                if len(moved) < MOST_MOVED:
                    moved[tuple(changed)] = None
    moved.pop(assignment, None)
    return list(moved)


#: Surcharges on a microsecond of the GPU, as a share: what is shortest alone may leave the other model no room on the GPU.
DEARER: Tuple[float, ...] = (0.0, 0.15, 0.5, -0.15)

#: The same for the initial placements, of one model alone.
ALONE: Tuple[float, ...] = (-0.6, -0.3, 0.0, 0.2, 0.5, 1.0, 2.0, 5.0)

#: Pairs to continue from, and placements of a turn whose schedules are computed.
PAIRS, TRIED = 4, 6

#: Most segments per model of a placement to continue from: beyond, schedules take too long.
SEGMENTS = 30

Plan = List[Tuple[str, float, float]]


class Alternation:
    """The search for two models on one set of engines; improvements are offered to the best.

    Args:
        names: per model, its devices, the GPU first.
        models: their placements.
        order: per model, its items in the order in which its placements list them.
        factors: slowdown by device.
    """

    def __init__(
        self,
        problem: Problem,
        best: Best,
        names: Sequence[Sequence[str]],
        models: Sequence[StateArrays],
        order: Sequence[Sequence[int]],
        factors: np.ndarray,
        deadline: Deadline,
    ) -> None:
        self.problem, self.best, self.names, self.factors, self.deadline = problem, best, names, factors, deadline
        #: When the running search ends. Schedules use the full deadline: they are cached, so none may be cut short here.
        self._until = deadline
        self._models, self._items = models, order
        frontiers = [m.frontier for m in models]
        self._prices = [Prices(f, _dearer(factors, DEARER)) for f in frontiers]
        self._alone = [Prices(f, _dearer(factors, ALONE)) for f in frontiers]
        self._lengths: Dict[Tuple[str, ...], Tuple[float, Evaluation]] = {}
        self._moved: Set[Tuple[str, ...]] = set()
        self._turned: Set[Tuple[int, Tuple[str, ...]]] = set()

    def begin(self, until: Deadline) -> None:
        """Starts from placements of each model alone, with the other around them, until then."""
        self._until = until
        for m in (0, 1):
            free = [taken([[]] * len(ALONE)) for _ in self.names[m]]
            _, choices = around(
                self._models[m], len(self._items[m]), self._alone[m], self.factors, free, np.arange(len(ALONE)),
                self._until,
            )  # fmt: skip
            alone = np.unique(choices, axis=0)
            pairs = [evaluate(self.problem, self._with([GPU] * len(self.problem.items), m, row)) for row in alone]
            self._place_around(m, [(e, self.best.value) for e in pairs])

    def improve(self, seeds: Iterable[Evaluation], until: Deadline) -> None:
        """Continues from these pairs and the best known until no turn shortens one of them, or until then."""
        self._until = until
        first = sorted({e.assignment for e in seeds}, key=lambda a: (self._length(a)[0], a))[:PAIRS]
        while not self._until.passed:
            best = sorted(self._lengths, key=lambda a: (self._lengths[a][0], a))[:PAIRS]
            turns = [(m, a) for a in dict.fromkeys([*first, *best]) for m in (0, 1) if (m, a) not in self._turned]
            if turns:
                self._turn(turns)
            elif best and best[0] not in self._moved:
                self._moved.add(best[0])
                self._turn([(m, a) for m in (0, 1) for a in with_moved_borders(self.problem, best[0], m)], few=True)
            else:
                return
            first = []

    def _turn(self, turns: Sequence[Tuple[int, Tuple[str, ...]]], few: bool = False) -> None:
        """Re-places the other model around model m of each pair; `few`: around no plans that mix early and late segments."""
        for m in (0, 1):
            pairs: List[Tuple[Evaluation, float]] = []
            for _, assignment in [t for t in turns if t[0] == m]:
                self._turned.add((m, assignment))
                length_us, evaluation = self._length(assignment)
                pairs.append((evaluation, min(length_us, self.best.value)))
            self._place_around(m, pairs, few)

    def _place_around(self, m: int, pairs: Sequence[Tuple[Evaluation, float]], few: bool = False) -> None:
        """Places the other model around model m of each pair, within the given schedule length; skips pairs of many segments."""
        plans: List[Plan] = []
        given: List[Sequence[str]] = []
        for evaluation, horizon_us in pairs:
            schedule = shortest_schedule(self.problem, evaluation, self.deadline)
            if len(schedule.bars) <= 2 * SEGMENTS:
                for plan in self._plans(schedule, m, horizon_us, few):
                    plans.append(plan)
                    given.append(evaluation.assignment)
        if plans and not self._until.passed:
            self._place(1 - m, plans, given)

    def _place(self, m: int, plans: Sequence[Plan], given: Sequence[Sequence[str]]) -> None:
        """Places model m around each plan of the other; `given` are the assignments that the plans come from."""
        count, guides = len(plans), len(DEARER)
        busy = []
        for name in self.names[m]:
            once = taken([[(start, end) for d, start, end in plan if d == name] for plan in plans])
            busy.append(Taken(np.tile(once.starts, (guides, 1)), np.tile(once.ends, (guides, 1))))
        guide = np.repeat(np.arange(guides), count)
        ends, choices = around(
            self._models[m], len(self._items[m]), self._prices[m], self.factors, busy, guide, self._until
        )
        others = np.array([max((end for _, _, end in plan), default=0.0) for plan in plans])
        tried: Set[Tuple[str, ...]] = set()
        for k in np.argsort(np.maximum(ends, np.tile(others, guides)[: len(ends)]), kind="stable"):
            assignment = tuple(self._with(given[k % count], m, choices[k]))
            if len(tried) >= TRIED * min(PAIRS, count) or self._until.passed:
                return
            if assignment not in tried:
                tried.add(assignment)
                self._length(assignment)

    def _with(self, assignment: Sequence[str], m: int, choices: np.ndarray) -> List[str]:
        devices = list(assignment)
        for i, k in zip(self._items[m], choices):
            devices[i] = self.names[m][k]
        return devices

    def _length(self, assignment: Tuple[str, ...]) -> Tuple[float, Evaluation]:
        if assignment not in self._lengths:
            evaluation = evaluate(self.problem, assignment)
            self.best.offer(evaluation)
            schedule = shortest_schedule(self.problem, evaluation, self.deadline)
            self._lengths[assignment] = schedule.length_us, evaluation
        return self._lengths[assignment]

    def _plans(self, schedule: Schedule, m: int, horizon_us: float, few: bool) -> List[Plan]:
        """When the segments of model m may run: as scheduled, early, late, and the first ones early."""
        bars = sorted((b for b in schedule.bars if b.model == m), key=lambda b: b.segment)
        times = np.array([b.end_us - b.start_us for b in bars])
        early = np.cumsum(times) - times
        late = np.maximum(horizon_us - np.cumsum(times[::-1])[::-1], early)
        rows = [np.array([b.start_us for b in bars]), early, late, (early + late) / 2]
        rows += [np.where(np.arange(len(bars)) < k, early, late) for k in range(1, len(bars)) if not few]
        return [[(b.device, s, s + t) for b, s, t in zip(bars, row, times) if t > 0] for row in rows]


def _dearer(factors: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Rows of weights: the model's own time, with these surcharges on the GPU."""
    rows: np.ndarray = np.tile(factors, (len(shares), 1))
    rows[:, 0] *= 1.0 + np.array(shares)
    return rows
