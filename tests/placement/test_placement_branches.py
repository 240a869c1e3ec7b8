"""Makespan of two models that branch: no search's bound exceeds brute force, in whichever loadable TensorRT puts an item."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import List, NamedTuple, Sequence, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.two_models.pair_search import PairSearch
from tests.placement.placement_problems import brute_force, checked, cost, regroup
from tests.placement.test_placement_labels import ALL, MAKESPAN, rounds_of
from tests.placement.test_placement_pairs import on_two_cores

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)


Model = Tuple[List[Item], List[Flow]]


class Shape(NamedTuple):
    """A model: by item its readers, and the items for the GPU alone."""

    readers: Tuple[Tuple[int, ...], ...]
    on_gpu: Tuple[int, ...]


#: Item 0 is read by item 1 and, on another path, by 2 and 3, which TensorRT may put in a later loadable with item 1.
JOINED = Shape(((1, 2), (4,), (3,), (4,), ()), (4,))
#: Item 3 is the last to read item 0, and item 2 may be in a later loadable already; with ends on the core, or on the GPU.
APART = Shape(((1, 3), (2,), (), (4,), ()), (1,))
APART_FROM_ENDS = Shape(((1, 3), (2,), (5,), (4,), (5,), ()), (1, 5))


def chain(name: int, first: int, times: Sequence[Tuple[float, float]], between_us: float) -> Model:
    """A model of items in a row; (GPU, DLA) times, where a DLA time of 0 stands for the GPU only."""
    change = {("GPU", "DLA"): cost(between_us), ("DLA", "GPU"): cost(between_us), ("DLA", "DLA"): cost(between_us)}
    items, flows = [], [Flow(f"x{name}", name, None, (first,), False, change)]
    for k, (gpu_us, dla_us) in enumerate(times):
        costs = {"GPU": cost(gpu_us)} if dla_us == 0 else {"GPU": cost(gpu_us), "DLA": cost(dla_us)}
        allowed = ("GPU",) if dla_us == 0 else ALL
        items.append(Item(f"m{name}l{k}", name, (k,), allowed, costs))
        is_last = k + 1 == len(times)
        flows.append(Flow(f"t{name}.{k}", name, first + k, () if is_last else (first + k + 1,), is_last, change))
    return items, flows


def shaped(shape: Shape, seed: int) -> Problem:
    """One model of this shape, and a chain."""
    rng = random.Random(seed)
    between = cost(rng.choice([0, 0, 1]))
    change = {("GPU", "DLA"): between, ("DLA", "GPU"): between, ("DLA", "DLA"): between}
    few, count = [1, 5, 20, 50, 100], len(shape.readers)
    times = [(rng.choice([*few, 200]), 0 if k in shape.on_gpu else rng.choice(few)) for k in range(count)]
    items, _ = chain(0, 0, times, 0.0)
    flows = [Flow("x0", 0, None, (0,), False, change)]
    flows += [Flow(f"t0.{k}", 0, k, read_by, not read_by, change) for k, read_by in enumerate(shape.readers)]
    other = chain(1, count, [(rng.choice(few), rng.choice([0, *few])) for _ in range(rng.choice([2, 3]))], 0.0)
    return both((items, flows), other, rng.choice([0, 1, 3]))


def both(first: Model, second: Model, loadable_us: float) -> Problem:
    bare = Problem(
        (*first[0], *second[0]),
        (*first[1], *second[1]),
        (),
        lambda *_: (),
        ("m0", "m1"),
        cost(loadable_us),
        ALL,
        rates=(1.0, 1.0),
    )
    return replace(bare, grouping=regroup(bare, "fp16"))


def branching(seed: int) -> Problem:
    """Two models whose items read one or two of those shortly before them; ends may be on the core."""
    rng = random.Random(seed)
    first = branches(rng, 0, 0, rng.choice([5, 6, 7]))
    second = branches(rng, 1, len(first[0]), rng.choice([2, 3, 4]))
    return both(first, second, rng.choice([0, 1, 3]))


def branches(rng: random.Random, name: int, first: int, count: int) -> Model:
    between = cost(rng.choice([0, 0, 0, 1, 4]))
    change = {("GPU", "DLA"): between, ("DLA", "GPU"): between, ("DLA", "DLA"): between}
    readers: List[List[int]] = [[] for _ in range(count)]
    for k in range(1, count):
        for p in {max(0, k - 1 - int(rng.expovariate(0.7))) for _ in range(rng.choice([1, 1, 2]))}:
            readers[p].append(first + k)
    items, flows = [], [Flow(f"x{name}", name, None, (first,), False, change)]
    ends_on_gpu = rng.random() < 0.6
    for k, read_by in enumerate(readers):
        gpu_us, dla_us = (rng.choice([1, 3, 9, 20, 50, 100]) for _ in range(2))
        costs, allowed = {"GPU": cost(gpu_us * rng.choice([1, 3])), "DLA": cost(dla_us)}, ALL
        if rng.random() < 0.3 or ends_on_gpu and not read_by:
            costs, allowed = {"GPU": cost(gpu_us)}, ("GPU",)
        items.append(Item(f"m{name}l{k}", name, (k,), allowed, costs))
        is_output = not read_by or rng.random() < 0.05
        flows.append(Flow(f"t{name}.{k}", name, first + k, tuple(read_by), is_output, change))
    return items, flows


def least_with_one_core_each(problem: Problem) -> float:
    """By brute force over the placements in which no model uses both cores, as the searches of pairs take them."""
    length = schedule_length()
    return brute_force(problem, MAKESPAN, lambda p, e: INFINITY if on_two_cores(p, e) else length(p, e)[0])[0]


def agree(problem: Problem) -> None:
    """No search says more than brute force; a bound above what a search itself met says that nothing is shorter than that."""
    least, until = least_with_one_core_each(problem) * (1 + 1e-9), Deadline.after(60)
    pair, labels = rounds_of(problem)
    assert min(labels.dive(0.0, until), pair.best.value) <= least
    pair, _ = rounds_of(problem)
    search = PairSearch(problem, ALL, pair.best, 1e-4, until)
    search.run()
    assert min(search.bound, pair.best.value) <= least


@CHECKED
@given(st.integers(0, 10**9))
def test_no_placement_is_below_the_bounds(seed: int) -> None:
    agree(branching(seed))


@pytest.mark.parametrize(("shape", "seed"), [(JOINED, 20), (JOINED, 35), (APART, 99), (APART_FROM_ENDS, 0)])
def test_a_reader_may_be_in_a_later_loadable_than_what_it_reads(shape: Shape, seed: int) -> None:
    agree(shaped(shape, seed))
