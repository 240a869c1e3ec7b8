"""Makespan of two models by labels: bounds never exceed brute force, and `rest` never exceeds any continuation."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Dict, List, Optional, Sequence, Set, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import NEVER, Deadline, Moment
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY, Goal
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.problem.schedule import shortest_schedule
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import weights_in_rings
from edgedla.placement.solvers.busiest.rows import ranges
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.two_models.labels import label_rounds as rounds_module
from edgedla.placement.solvers.two_models.labels import timelines as timelines_module
from edgedla.placement.solvers.two_models.labels.bit_sets import (
    GrowingArray,
    Slots,
    add,
    bits_of,
    has,
    keys_of,
    meet,
    members,
    numbered,
    remove,
)
from edgedla.placement.solvers.two_models.labels.execution import Execution
from edgedla.placement.solvers.two_models.labels.label_rounds import LabelRounds
from edgedla.placement.solvers.two_models.labels.label_search import LabelSearch, Room
from edgedla.placement.solvers.two_models.labels.moments import Moments
from edgedla.placement.solvers.two_models.labels.next_runs import Labels
from edgedla.placement.solvers.two_models.labels.timelines import Known, TimeAhead
from edgedla.placement.solvers.two_models.pair import Pair
from tests.placement.placement_problems import brute_force, checked, cost, problems, regroup
from tests.placement.test_placement_pairs import of_one_batch

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)
MAKESPAN = Goal("makespan")
ALL = ("GPU", "DLA0", "DLA1")

#: Of the GPU, a core, and both models' own times.
WEIGHTS = np.array([0.4, 0.0, 0.3, 0.3])
WEIGHED = np.array([True, False, True, True])


@given(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).filter(any))
def test_weights_in_rings_contain_the_best_weight_and_give_valid_bounds(shares: List[float]) -> None:
    best = np.zeros(4)
    best[WEIGHED] = np.array(shares) / sum(shares)
    rows = weights_in_rings(best, WEIGHED)
    assert np.abs(rows - best).max(axis=1).min() < 1e-6
    assert (rows >= 0).all()
    assert (rows[:, ~WEIGHED] == 0).all()
    assert np.allclose(rows.sum(axis=1), 1.0, atol=3e-7)


def rounds_of(problem: Problem) -> Tuple[Pair, LabelRounds]:
    pair = Pair(problem, ALL, Best(problem, MAKESPAN, schedule_length()), 1e-4, Deadline.after(20))
    pair.best.offer(pair.placed(["GPU"] * pair.items[0], ["GPU"] * pair.items[1]))
    return pair, LabelRounds(pair, WEIGHTS, WEIGHED)


def least_on_all(problem: Problem) -> float:
    """By brute force; the engines that are in use slow each other down, so that each set of them is searched alone."""
    length = schedule_length()
    least, _ = brute_force(problem, MAKESPAN, lambda p, e: length(p, e)[0] if e.engines == {*ALL} else INFINITY)
    return least


shares = st.sampled_from([0.0, 0.5, 1.0])


@CHECKED
@given(problems(6, ALL, 2), st.integers(1, 5), st.booleans(), shares, shares)
def test_no_placement_is_below_the_bound_however_few_labels_are_kept(
    drawn: Problem, few: int, narrow: bool, evenly: float, dearer: float
) -> None:
    problem = of_one_batch(drawn)
    least = least_on_all(problem)
    pair, labels = rounds_of(problem)
    room = Room(labels=few, evenly=evenly, dearer=dearer)
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr(labels, "room", room)
        patch.setattr(rounds_module, "DIVE", room)
        bound = labels.dive(0.0, Deadline.after(20))
        assert bound <= least * (1 + 1e-9)
        bound = labels.run(bound, Deadline.after(20))
    assert bound <= least * (1 + 1e-9)
    assert narrow or pair.best.value <= least * (1 + 2e-4) or bound < pair.limit


def test_no_model_is_far_ahead_of_the_other_one_before_it_is_known_what_that_does() -> None:
    """With one model run up to each of its waits before the other one begins, there were 11,000 labels."""
    problem = wide_choice(2, (12, 12))
    pair = Pair(problem, ALL, Best(problem, MAKESPAN, schedule_length()), 1e-4, NEVER)
    search = LabelRounds(pair, WEIGHTS, WEIGHED).search(NEVER, Room())
    assert search.look(60.0)[0] == pytest.approx(43.0)
    assert search.labels < 5_000


@pytest.mark.parametrize("evenly", [0.5, 1.0])
def test_labels_dealt_out_evenly_are_the_most_promising_ones_of_each_stage(
    evenly: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, cuts = 4, 0
    _, labels = rounds_of(wide_choice())
    search = labels.search(NEVER, Room(labels=few, evenly=evenly))
    ordered = LabelSearch._most_promising

    def checked_order(self: LabelSearch, known: Known, met: Labels) -> np.ndarray:
        nonlocal cuts
        order = ordered(self, known, met)
        assert sorted(order.tolist()) == list(range(len(order)))
        come = labels.timelines.run[met.first]
        by_bound = round(few * (1 - evenly))
        assert met.bound[order[:by_bound]].tolist() == sorted(met.bound)[:by_bound]
        dealt = order[by_bound:few]
        stages = {c: [k for k in order.tolist() if come[k] == c] for c in come.tolist()}
        for k in dealt.tolist():
            place = stages[come[k]].index(k)
            # A second one of a stage is taken once every stage has its first.
            assert all(len(of) <= place - 1 or {*of[:place]} <= {*order[:few].tolist()} for of in stages.values())
        cuts += 1
        return order

    monkeypatch.setattr(LabelSearch, "_most_promising", checked_order)
    search.look(1e6)
    assert cuts > 5


def test_labels_alone_prove_most_tiny_pairs() -> None:
    """What is left open beside a placement is seldom shorter than any."""
    proven: List[bool] = []

    @checked(60, 1000)
    @given(problems(6, ALL, 2, limits=False, pools=False))
    def count(drawn: Problem) -> None:
        bare = replace(of_one_batch(drawn), slowdown={})
        pair, labels = rounds_of(replace(bare, grouping=regroup(bare, "fp16")))
        proven.append(labels.run(0.0, Deadline.after(20)) >= pair.limit)

    count()
    # What is drawn comes in clusters of like problems.
    assert np.mean(proven) > 0.7


@CHECKED
@given(problems(6, ("GPU", "DLA0"), 1), st.integers(0, 10**6))
def test_remaining_cost_is_a_lower_bound_of_every_completion(drawn: Problem, seed: int) -> None:
    frontier = Frontier(of_one_batch(drawn), ("GPU", "DLA0"))
    execution = Execution(frontier, (1.2, 1.1), range(len(frontier.allowed)))
    random = np.random.default_rng(seed)
    weights = random.random((5, 2))
    prices = Prices(frontier, weights * np.array([1.2, 1.1]), np.ones(5, bool))
    rests = TimeAhead(execution, prices, weights)
    least: Dict[bytes, np.ndarray] = {}

    def to_the_end(moment: Moments) -> np.ndarray:
        key = moment.keys()[0]
        if key not in least:
            ways = execution.ways(moment)
            us = np.stack([ways.gpu_us, ways.core_us], axis=1)
            behind = [weights @ us[w] + to_the_end(ways.moments.taken(np.array([w]))) for w in range(len(us))]
            ended = execution.has_ended(moment)[0]
            least[key] = np.zeros(5) if ended else np.min(behind, axis=0, initial=np.inf)
            assert (rests.behind(moment)[0] <= least[key] + 1e-6).all(), moment
        return least[key]

    to_the_end(execution.start)


@CHECKED
@given(problems(8, ("GPU", "DLA0"), 1), st.integers(0, 10**6))
def test_ways_of_many_moments_at_once_are_those_of_each_alone(drawn: Problem, seed: int) -> None:
    frontier = Frontier(of_one_batch(drawn), ("GPU", "DLA0"))
    ranks = np.random.default_rng(seed).permutation(len(frontier.allowed)).tolist()
    execution = Execution(frontier, (1.2, 1.1), ranks)
    moments = execution.start
    while len(moments.done):
        together = execution.ways(moments)
        assert (np.diff(together.parent) >= 0).all()
        for row in range(len(moments.done)):
            alone, which = execution.ways(moments.taken(np.array([row]))), together.parent == row
            assert together.moments.taken(which).keys() == alone.moments.keys()
            for ours, theirs in zip(together[2:], alone[2:]):
                assert ours[which].tolist() == theirs.tolist()
            assert (np.diff(alone.acquires.astype(int)) <= 0).all()
        keys = together.moments.keys()
        moments = together.moments.taken(np.array([keys.index(key) for key in dict.fromkeys(keys)], int))


def test_arrays_grow_and_keep_their_rows() -> None:
    grown = GrowingArray(float, 3)
    for k in range(100):
        grown.add(np.full((k % 4, 3), k))
    expected = list(itertools.chain.from_iterable([[float(k)] * 3] * (k % 4) for k in range(100)))
    assert grown.rows.tolist() == expected
    grown.rows[0] = -1.0
    assert grown.rows[0].tolist() == [-1.0] * 3


sets = st.lists(st.sets(st.integers(0, 199)), min_size=1, max_size=6)


@given(sets, st.integers(0, 199))
def test_sets_as_bits(drawn: List[Set[int]], number: int) -> None:
    bits, rows, numbers = bits_of(drawn, 200), np.arange(len(drawn)), np.full(len(drawn), number)
    row, member = members(bits)
    assert list(zip(row.tolist(), member.tolist())) == [(r, k) for r, s in enumerate(drawn) for k in sorted(s)]
    assert has(bits, rows, numbers).tolist() == [number in s for s in drawn]
    assert meet(bits, bits[::-1]).tolist() == [bool(a & b) for a, b in zip(drawn, drawn[::-1])]
    odd = rows % 2 == 1
    add(bits, rows, numbers, odd)
    remove(bits, rows, numbers, ~odd)
    changed = [s | {number} if r % 2 else s - {number} for r, s in enumerate(drawn)]
    assert np.array_equal(bits, bits_of(changed, 200))


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), max_size=20), st.integers(0, 5))
def test_rows_are_numbered_in_the_order_they_come(drawn: List[List[int]], known: int) -> None:
    rows = np.array(drawn, int).reshape(-1, 3)
    keys = keys_of(rows)
    at: Dict[bytes, int] = {}
    numbered(at, keys[:known], 0)
    numbers, new = numbered(at, keys, len(at))
    first = [drawn.index(row) for row in drawn]
    assert numbers.tolist() == [len({*map(tuple, drawn[:k])}) for k in first]
    assert new.tolist() == sorted({k for k in first if k >= known})


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6))
def test_slots_give_each_list_entry_by_entry(lists: List[List[int]]) -> None:
    read: List[List[int]] = [[] for _ in lists]
    for which, entries in Slots(lists).of(np.arange(len(lists))):
        for row, entry in zip(which.tolist(), entries.tolist()):
            read[row].append(entry)
    assert read == lists


#: (device, us) of items, and (producer, readers, us to the core) of tensors; what nobody reads is an output.
Network = Tuple[List[Tuple[str, int]], List[Tuple[Optional[int], Tuple[int, ...], int]]]


def pair_of(networks: Sequence[Network], loadable_us: int, engine_us: int = 0, layered: bool = True) -> Problem:
    """Two models whose items have no choice."""
    items: List[Item] = []
    flows: List[Flow] = []
    for m, (times, tensors) in enumerate(networks):
        first = len(items)
        for k, (device, us) in enumerate(times):
            allowed = ("GPU",) if device == "GPU" else ALL[1:]
            items.append(Item(f"m{m}l{k}", m, (k,) if layered else (), allowed, {device: cost(us)}))
        for source, readers, us in tensors:
            by_kind = {("GPU", "DLA"): cost(us), ("DLA", "GPU"): cost(0), ("DLA", "DLA"): cost(0)}
            producer = None if source is None else first + source
            flows.append(Flow(f"t{m}", m, producer, tuple(first + r for r in readers), not readers, by_kind))
    bare = Problem(tuple(items), tuple(flows), (), lambda p, c, members: (members,), ("a", "b"), cost(loadable_us), ALL)
    return replace(bare, engine=cost(engine_us), rates=(1.0, 1.0), grouping=regroup(bare, "fp16"))


def chain(*times: Tuple[str, int]) -> Network:
    return list(times), [(k - 1 if k else None, (k,) if k < len(times) else (), 0) for k in range(len(times) + 1)]


def wide_choice(loadable_us: int = 2, items_of_models: Tuple[int, int] = (5, 4)) -> Problem:
    """Two chains whose items may run anywhere."""
    problem = pair_of([chain(*[("GPU", 3)] * count) for count in items_of_models], loadable_us)
    items = [replace(i, allowed=ALL, costs={"GPU": cost(3), "DLA": cost(4)}) for i in problem.items]
    return replace(problem, items=tuple(items))


def bound_of(problem: Problem, limit: float) -> float:
    """By all labels."""
    pair = Pair(problem, ALL, Best(problem, MAKESPAN, schedule_length()), 1e-4, NEVER)
    room = Room(10**6, 10**9, 10**6, 10**6)
    return LabelRounds(pair, WEIGHTS, WEIGHED).search(NEVER, room).look(limit)[0]


#: The last item, which another one of its loadable has to run before, reads what is on the GPU from the start.
BEHIND_NO_WORK: Network = (
    [("GPU", 10), ("DLA", 20), ("GPU", 0), ("DLA", 10), ("DLA", 10)],
    [(None, (0,), 0), (0, (1,), 0), (0, (4,), 10), (1, (2,), 0), (2, (3,), 0), (3, (4,), 0), (4, (), 0)],
)
BEHIND_A_LOADABLE: Network = (
    [("GPU", 5), ("DLA", 40), ("GPU", 10), ("DLA", 10), ("DLA", 30)],
    [(None, (0,), 0), (0, (1, 3), 0), (0, (4,), 20), (1, (2,), 0), (2, (), 0), (3, (4,), 0), (4, (), 0)],
)
#: The loadable that the model begins with reads two network inputs, the second one later; only that one needs a reformat.
FROM_TWO_INPUTS: Network = ([("DLA", 20), ("DLA", 80)], [(None, (0,), 0), (None, (1,), 10), (0, (1,), 0), (1, (), 0)])
#: While the first item of its loadable runs, the other model may already use the GPU; the second one needs a reformat before it.
JOINED_LATE: Network = (
    [("GPU", 10), ("DLA", 20), ("DLA", 10), ("GPU", 10)],
    [(None, (0,), 0), (0, (1,), 0), (0, (2,), 10), (1, (2,), 0), (2, (3,), 0), (3, (), 0)],
)
BESIDE = chain(("GPU", 30), ("DLA", 30), ("GPU", 10), ("DLA", 40))


@pytest.mark.parametrize(
    ("networks", "layered", "length"),
    [
        ((BEHIND_NO_WORK, chain(("GPU", 10), ("DLA", 45))), True, 70),
        ((BEHIND_A_LOADABLE, BESIDE), True, 125),
        ((FROM_TWO_INPUTS, chain(("GPU", 3), ("DLA", 110))), True, 118),
        ((JOINED_LATE, chain(("DLA", 20), ("GPU", 50))), True, 85),
        ((chain(("DLA", 10)), chain(("DLA", 20))), False, 25),
    ],
    ids=[
        "reformat behind work of no time",
        "reformat behind a loadable",
        "reformat before the loadable that a model begins with",
        "reformat for an item that joins a loadable",
        "no engine of layers to call",
    ],
)
def test_the_length_of_the_only_placement_is_not_below_the_bound(networks: Sequence[Network], layered: bool, length: int) -> None:
    problem = pair_of(networks, 5, 0 if layered else 3, layered)
    devices = ["GPU" if item.allowed == ("GPU",) else f"DLA{item.model}" for item in problem.items]
    assert shortest_schedule(problem, evaluate(problem, devices)).length_us == length
    assert bound_of(problem, 2.0 * length) <= length + 1e-6


@CHECKED
@given(problems(12, ALL, 2), st.integers(0, 10**6))
def test_the_bound_is_not_above_the_length_of_any_single_placement(drawn: Problem, seed: int) -> None:
    """Each placement alone, where no other one is shorter; items of no time, of no layers and free reformats among them."""
    random = np.random.default_rng(seed)
    free = {key: cost(0) for key in itertools.product(("GPU", "DLA"), repeat=2)}
    problem = replace(
        of_one_batch(drawn), slowdown={}, flows=tuple(replace(f, costs=free) if random.random() < 0.4 else f for f in drawn.flows)
    )
    devices, items = [], []
    for item in of_one_batch(drawn).items:
        devices.append(str(random.choice([d for d in item.allowed if d != ALL[2 - item.model]])))
        costs = {"GPU": cost(0), "DLA": cost(0)} if random.random() < 0.3 else item.costs
        layers = item.layers if random.random() < 0.8 else ()
        items.append(replace(item, costs=costs, layers=layers, allowed=ALL[:1] if devices[-1] == "GPU" else ALL[1:]))
    problem = replace(problem, items=tuple(items))
    length = shortest_schedule(problem, evaluate(problem, devices)).length_us
    assert bound_of(problem, 1.5 * length + 1.0) <= length + 1e-6


@pytest.mark.parametrize(("most_moments", "ticks"), [(10**6, 5), (5_000, 10**6)], ids=["time", "moments"])
def test_a_look_beyond_its_time_or_moment_limit_ends_within_a_step(
    most_moments: int, ticks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many branches that may run in any order, one step looks at very many moments."""
    branches = 40
    wide: Network = ([("GPU", 1)] * branches, [(None, tuple(range(branches)), 1), *((k, (), 1) for k in range(branches))])
    problem = pair_of([wide, wide], 5)
    items = [replace(i, allowed=ALL, costs={"GPU": cost(1), "DLA": cost(1)}) for i in problem.items]
    problem = replace(problem, items=tuple(items))
    pair = Pair(problem, ALL, Best(problem, MAKESPAN, schedule_length()), 1e-4, NEVER)
    rounds = LabelRounds(pair, WEIGHTS, WEIGHED)
    timelines = rounds.timelines
    clock = itertools.count()
    monkeypatch.setattr("edgedla.placement.deadline.time.thread_time", lambda: float(next(clock)))
    search = rounds.search(
        Deadline(Moment(float(ticks), INFINITY), Moment(0.0, 0.0)), Room(2_000, 10**9, most_moments, most_moments)
    )
    low, met = search.look(1e6)
    assert 0 < low < 1e6
    assert not met
    assert next(clock) < ticks + 3
    at_once = timelines_module.AT_ONCE * 2 * branches
    assert timelines.size < min(ticks * at_once, most_moments + at_once)


@pytest.mark.parametrize(("most_moments", "crowded"), [(4, True), (10**6, False)])
def test_a_look_with_too_many_moments_ends_the_search(most_moments: int, crowded: bool) -> None:
    problem = pair_of([chain(*[("GPU", 3)] * 12)] * 2, 5)
    items = [replace(i, allowed=ALL, costs={"GPU": cost(3), "DLA": cost(4)}) for i in problem.items]
    pair, rounds = rounds_of(replace(problem, items=tuple(items)))
    rounds.room = Room(new_moments=most_moments)
    reached = rounds.run(10.0, NEVER)
    assert (reached < pair.limit) == crowded


@pytest.mark.parametrize(
    ("first", "counts", "numbers"),
    [([], [], []), ([5], [0], []), ([5, 0, 7], [2, 0, 3], [5, 6, 7, 8, 9]), ([3, 3], [1, 2], [3, 3, 4])],
)
def test_ranges_concatenates_consecutive_integers(first: List[int], counts: List[int], numbers: List[int]) -> None:
    assert ranges(np.array(first, int), np.array(counts, int)).tolist() == numbers


def test_the_first_look_goes_halfway_and_the_next_to_the_limit() -> None:
    pair, labels = rounds_of(pair_of([chain(("GPU", 10)), chain(("GPU", 10))], 1))
    asked: List[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "_look", lambda _, limit: asked.append(limit) or limit)
        assert labels.run(0.5 * pair.limit, NEVER) == pair.limit
    assert asked == [0.75 * pair.limit, pair.limit]
