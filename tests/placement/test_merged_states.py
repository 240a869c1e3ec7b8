"""States whose slack is lowered where it no longer matters: no placement costs more or less, and there are fewer states."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, reordered
from edgedla.placement.solvers.states.state_arrays import StateArrays
from tests.placement.placement_problems import checked, cost, problems

pytestmark = pytest.mark.once

ALL = ("GPU", "DLA0", "DLA1")


def loads_of(arrays: StateArrays) -> Tuple[List[int], np.ndarray]:
    """(states before each item, the loads of all placements, in the order of their devices)."""
    loads, at, counts = np.zeros((1, len(arrays.frontier.devices))), np.zeros(1, int), []
    states = arrays.start
    for i, allowed in enumerate(arrays.frontier.allowed):
        behind, edges, _ = arrays.edges(i, states)
        way = (edges.first[at][:, None] + np.arange(len(allowed))).ravel()
        loads, at = np.repeat(loads, len(allowed), axis=0) + edges.load[way], edges.target[way]
        states = behind
        counts.append(len(states))
    return counts, loads


@checked(150, 10_000)
@given(
    st.one_of(problems(8, ALL), problems(9, ALL[:2]), problems(8, ALL, 2)),
    st.booleans(),
    st.sampled_from([ALL, ALL[:2], ALL[1:], ALL[2:]]),
)
def test_every_placement_has_the_same_loads(drawn: Problem, narrow: bool, engines: Tuple[str, ...]) -> None:
    problem = reordered(drawn, narrow_order(drawn)) if narrow else drawn
    frontier = Frontier(problem, tuple(e for e in engines if e in drawn.devices))
    if not all(frontier.allowed):
        return
    count, expected = loads_of(StateArrays(frontier, alike=False))
    merged, loads = loads_of(StateArrays(frontier, alike=False, merged=True))
    assert np.allclose(loads, expected, atol=1e-9)
    # Slack lowered by two rules at different items may tell a few states apart that are equal otherwise.
    assert sum(merged) <= 1.05 * sum(count)


def test_what_is_skipped_adds_no_states() -> None:
    """The last item also reads what the first one wrote: the path over all items between is at least as long."""
    change = {(a, b): cost(1.0) for a in ("GPU", "DLA") for b in ("GPU", "DLA")}
    count = 9
    items = tuple(Item(f"l{k}", 0, (k,), ALL, {"GPU": cost(3.0), "DLA": cost(4.0)}) for k in range(count))
    flows = [Flow("x", 0, None, (0,), False, change)]
    for k in range(count):
        readers = () if k + 1 == count else (k + 1,) if k else (1, count - 1)
        flows.append(Flow(f"t{k}", 0, k, readers, k + 1 == count, change))
    frontier = Frontier(Problem(items, tuple(flows), (), lambda *_: (), ("m",), cost(2), ALL), ALL)
    many, expected = loads_of(StateArrays(frontier, alike=False))
    few, loads = loads_of(StateArrays(frontier, alike=False, merged=True))
    assert np.allclose(loads, expected)
    assert sum(few) < 0.6 * sum(many)


@pytest.mark.parametrize("last_on", [("GPU",), ALL])
def test_heads_that_the_gpu_joins_keep_no_slack(last_on: Tuple[str, ...]) -> None:
    """Each head waits for the item that joins them: slack that no path can use any more tells no states apart."""
    change = {(a, b): cost(1.0) for a in ("GPU", "DLA") for b in ("GPU", "DLA")}
    heads, long = 4, 3
    items = [Item("l0", 0, (0,), ALL, {"GPU": cost(3.0), "DLA": cost(4.0)})]
    flows = [Flow("x", 0, None, (0,), False, change)]
    flows.append(Flow("t0", 0, 0, tuple(1 + h * long for h in range(heads)), False, change))
    join = 1 + heads * long
    for k in range(1, join):
        items.append(Item(f"l{k}", 0, (k,), ALL, {"GPU": cost(3.0), "DLA": cost(4.0)}))
        flows.append(Flow(f"t{k}", 0, k, (join if k % long == 0 else k + 1,), False, change))
    times = {"GPU": cost(3.0), "DLA": cost(4.0)}
    items.append(Item("join", 0, (join,), last_on, times if len(last_on) > 1 else {"GPU": cost(3.0)}))
    flows.append(Flow("y", 0, join, (), True, change))
    frontier = Frontier(Problem(tuple(items), tuple(flows), (), lambda *_: (), ("m",), cost(2), ALL), ALL[:2])
    many, expected = loads_of(StateArrays(frontier, alike=False))
    few, loads = loads_of(StateArrays(frontier, alike=False, merged=True))
    assert np.allclose(loads, expected)
    # A path that ends on the core can use one more; what is left of devices and transitions is the same.
    assert max(few) < (0.5 if last_on == ("GPU",) else 0.8) * max(many)
