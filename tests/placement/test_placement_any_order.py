"""Pairs as if segments could run in any order: a bound that neither brute force nor the loads of the pairs that are told beat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import makespan_bound
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.two_models.any_order import AnyOrder
from edgedla.placement.solvers.two_models.pair import Pair
from edgedla.placement.solvers.two_models.solve_pair import can_solve
from tests.placement.placement_problems import brute_force, checked, problems

ONE_CORE, ALL = ("GPU", "DLA0"), ("GPU", "DLA0", "DLA1")
WEIGHTS = np.array([0.4, 0.0, 0.3, 0.3])


@checked(20, 500)
@given(st.one_of(problems(8, ONE_CORE, 2), problems(6, ALL, 2)), st.sampled_from([0.7, 1.0, 1.1, 3.0]))
def test_no_pair_is_below_the_bound(drawn: Problem, reach: float) -> None:
    problem = replace(drawn, items=tuple(replace(i, batch=1) for i in drawn.items))
    assume(can_solve(problem, Goal("makespan")))
    engines = problem.devices
    length = schedule_length()
    least, _ = brute_force(problem, Goal("makespan"), lambda p, e: length(p, e)[0] if e.engines == {*engines} else INFINITY)
    pair = Pair(problem, engines, Best(problem, Goal("makespan"), length), 1e-4, Deadline.after(20))
    weighed = np.array([True, len(engines) == 2, True, True])
    limit = reach * (least if least < INFINITY else 100.0)
    looked = AnyOrder(pair, WEIGHTS, weighed, limit, pair.deadline)
    assert looked.bound <= limit
    assert looked.bound <= least * (1 + 1e-9)
    if looked.is_through:
        for met in looked.pairs():
            assert met.engines != {*engines} or makespan_bound(problem, met) >= looked.bound * (1 - 1e-9)
