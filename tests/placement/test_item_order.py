"""The order in which searches take the items: few states; the problem's own order if time is short."""

from __future__ import annotations

import time
from typing import List

import pytest

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.solvers.states.item_order import narrow_order
from tests.placement.placement_problems import cost

pytestmark = pytest.mark.once


def branches(wide: int, long: int, turn: bool = False) -> Problem:
    """A network of branches side by side that one item joins; with `turn` its items come branch by branch in turns."""
    names = [(b, k) for b in range(wide) for k in range(long)]
    if turn:
        names.sort(key=lambda at: at[1])
    index = {at: i for i, at in enumerate(names)}
    costs = {"GPU": cost(3), "DLA": cost(4)}
    items = [Item(f"b{b}l{k}", 0, (i,), ("GPU", "DLA0"), costs) for (b, k), i in index.items()]
    items.append(Item("join", 0, (len(items),), ("GPU", "DLA0"), costs))
    moves = {("GPU", "DLA"): cost(1), ("DLA", "GPU"): cost(1), ("DLA", "DLA"): cost(1)}
    flows: List[Flow] = [Flow("x", 0, None, tuple(index[b, 0] for b in range(wide)), False, moves)]
    for (b, k), i in index.items():
        reader = index[b, k + 1] if k + 1 < long else len(names)
        flows.append(Flow(f"t{i}", 0, i, (reader,), False, moves))
    flows.append(Flow("y", 0, len(names), (), True, moves))
    return Problem(tuple(items), tuple(flows), (), lambda problem, core, members: (members,))


def test_narrow_order_visits_branches_one_after_the_other() -> None:
    problem = branches(6, 4, turn=True)
    order = narrow_order(problem)
    assert sorted(order) == list(range(25))
    assert [problem.items[i].name[:2] for i in order[:8]] == ["b0"] * 4 + ["b1"] * 4
    position = {i: k for k, i in enumerate(order)}
    assert all(position[f.producer] < position[c] for f in problem.flows if f.producer is not None for c in f.consumers)


def test_narrow_order_without_time_keeps_the_problems_order() -> None:
    problem = branches(6, 4, turn=True)
    assert narrow_order(problem, Deadline.after(-1)) == tuple(range(25))


def test_narrow_order_of_many_branches_keeps_its_deadline() -> None:
    problem, began = branches(300, 3, turn=True), time.process_time()
    assert len(narrow_order(problem, Deadline.after(0.3))) == len(problem.items)
    assert time.process_time() - began < 2.0
