"""Several models placed in rounds: each is re-placed around the schedule of all others while the whole gets shorter."""

from __future__ import annotations

import itertools
from typing import Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import legal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import Bar, shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.fractional import alike
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.more_models.relaxed import part_of
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, problem_of_model, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.two_models.alternating import ALONE, DEARER, PAIRS, SEGMENTS, TRIED, with_moved_borders
from edgedla.placement.solvers.two_models.fit_around import Taken, around, taken
from edgedla.vocabulary import GPU

#: Placements kept after each model, and those whose ends are moved where no turn shortens one.
KEPT = 24

#: A placement is tried if its end is at most this factor times the best length. Without it three models end 4 to 18 % longer after 5 s.
PROMISING = 1.02

Assignment = Tuple[str, ...]


class _Way(NamedTuple):
    """One model on the GPU and one core: the device names, its placements, and prices per surcharge."""

    names: Tuple[str, ...]
    model: StateArrays
    prices: Prices


class Rounds:
    """The search; improvements are offered to the best."""

    def __init__(self, problem: Problem, best: Best, deadline: Deadline) -> None:
        self.problem, self.best, self.deadline = problem, best, deadline
        #: Per model, its items in the order in which its placements list them.
        self.order: List[List[int]] = []
        self._ways: List[List[_Way]] = []
        together = frozenset(problem.devices)
        self._factors = {d: problem.factor(together, d) for d in problem.devices}
        for m in range(len(problem.models)):
            alone = problem_of_model(problem, m)
            order = narrow_order(alone, deadline)
            self.order.append([problem.items_of(m)[i] for i in order])
            self._ways.append(self._ways_of(reordered(alone, order)))
        self._lengths: Dict[Assignment, float] = {}
        self._turned: Set[Tuple[int, Assignment]] = set()
        self._moved: Set[Tuple[int, Assignment]] = set()
        self._parts: Dict[Tuple[int, ...], Tuple[Problem, Tuple[int, ...]]] = {}
        self._models, self._until = range(len(problem.models)), deadline

    def run(self, seeds: Iterable[Evaluation], until: Deadline, target: float) -> None:
        """Continues from the seeds and the best known until nothing improves, the time is up, or the target is reached."""
        self._until = until
        for e in seeds:
            self._look_at(e)
        while not until.passed and self.best.value > target:
            best = sorted(self._lengths, key=lambda a: (self._lengths[a], a))
            turn = next(((m, a) for a in best[:PAIRS] for m in self._models if (m, a) not in self._turned), None)
            if turn is not None:
                self._turned.add(turn)
                self._place(turn[0], [turn[1]])
                continue
            move = next(((m, a) for a in best[:KEPT] for m in self._models if (m, a) not in self._moved), None)
            if move is None:
                return
            self._moved.add(move)
            moved = with_moved_borders(self.problem, move[1], move[0])
            for m in self._models:
                if m != move[0] and not until.passed:
                    self._place(m, moved)

    def _ways_of(self, alone: Problem) -> List[_Way]:
        """The model with each core; equal cores share the placements."""
        ways: List[_Way] = []
        same, surcharges = alike(self.problem), (*DEARER, *ALONE)
        for core in self.problem.cores:
            names = (GPU, core)
            if any(not set(names) & set(item.allowed) for item in alone.items):
                continue
            if ways and same:
                ways.append(ways[0]._replace(names=names))
                continue
            frontier = Frontier(alone, names)
            rows = np.tile([self._factors[d] for d in names], (len(surcharges), 1))
            rows[:, 0] *= 1.0 + np.array(surcharges)
            ways.append(_Way(names, StateArrays(frontier, alike=False), Prices(frontier, rows)))
        return ways

    def _look_at(self, evaluation: Evaluation) -> None:
        """Records a placement and the length of its schedule, if it is legal."""
        if evaluation.assignment in self._lengths or self.best.offer(evaluation) is None:
            return
        schedule = shortest_schedule(self.problem, evaluation, self.deadline)
        if len(schedule.bars) <= SEGMENTS * len(self.order):
            self._lengths[evaluation.assignment] = schedule.length_us

    def begin(self, until: Deadline) -> None:
        """Finds placements to start from: model by model, each around those already placed."""
        self._until = until
        for order in itertools.permutations(self._models):
            if until.passed:
                return
            self._try(self._grown(order), TRIED)

    def _grown(self, order: Sequence[int]) -> List[Tuple[float, Assignment]]:
        """(end, placement) of the results of placing the models in this order."""
        nowhere = [GPU] * len(self.problem.items)
        kept: List[Tuple[float, Assignment]] = [(0.0, tuple(nowhere))]
        for n, m in enumerate(order):
            plans = [self._bars(assignment, order[:n]) for _, assignment in kept]
            if self._until.passed:
                return []
            found = self._around(m, plans, range(len(DEARER) + len(ALONE)))
            grown = [(end, tuple(self._with(kept[plan][1], m, devices))) for end, plan, devices in found]
            # Keep the earliest, and also those that leave the most GPU time to the others.
            early = sorted(grown)[:KEPT]
            kept = (
                early
                if n == len(order) - 1
                else [*early, *sorted(grown, key=lambda g: self._crowd(g, order[: n + 1]))[:KEPT]]
            )
            kept = list(dict.fromkeys(kept))
        return kept

    def _crowd(self, grown: Tuple[float, Assignment], models: Sequence[int]) -> float:
        """When a placement of some models ends, plus their GPU time."""
        end, assignment = grown
        items = (i for m in models for i in self.order[m] if assignment[i] == GPU)
        return end + sum(self.problem.items[i].time_us(GPU) for i in items) * self._factors[GPU]

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

    def _place(self, m: int, given: Sequence[Assignment]) -> None:
        """Re-places model m around the others of each placement, as its schedule has them."""
        plans: List[List[Bar]] = []
        of: List[Assignment] = []
        for assignment in given:
            evaluation = evaluate(self.problem, assignment)
            if self._until.passed or not legal(self.problem, evaluation, self.best.goal):
                continue
            schedule = shortest_schedule(self.problem, evaluation, self.deadline)
            plans.append([b for b in schedule.bars if b.model != m and b.end_us > b.start_us])
            of.append(assignment)
        if not plans:
            return
        found = [
            (end, tuple(self._with(of[plan], m, devices)))
            for end, plan, devices in self._around(m, plans, range(len(DEARER)))
        ]
        self._try(found, TRIED)

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
        self, m: int, plans: Sequence[Sequence[Bar]], guides: Sequence[int]
    ) -> List[Tuple[float, int, Tuple[str, ...]]]:
        """Model m around each plan of the others: (when all end, index of the plan, the model's devices in its order)."""
        count, times = len(plans), len(guides)
        others = np.tile([max((b.end_us for b in plan), default=0.0) for plan in plans], times)
        found: Dict[Tuple[int, Tuple[str, ...]], float] = {}
        for way in self._ways[m]:
            busy = []
            for name in way.names:
                once = taken([[(b.start_us, b.end_us) for b in plan if b.device == name] for plan in plans])
                busy.append(Taken(np.tile(once.starts, (times, 1)), np.tile(once.ends, (times, 1))))
            factors = np.array([self._factors[d] for d in way.names])
            guide = np.repeat(np.array(guides), count)
            ends, rows = around(way.model, len(self.order[m]), way.prices, factors, busy, guide, self._until)
            for k, (end, row) in enumerate(zip(np.maximum(ends, others[: len(ends)]), rows)):
                key = k % count, tuple(way.names[d] for d in row)
                found[key] = min(found.get(key, np.inf), float(end))
        return [(end, plan, devices) for (plan, devices), end in found.items()]

    def _with(self, assignment: Sequence[str], m: int, devices: Sequence[str]) -> List[str]:
        whole = list(assignment)
        for i, device in zip(self.order[m], devices):
            whole[i] = device
        return whole
