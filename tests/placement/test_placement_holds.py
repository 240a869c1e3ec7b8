"""Makespan of two models by their holds of the GPU: bounds never exceed brute force, and each part covers what it says."""

from __future__ import annotations

import random
from typing import List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.holds import hold_search as hold_search_module
from edgedla.placement.solvers.holds.hold_arrays import HoldArrays
from edgedla.placement.solvers.holds.hold_search import HoldSearch
from edgedla.placement.solvers.holds.known_holds import Priced, with_one_more
from edgedla.placement.solvers.holds.sequence import paths, told
from edgedla.placement.solvers.holds.to_come import ToCome
from edgedla.placement.solvers.labels import label_search as label_search_module
from edgedla.placement.solvers.labels import rounds as rounds_module
from edgedla.placement.solvers.several import pair_search as pair_search_module
from edgedla.placement.solvers.several import solve_pair as solve_pair_module
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.several.pair_search import PairSearch
from edgedla.placement.solvers.several.solve_pair import solve_pair
from edgedla.placement.solvers.several.turns import Turns
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.streams.prices.load_weights import Prices
from tests.placement.placement_problems import checked, problems
from tests.placement.test_placement_labels import ALL, MAKESPAN, least_on_all, rounds_of
from tests.placement.test_placement_stays import grouped, two_chains

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)


def search_of(problem: Problem) -> Tuple[Pair, HoldSearch]:
    pair, labels = rounds_of(problem)
    at, known = labels.timelines.telling, labels.timelines.known
    least = [known.rest[start, at] for start in labels.timelines.starts]
    return pair, HoldSearch(pair, labels.weights[at], least)


@CHECKED
@given(
    st.one_of(problems(6, ALL, 2, limits=False), problems(8, ALL, 2)),
    st.sampled_from([0, 0, 1, 3, 9]),
    st.sampled_from([0.9, 1.02, 1.3]),
    st.booleans(),
)
def test_no_placement_is_below_the_bound_however_few_states_are_kept(
    drawn: Problem, few: int, above: float, proves: bool
) -> None:
    problem = grouped(drawn)
    least = least_on_all(problem)
    pair, search = search_of(problem)
    if not HoldSearch.can_run(pair):
        return
    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr(hold_search_module, "FEW_STATES", few)
            patch.setattr(hold_search_module, "SOON", 2 * few)
            patch.setattr(hold_search_module, "STATES", 3 * few)
            patch.setattr(hold_search_module, "WIDTH", 2 * few)
            patch.setattr(hold_search_module, "MOST_HOLDS", 4)
        bound = search.run(0.0, above * least, Deadline.after(20), proves)
    assert bound <= least * (1 + 1e-9)


def test_two_chains_are_proven() -> None:
    problem = two_chains()
    least = least_on_all(problem)
    pair, search = search_of(problem)
    bound = search.run(0.0, INFINITY, Deadline.after(60))
    assert pair.best.value == pytest.approx(least)
    assert bound == pytest.approx(least, rel=1.1e-4)


def test_what_is_known_stays_where_the_time_is_over_or_room_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    _, search = search_of(two_chains())
    assert search.run(12.5, INFINITY, Deadline.after(-1)) == 12.5
    monkeypatch.setattr(hold_search_module, "SOON", 1)
    began = search.run(12.5, INFINITY, Deadline.after(60), proves=True)
    assert 12.5 <= began < search.run(12.5, INFINITY, Deadline.after(60))


def test_without_holds_the_columns_add_up_to_the_loads() -> None:
    """Any way through the states costs what the frontier says, but for loadables aside from the trunk."""
    pair, _ = rounds_of(two_chains())
    rng = random.Random(0)
    for frontier in pair.frontiers:
        prices = Prices(frontier, np.ones((1, 2)), np.zeros(1, bool))
        arrays = HoldArrays(frontier, 0, (1.0, 1.0), ToCome(frontier), Priced(prices))
        for _ in range(20):
            state, rows = frontier.start, arrays.start
            for i, allowed in enumerate(frontier.allowed):
                device = rng.choice(allowed)
                state, load, _ = frontier.counted_step(i, state, device)
                behind, ways = arrays.ways(i, rows)
                at = int(np.flatnonzero(ways.choice == device)[0])
                assert [ways.load[at, 0], ways.load[at, 1:].sum()] == pytest.approx(load)
                rows = behind[ways.target[at]][None]


def test_each_path_goes_from_hold_to_hold() -> None:
    assert told(0, 3) == (2, 1)
    assert told(1, 3) == (1, 2)
    first, second = paths(0, 2, False)
    # Hold, break, and the rest on the GPU, on the core, and its loadables.
    both = {(tuple(a), tuple(b)) for a, b in zip(first.astype(int).tolist(), second.astype(int).tolist())}
    assert both == {
        ((1, 1, 1, 1, 1), (0, 0, 0, 0, 0)),
        ((1, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
        ((0, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
        ((1, 0, 1, 0, 0), (1, 0, 1, 0, 0)),
        ((0, 0, 1, 0, 0), (1, 0, 1, 0, 0)),
    }
    assert [rows.shape[1] for rows in paths(0, 2, True)] == [3, 3]


def test_one_more_hold_counts_as_the_rest_does() -> None:
    assert with_one_more(np.array([[7.0, 6.0, 3.0, 2.0, 1.0]])).tolist() == [[7.0, 6.0, 3.0, 2.0, 3.0, 2.0, 2.0]]


def test_holds_are_looked_at_once_labels_find_too_many_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = two_chains()
    monkeypatch.setattr(rounds_module, "DIVES", ())
    monkeypatch.setattr(rounds_module, "ROOM", label_search_module.Room(new_moments=0))
    monkeypatch.setattr(label_search_module, "LABELS_PER_MOMENT", 10**9)
    monkeypatch.setattr(solve_pair_module, "STATES", (1,))
    monkeypatch.setattr(pair_search_module, "HOLDABLE", 9.0)
    for name in ("begin", "improve"):
        monkeypatch.setattr(Turns, name, lambda *_: None)
    for name in ("_look_at_stays", "_look_at_rows", "_glance"):
        monkeypatch.setattr(PairSearch, name, lambda *_: None)
    asked: List[bool] = []
    run = HoldSearch.run

    def watched(search: HoldSearch, bound: float, limit: float, until: float, proves: bool) -> float:
        asked.append(proves)
        return run(search, bound, limit, until, proves)

    monkeypatch.setattr(HoldSearch, "run", watched)
    solution = solve_pair(problem, MAKESPAN, [["GPU"] * len(problem.items)], 20.0, value_of=schedule_length())
    assert asked[0]
    assert solution.value == pytest.approx(least_on_all(problem))
    assert solution.optimal
