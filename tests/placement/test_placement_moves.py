"""Moves of stretches of items: their deltas equal the change of the loads, also combined; no call makes a placement longer."""

from __future__ import annotations

import random
from typing import List, Tuple

import numpy as np
import pytest
from hypothesis import given

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import evaluate, worth
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.streams.engine_search import EngineSearch
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.moves import Mover
from edgedla.placement.solvers.streams.pooled import PooledCores
from edgedla.placement.solvers.streams.solve_stream import SIZES, solve_stream
from tests.placement.placement_problems import assignments, checked, problems
from tests.placement.test_placement_sweep import ALL, STREAM, long_chain, of_one_batch

pytestmark = pytest.mark.once

CHECKED = checked(10, 40)


def loads_of(problem: Problem, at: List[int]) -> np.ndarray:
    e = evaluate(problem, [ALL[d] for d in at])
    return np.array([e.load(problem, d).latency_us / problem.factor(e.engines, d) for d in ALL])


def some_placement(problem: Problem) -> List[int]:
    possible = list(assignments(problem))
    return [ALL.index(d) for d in possible[len(possible) // 3]]


@CHECKED
@given(problems(max_items=7, devices=ALL, models=2, limits=False))
def test_moves_deltas_equal_the_change_of_the_loads(problem: Problem) -> None:
    problem = of_one_batch(problem, (1.0,) * len(problem.models))
    mover = Mover(Frontier(problem, ALL), np.ones(3))
    before = some_placement(problem)
    loads, moves = mover.moves(before)
    assert loads == pytest.approx(loads_of(problem, before))
    for move in moves:
        after = mover.moved(before, [move])
        assert loads + move.delta == pytest.approx(loads_of(problem, after))
        # What was looked at before is not looked at again: the moves of another placement are still its own.
        assert mover.moves(after)[0] == pytest.approx(loads_of(problem, after))
    pairs: List[Tuple[int, int]] = [(a, b) for a in range(len(moves)) for b in range(len(moves))]
    for a, b in random.Random(0).sample(pairs, min(len(pairs), 50)):
        if moves[a].end <= moves[b].first:
            both = mover.moved(before, [moves[a], moves[b]])
            assert loads + moves[a].delta + moves[b].delta == pytest.approx(loads_of(problem, both))


def test_moves_balance_a_chain_that_stands_on_one_device() -> None:
    problem = long_chain(40)
    frontier = Frontier(problem, ALL)
    factors = np.array([problem.factor(frozenset(ALL), d) for d in ALL])
    mover = Mover(frontier, factors)
    start = ("GPU",) * len(problem.items)
    periods = [worth(problem, evaluate(problem, start), "throughput")]
    for placed in mover.improved(start, 60):
        periods.append(worth(problem, evaluate(problem, placed), "throughput"))
    assert periods == sorted(periods, reverse=True)
    assert periods[-1] < 0.6 * periods[0]
    assert not list(mover.improved(start, 60, until=Deadline.after(-1)))


@pytest.mark.parametrize(("known", "guided"), [(0.0, False), (1e9, False), (1e9, True)])
def test_sweeps_take_the_rivals_time_only_if_guided_or_with_a_better_bound(
    known: float, guided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadlines = []

    def look(self: EngineSearch, limit: float, width: int, most_states: int) -> Tuple[()]:
        deadlines.append(self.deadline.end.cpu_s)
        return ()

    monkeypatch.setattr(PooledCores, "guides", guided)
    monkeypatch.setattr(EngineSearch, "look", look)
    monkeypatch.setattr(EngineSearch, "first_looks", lambda self, limit: iter(()))
    problem = long_chain(12)
    asked = []

    def rival(best: float) -> float:
        asked.append(best)
        return known or 1e-3

    solve_stream(problem, STREAM, [("GPU",) * 12], 5.0, rival=rival, more_s=100.0)
    assert len(asked) == 1
    assert (max(deadlines) > min(deadlines) + 99) is (guided or known == 0.0)


def test_the_rival_is_not_called_without_time_for_it() -> None:
    answer = solve_stream(long_chain(12), Goal("throughput"), [("GPU",) * 12], 5.0)
    assert answer.gap <= 2e-4


@pytest.mark.parametrize("guided", [False, True])
def test_guided_looks_continue_while_the_bound_rises(guided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(self: EngineSearch, limit: float, width: int, most_states: int) -> Tuple[()]:
        looks.append(width)
        self.bound = limit if len(looks) == 9 else self.bound + (limit - self.bound) / 2
        return ()

    monkeypatch.setattr(PooledCores, "guides", guided)
    monkeypatch.setattr(EngineSearch, "look", look)
    monkeypatch.setattr(EngineSearch, "first_looks", lambda self, limit: iter(()))
    monkeypatch.setattr(EngineSearch, "shorter", lambda self, devices, rounds: iter(()))
    monkeypatch.setattr("edgedla.placement.solvers.streams.solve_stream.engine_sets", lambda problem, goal: [ALL])
    solve_stream(long_chain(12), STREAM, [("GPU",) * 12], 5.0)
    assert len(looks) == (9 if guided else len(SIZES))
    assert looks == sorted(looks)


def test_looks_that_do_not_raise_the_bound_end(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look(self: EngineSearch, limit: float, width: int, most_states: int) -> Tuple[()]:
        looks.append(width)
        return ()

    monkeypatch.setattr(PooledCores, "guides", True)
    monkeypatch.setattr(EngineSearch, "look", look)
    monkeypatch.setattr(EngineSearch, "first_looks", lambda self, limit: iter(()))
    monkeypatch.setattr("edgedla.placement.solvers.streams.solve_stream.engine_sets", lambda problem, goal: [ALL])
    solve_stream(long_chain(12), STREAM, [("GPU",) * 12], 5.0)
    assert len(looks) == len(SIZES) + 1
