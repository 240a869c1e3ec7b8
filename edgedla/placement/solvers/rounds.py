"""Models placed in rounds: in each turn one is re-placed around the schedule of all others, while the whole gets shorter."""

from __future__ import annotations

import itertools
from typing import Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import INFINITY, legal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import Bar, shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.fit_around import Taken, around, taken
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, part_of, problem_of_model, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.vocabulary import GPU

#: Numbers of items that a move takes, and most placements that moves of the borders give.
MOVED, MOST_MOVED = (1, 2, 3, 5, 8, 13, 21, 34), 48

#: Surcharges on a microsecond of the GPU, as a share: what is shortest alone may leave the other models no room on the GPU.
DEARER: Tuple[float, ...] = (0.0, 0.15, 0.5, -0.15)

#: The same for the first model placed, alone.
ALONE: Tuple[float, ...] = (-0.6, -0.3, 0.0, 0.2, 0.5, 1.0, 2.0, 5.0)

#: Placements to continue from, and placements per turn whose schedules are computed. As many as both together are kept after each model.
PAIRS, TRIED = 4, 6

#: Most segments per model of a placement to continue from: beyond, schedules take too long.
SEGMENTS = 30

#: A placement is tried if its end is at most this factor times the best length. Without it three models end 4 to 18 % longer after 5 s.
PROMISING = 1.02

Assignment = Tuple[str, ...]


def with_moved_borders(problem: Problem, assignment: Assignment, m: int) -> List[Assignment]:
    """The placement with some layers moved to the neighbouring device where model m changes devices.

    Placing one model around the others cannot do this: here a model gives up some time of a device, and only another model
    gains from it.
    """
    items = problem.items_of(m)
    on = [assignment[i] for i in items]
    moved: Dict[Assignment, None] = {}
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


class Way(NamedTuple):
    """One model on the GPU and one core: the device names, its placements, their slowdown by device, and prices per surcharge."""

    names: Tuple[str, ...]
    model: StateArrays
    factors: np.ndarray
    prices: Prices

    @classmethod
    def of(cls, names: Tuple[str, ...], model: StateArrays, factors: np.ndarray) -> Way:
        rows = np.tile(factors, (len(DEARER) + len(ALONE), 1))
        rows[:, 0] *= 1.0 + np.array((*DEARER, *ALONE))
        return cls(names, model, factors, Prices(model.frontier, rows))


class Rounds:
    """The search; improvements are offered to the best.

    Args:
        order: per model, its items in the order in which its placements list them.
        ways: per model, the cores that it may use.
    """

    def __init__(
        self, problem: Problem, best: Best, order: Sequence[Sequence[int]], ways: Sequence[Sequence[Way]], deadline: Deadline
    ) -> None:
        self.problem, self.best, self.order, self._ways = problem, best, order, ways
        #: When the running search ends. Schedules use the full deadline: they are cached, so none may be cut short here.
        self.deadline = self._until = deadline
        self._lengths: Dict[Assignment, float] = {}
        self._turned: Set[Tuple[int, Assignment]] = set()
        self._moved: Set[Tuple[int, Assignment]] = set()
        self._parts: Dict[Tuple[int, ...], Tuple[Problem, Tuple[int, ...]]] = {}
        self._models = range(len(order))

    @classmethod
    def of_all(cls, problem: Problem, best: Best, deadline: Deadline) -> Rounds:
        """The search with each model on every core that its items allow."""
        orders: List[List[int]] = []
        ways: List[List[Way]] = []
        for m in range(len(problem.models)):
            alone = problem_of_model(problem, m)
            order = narrow_order(alone, deadline)
            orders.append([problem.items_of(m)[i] for i in order])
            ways.append(_ways_of(problem, reordered(alone, order)))
        return cls(problem, best, orders, ways, deadline)

    def begin(self, until: Deadline) -> None:
        """Finds placements to start from: model by model, each around those already placed."""
        self._until = until
        for order in itertools.permutations(self._models):
            if until.passed:
                return
            self._try(self._grown(order), PAIRS * TRIED)

    def run(self, seeds: Iterable[Evaluation], until: Deadline, target: float, patience_s: float = INFINITY) -> None:
        """Continues from the seeds and the best known until nothing improves, the time is up, or the target is reached; or, where a
        later call is to go on, until the seconds of `patience_s` brought nothing shorter."""
        self._until = until
        for e in seeds:
            self._look_at(e)
        # With two models each turn is around one alone, which may run sooner or later; more need many moves.
        movable = 1 if len(self.order) == 2 else PAIRS * TRIED
        shortest, since = self.best.value, Stopwatch()
        while not until.passed and self.best.value > target:
            if self.best.value < shortest:
                shortest, since = self.best.value, Stopwatch()
            elif since.seconds > patience_s:
                return
            best = sorted((a for a, us in self._lengths.items() if us < INFINITY), key=lambda a: (self._lengths[a], a))
            turns = [(m, a) for a in best[:PAIRS] for m in self._models if (m, a) not in self._turned]
            if turns:
                self._turned.update(turns)
                for m in self._models:
                    self._place(m, [a for k, a in turns if k == m])
                continue
            move = next(((m, a) for a in best[:movable] for m in self._models if (m, a) not in self._moved), None)
            if move is None:
                return
            self._moved.add(move)
            moved = with_moved_borders(self.problem, move[1], move[0])
            for m in self._models:
                if m != move[0] and not until.passed:
                    self._place(m, moved, few=True)

    def _look_at(self, evaluation: Evaluation) -> None:
        """Records a placement and the length of its schedule; infinity where it is not legal, or too long to continue from."""
        if evaluation.assignment in self._lengths:
            return
        self._lengths[evaluation.assignment] = INFINITY
        if self.best.offer(evaluation) is not None:
            schedule = shortest_schedule(self.problem, evaluation, self.deadline)
            if len(schedule.bars) <= SEGMENTS * len(self.order):
                self._lengths[evaluation.assignment] = schedule.length_us

    def _grown(self, order: Sequence[int]) -> List[Tuple[float, Assignment]]:
        """(end, placement) of the results of placing the models in this order."""
        kept: List[Tuple[float, Assignment]] = [(0.0, (GPU,) * len(self.problem.items))]
        for n, m in enumerate(order):
            given: List[Tuple[List[Bar], Assignment]] = []
            for _, assignment in kept:
                given += [(plan, assignment) for plan in self._plans(self._bars(assignment, order[:n]), few=False)]
            if self._until.passed:
                return []
            dearer = range(len(DEARER))
            grown = self._around(m, given, dearer if n else range(len(DEARER), len(DEARER) + len(ALONE)))
            # Keep the earliest, and also those that leave the most GPU time to the others.
            early = sorted(grown)[: PAIRS * TRIED]
            if n < len(order) - 1:
                early += sorted(grown, key=lambda g: self._crowd(g, order[: n + 1]))[: PAIRS * TRIED]
            kept = list(dict.fromkeys(early))
        return kept

    def _crowd(self, grown: Tuple[float, Assignment], models: Sequence[int]) -> float:
        """When a placement of some models ends, plus their GPU time."""
        end, assignment = grown
        items = (i for m in models for i in self.order[m] if assignment[i] == GPU)
        return end + sum(self.problem.items[i].time_us(GPU) for i in items) * self._ways[models[0]][0].factors[0]

    def _bars(self, assignment: Assignment, models: Sequence[int]) -> List[Bar]:
        """The bars of the shortest schedule of some of the models."""
        if not models:
            return []
        key = tuple(sorted(models))
        if key not in self._parts:
            self._parts[key] = part_of(self.problem, key)
        part, members = self._parts[key]
        schedule = shortest_schedule(part, evaluate(part, [assignment[i] for i in members]), self.deadline)
        return [b._replace(model=key[b.model]) for b in schedule.bars if b.end_us > b.start_us]

    def _plans(self, bars: List[Bar], few: bool) -> List[List[Bar]]:
        """When models may run: as scheduled; one alone also early, late, and its first segments early. `few`: none of these mixed."""
        if len({b.model for b in bars}) != 1:
            return [bars]
        bars = sorted(bars, key=lambda b: b.segment)
        times = np.array([b.end_us - b.start_us for b in bars])
        early = np.cumsum(times) - times
        late = np.maximum(self.best.value - np.cumsum(times[::-1])[::-1], early)
        starts = [early, late, (early + late) / 2]
        starts += [np.where(np.arange(len(bars)) < k, early, late) for k in range(1, len(bars)) if not few]
        moved = [[b._replace(start_us=s, end_us=s + t) for b, s, t in zip(bars, row, times)] for row in starts]
        return [bars, *moved]

    def _place(self, m: int, given: Sequence[Assignment], few: bool = False) -> None:
        """Re-places model m around the others of each placement, as its schedule has them."""
        plans: List[Tuple[List[Bar], Assignment]] = []
        for assignment in given:
            evaluation = evaluate(self.problem, assignment)
            if self._until.passed or not legal(self.problem, evaluation, self.best.goal):
                continue
            schedule = shortest_schedule(self.problem, evaluation, self.deadline)
            others = [b for b in schedule.bars if b.model != m and b.end_us > b.start_us]
            plans += [(plan, assignment) for plan in self._plans(others, few)]
        if plans:
            self._try(self._around(m, plans, range(len(DEARER))), TRIED * min(PAIRS, len(given)))

    def _try(self, found: Iterable[Tuple[float, Assignment]], most: int) -> None:
        """Evaluates the most promising of these (end, placement)."""
        tried = 0
        for end, assignment in sorted(found):
            if tried >= most or end > self.best.value * PROMISING or self._until.passed:
                return
            if assignment not in self._lengths:
                tried += 1
                self._look_at(evaluate(self.problem, assignment))

    def _around(
        self, m: int, given: Sequence[Tuple[Sequence[Bar], Assignment]], guides: Sequence[int]
    ) -> List[Tuple[float, Assignment]]:
        """Model m around each plan of the others, whose placement goes with it: (when all end, the placement of all)."""
        count, times = len(given), len(guides)
        others = np.tile([max((b.end_us for b in plan), default=0.0) for plan, _ in given], times)
        found: Dict[Assignment, float] = {}
        for way in self._ways[m]:
            busy = []
            for name in way.names:
                once = taken([[(b.start_us, b.end_us) for b in plan if b.device == name] for plan, _ in given])
                busy.append(Taken(np.tile(once.starts, (times, 1)), np.tile(once.ends, (times, 1))))
            guide = np.repeat(np.array(guides), count)
            ends, rows, _ = around(way.model, len(self.order[m]), way.prices, way.factors, busy, guide, self._until)
            for k, (end, row) in enumerate(zip(np.maximum(ends, others[: len(ends)]), rows)):
                whole = list(given[k % count][1])
                for i, d in zip(self.order[m], row):
                    whole[i] = way.names[d]
                found[tuple(whole)] = min(found.get(tuple(whole), np.inf), float(end))
        return [(end, assignment) for assignment, end in found.items()]


def _ways_of(problem: Problem, alone: Problem) -> List[Way]:
    """A model with each core; equal cores share the placements."""
    ways: List[Way] = []
    together = frozenset(problem.devices)
    for core in problem.cores:
        names = (GPU, core)
        if any(not set(names) & set(item.allowed) for item in alone.items):
            continue
        if ways and alike(problem):
            ways.append(ways[0]._replace(names=names))
            continue
        factors = np.array([problem.factor(together, d) for d in names])
        ways.append(Way.of(names, StateArrays(Frontier(alone, names), alike=False), factors))
    return ways
