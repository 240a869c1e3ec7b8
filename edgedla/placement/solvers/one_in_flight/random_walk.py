"""Pairs of placements improved by random moves: a stretch of one model goes to another device to speed up the slower stream."""

from __future__ import annotations

import random
from typing import Dict, List, Optional, Sequence, Tuple

from edgedla.placement.deadline import Deadline
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.prediction.streams import Lane, lane_of
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY, Goal, legal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.rounds import MOVED

#: Mean relative increase of the period that a move may cause, at the start of a walk.
STEP_BACK = 0.003

#: Most moves of a walk per item: on small networks the walk ends before its time.
MOVES = 60


class Climber:
    """Random moves on two models; with two cores, each model has its own.

    Args:
        names: per model, the devices it may use.
    """

    def __init__(self, problem: Problem, goal: Goal, pace: OneInFlight, names: Sequence[Sequence[str]]) -> None:
        self.problem, self.goal, self.pace, self.names = problem, goal, pace, names
        self._items = [problem.items_of(m) for m in (0, 1)]
        self._lanes: Tuple[Dict[Tuple[str, ...], Lane], ...] = ({}, {})
        # A fixed seed, so that every run makes the same moves.
        self._random = random.Random(0)

    def climbed(self, assignment: Sequence[str], until: Deadline) -> Tuple[str, ...]:
        """The best assignment on a walk until then; it accepts ever smaller steps back."""
        size = len(self._items[0])
        placed = [tuple(assignment[:size]), tuple(assignment[size:])]
        value = least = self._value(placed)
        best, all_s, moves = placed, until.left_s, MOVES * len(self.problem.items)
        for k in range(moves):
            left_s = until.left_s
            if left_s <= 0:
                break
            moved = self._moved(placed)
            if moved is None:
                continue
            reached = self._value(moved)
            back = STEP_BACK * min(left_s / all_s, 1 - k / moves)
            if reached[0] < value[0] * (1 + back * self._random.expovariate(1.0)):
                placed, value = moved, reached
                if value < least:
                    best, least = placed, value
        return (*best[0], *best[1])

    def _moved(self, placed: Sequence[Tuple[str, ...]]) -> Optional[List[Tuple[str, ...]]]:
        """The pair with a stretch of one model on another device; None if that changes nothing."""
        m = self._random.randrange(2)
        first_item, devices = self._items[m][0], list(placed[m])
        length, device = self._random.choice(MOVED), self._random.choice(self.names[m])
        first = self._random.randrange(1 - length, len(devices))
        for i in range(len(devices))[max(first, 0) : first + length]:
            if device in self.problem.items[first_item + i].allowed:
                devices[i] = device
        moved = list(placed)
        moved[m] = tuple(devices)
        return moved if moved[m] != placed[m] else None

    def _value(self, placed: Sequence[Tuple[str, ...]]) -> Tuple[float, float]:
        """(the slower stream's time for its frames of one period, the sum of both); infinite if the pair is not legal."""
        missing = [m for m in (0, 1) if placed[m] not in self._lanes[m]]
        if missing:
            e = evaluate(self.problem, (*placed[0], *placed[1]))
            if not legal(self.problem, e, self.goal):
                return INFINITY, INFINITY
            for m in missing:
                self._lanes[m][placed[m]] = lane_of(self.problem, e, m)
        lanes = [self._lanes[m][placed[m]] for m in (0, 1)]
        times = [r * p.frame_us for r, p in zip(self.problem.rates, self.pace.of_lanes(lanes))]
        return max(times), sum(times)
