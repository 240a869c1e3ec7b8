"""Makespan of two models by labels: never above brute force, and what is still to come never above any way on."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.labels import rounds as rounds_module
from edgedla.placement.solvers.labels.grown import Grown
from edgedla.placement.solvers.labels.moments import Moment, Moments, positions
from edgedla.placement.solvers.labels.rests import Rests
from edgedla.placement.solvers.labels.rounds import LabelRounds
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.placement.solvers.streams.load_weights import Prices
from tests.placement.placement_problems import brute_force, checked, problems, regroup
from tests.placement.test_placement_pairs import of_one_batch

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)
MAKESPAN = Goal("makespan")
ALL = ("GPU", "DLA0", "DLA1")

#: Of the GPU, a core, and both models' own times.
WEIGHTS = np.array([0.4, 0.0, 0.3, 0.3])
WEIGHED = np.array([True, False, True, True])


def rounds_of(problem: Problem) -> Tuple[Pair, LabelRounds]:
    pair = Pair(problem, ALL, Best(problem, MAKESPAN, schedule_length()), 1e-4, time.monotonic() + 20)
    pair.best.offer(pair.placed(["GPU"] * pair.items[0], ["GPU"] * pair.items[1]))
    return pair, LabelRounds(pair, WEIGHTS, WEIGHED)


def least_on_all(problem: Problem) -> float:
    """By brute force; the engines that are in use slow each other down, so that each set of them is searched alone."""
    length = schedule_length()
    least, _ = brute_force(problem, MAKESPAN, lambda p, e: length(p, e)[0] if e.engines == {*ALL} else INFINITY)
    return least


@CHECKED
@given(problems(6, ALL, 2), st.integers(1, 5), st.booleans())
def test_no_placement_is_below_the_bound_however_few_labels_are_kept(drawn: Problem, few: int, narrow: bool) -> None:
    problem = of_one_batch(drawn)
    least = least_on_all(problem)
    pair, labels = rounds_of(problem)
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr(rounds_module, "FEWEST", few)
            patch.setattr(rounds_module, "MOST", few)
        bound = labels.run(0.0, time.monotonic() + 20)
    assert bound <= least * (1 + 1e-9)
    assert narrow or pair.best.value <= least * (1 + 2e-4) or bound < pair.limit


def test_labels_alone_prove_most_tiny_pairs() -> None:
    """What is left open beside a placement is seldom shorter than any."""
    proven: List[bool] = []

    @checked(60, 1000)
    @given(problems(6, ALL, 2, limits=False, pools=False))
    def count(drawn: Problem) -> None:
        bare = replace(of_one_batch(drawn), slowdown={})
        pair, labels = rounds_of(replace(bare, grouping=regroup(bare, "fp16")))
        proven.append(labels.run(0.0, time.monotonic() + 20) >= pair.limit)

    count()
    # What is drawn comes in clusters of like problems.
    assert np.mean(proven) > 0.7


@CHECKED
@given(problems(6, ("GPU", "DLA0"), 1), st.integers(0, 10**6))
def test_what_is_still_to_come_is_no_more_than_any_way_on(drawn: Problem, seed: int) -> None:
    frontier = Frontier(of_one_batch(drawn), ("GPU", "DLA0"))
    moments = Moments(frontier, (1.2, 1.1), range(len(frontier.allowed)))
    random = np.random.default_rng(seed)
    weights = random.random((5, 2))
    prices = Prices(frontier, weights * np.array([1.2, 1.1]), np.ones(5, bool))
    rests = Rests(moments, prices, weights)
    least: Dict[Moment, np.ndarray] = {}

    def to_the_end(moment: Moment) -> np.ndarray:
        if moment not in least:
            ways = moments.ways(moment)
            behind = [weights @ (w.gpu_us, w.core_us) + to_the_end(w.moment) for w in ways]
            has_ended = moment.done > moments.all
            least[moment] = np.zeros(5) if has_ended else np.min(behind, axis=0, initial=np.inf)
        return least[moment]

    to_the_end(moments.start)
    reckoned = rests.behind(list(least))
    for row, (moment, exact) in zip(reckoned, least.items()):
        assert (row <= exact + 1e-6).all(), moment


def test_arrays_grow_and_keep_their_rows() -> None:
    grown = Grown(float, 3)
    for k in range(100):
        grown.add(np.full((k % 4, 3), k))
    expected = list(itertools.chain.from_iterable([[float(k)] * 3] * (k % 4) for k in range(100)))
    assert grown.rows.tolist() == expected
    grown.rows[0] = -1.0
    assert grown.rows[0].tolist() == [-1.0] * 3


@pytest.mark.parametrize(("bits", "expected"), [(0, []), (1, [0]), (0b101001, [0, 3, 5]), (1 << 300, [300])])
def test_positions_of_bits(bits: int, expected: List[int]) -> None:
    assert list(positions(bits)) == expected
