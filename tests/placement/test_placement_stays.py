"""Makespan of two models by stays at the GPU: bounds never exceed brute force, and each part covers what it says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Dict, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.problem.problem import Flow, Item, Problem
from edgedla.placement.problem.schedule import segments
from edgedla.placement.solvers.labels import label_search as label_search_module
from edgedla.placement.solvers.labels import rounds as rounds_module
from edgedla.placement.solvers.several import solve_pair as solve_pair_module
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair_search import PairSearch
from edgedla.placement.solvers.several.solve_pair import can_solve, solve_pair
from edgedla.placement.solvers.several.turns import Turns
from edgedla.placement.solvers.solve import schedule_length
from edgedla.placement.solvers.stays import gaps as gaps_module
from edgedla.placement.solvers.stays import stay_rounds as stay_rounds_module
from edgedla.placement.solvers.stays.closing import lengths, mixed
from edgedla.placement.solvers.stays.counted_rest import CountedRest
from edgedla.placement.solvers.stays.host import Host, can_be_host
from edgedla.placement.solvers.stays.stay_rounds import StayRounds
from edgedla.placement.solvers.stays.stays import Stays
from edgedla.placement.solvers.stays.turning import TurningSegments
from edgedla.placement.solvers.streams.frontier import Frontier
from tests.placement.placement_problems import assignments, checked, cost, problems, regroup
from tests.placement.test_placement_labels import ALL, MAKESPAN, least_on_all, rounds_of
from tests.placement.test_placement_pairs import of_one_batch

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)


def grouped(drawn: Problem) -> Problem:
    bare = of_one_batch(drawn)
    return replace(bare, grouping=regroup(bare, "fp16"))


@CHECKED
@given(
    st.one_of(problems(6, ALL, 2, limits=False), problems(8, ALL, 2)),
    st.sampled_from([1e-3, 0.05, 0.5]),
    st.sampled_from([0, 0, 3, 9]),
)
def test_no_placement_is_below_the_bound_however_few_states_are_kept(drawn: Problem, step: float, few: int) -> None:
    problem = grouped(drawn)
    least = least_on_all(problem)
    for host in (0, 1):
        pair, labels = rounds_of(problem)
        if not can_be_host(pair.frontiers[host]):
            continue
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stay_rounds_module, "STEP", step)
            if few:
                patch.setattr(stay_rounds_module, "GUEST_STATES", few)
                patch.setattr(gaps_module, "STATES", few)
                patch.setattr(stay_rounds_module, "HOST_STATES", (few, 3 * few))
                patch.setattr(stay_rounds_module, "MOST_GAPS", 1)
            rounds = StayRounds(pair, labels.timelines, labels.weights, host)
            assert rounds.run(0.0, Deadline.after(20)) <= least * (1 + 1e-9)


def chain(
    name: int, first: int, times: Sequence[Tuple[float, float]], between_us: float
) -> Tuple[List[Item], List[Flow]]:
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


def two_chains() -> Problem:
    """The GPU alternates between both models: the shortest placement has two loadables of each."""
    first = chain(0, 0, [(30, 40), (40, 0), (30, 33), (50, 0), (30, 60), (9, 0)], 1.0)
    second = chain(1, 6, [(20, 0), (40, 42), (30, 0), (40, 44), (15, 0)], 1.0)
    bare = Problem(
        (*first[0], *second[0]),
        (*first[1], *second[1]),
        (),
        lambda *_: (),
        ("m0", "m1"),
        cost(2),
        ALL,
        rates=(1.0, 1.0),
    )
    return replace(bare, grouping=regroup(bare, "fp16"))


@pytest.mark.parametrize("host", [0, 1])
def test_two_chains_are_proven_from_either_side(host: int) -> None:
    problem = two_chains()
    least = least_on_all(problem)
    pair, labels = rounds_of(problem)
    bound = StayRounds(pair, labels.timelines, labels.weights, host).run(0.0, Deadline.after(60))
    assert pair.best.value == pytest.approx(least)
    assert bound == pytest.approx(least, rel=1.1e-4)


def test_what_is_not_shown_in_time_is_not_soon_through(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, labels = rounds_of(two_chains())
    rounds = StayRounds(pair, labels.timelines, labels.weights, 0)
    # With a host of few states in reach, what the gaps say reaches as far.
    monkeypatch.setattr(stay_rounds_module, "HOST_STATES", (1,))
    assert rounds.is_soon_through(0.0, Deadline.after(20))
    assert not rounds.is_soon_through(0.0, Deadline.after(-1))
    # Of pairs above what is known, a host of so few states says nothing.
    assert not rounds.is_soon_through(0.999 * pair.limit, Deadline.after(20))


def test_asking_whether_stays_are_soon_through_takes_a_small_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = two_chains()
    monkeypatch.setattr(rounds_module, "DIVES", ())
    monkeypatch.setattr(rounds_module, "ROOM", label_search_module.Room(new_moments=0))
    monkeypatch.setattr(label_search_module, "LABELS_PER_MOMENT", 10**9)
    asked: List[float] = []

    def ask(rounds: StayRounds, bound: float, until: float) -> bool:
        asked.append(until.left_s)
        return False

    monkeypatch.setattr(StayRounds, "is_soon_through", ask)
    solve_pair(problem, MAKESPAN, [["GPU"] * len(problem.items)], 20.0, value_of=schedule_length())
    assert asked
    assert max(asked) < 3.0


def test_stays_are_looked_at_once_labels_find_too_many_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = two_chains()
    assert can_solve(problem, MAKESPAN)
    monkeypatch.setattr(rounds_module, "DIVES", ())
    monkeypatch.setattr(rounds_module, "ROOM", label_search_module.Room(new_moments=0))
    monkeypatch.setattr(label_search_module, "LABELS_PER_MOMENT", 10**9)
    monkeypatch.setattr(Turns, "begin", lambda *_: None)
    monkeypatch.setattr(Turns, "improve", lambda *_: None)
    monkeypatch.setattr(PairSearch, "_look_at_rows", lambda *_: None)
    monkeypatch.setattr(PairSearch, "_glance", lambda *_: None)
    monkeypatch.setattr(solve_pair_module, "STATES", (3, 4))
    start = [["GPU"] * len(problem.items)]
    solution = solve_pair(problem, MAKESPAN, start, 60.0, value_of=schedule_length())
    assert solution.value == pytest.approx(least_on_all(problem))
    assert solution.optimal


@CHECKED
@given(st.integers(0, 4), st.integers(0, 10**6))
def test_no_mixture_of_paths_exceeds_the_length_of_a_schedule(gaps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(3), 4)
    of_host, of_guest = mixed(rows, gaps)
    hosts = rng.exponential(10.0, (6, 2 * gaps + 1)) * rng.integers(0, 2, (6, 2 * gaps + 1))
    guest = rng.exponential(10.0, 2 * gaps + 3)
    length = lengths(guest, hosts)
    assert ((hosts @ of_host.T + of_guest @ guest).max(axis=1) <= length * (1 + 1e-9)).all()


@CHECKED
@given(problems(7, ("GPU", "DLA0"), 1, limits=False))
def test_the_segments_of_every_placement_of_a_host_are_among_those_with_its_number_of_loadables(drawn: Problem) -> None:
    problem = grouped(drawn)
    frontier = Frontier(problem, ("GPU", "DLA0"))
    if not can_be_host(frontier):
        return
    met: Dict[int, Dict[Tuple[int, ...], List[np.ndarray]]] = {}
    for assignment in assignments(problem):
        evaluation = evaluate(problem, assignment)
        count = len(evaluation.regions)
        if count not in met:
            met[count] = placements_of(TurningSegments(frontier, count, None), len(problem.items))  # type: ignore[arg-type]
        row = segments(problem, evaluation, 0)
        times = np.zeros(2 * count + 1)
        at = -1
        for segment in row:
            at += 1 if at >= 0 or segment.device != "GPU" else 1
            at += (at % 2 == 0) != (segment.device == "GPU")
            times[at] += segment.time_us
        devices = tuple(int(d != "GPU") for d in assignment)
        assert any(np.allclose(times, loads) for loads in met[count][devices])


def placements_of(model: TurningSegments, items: int) -> Dict[Tuple[int, ...], List[np.ndarray]]:
    """By the device of each item, the times of all rows of segments with it."""
    rows = [(model.start, (), np.array(model.fixed))]
    for i in range(items):
        behind = []
        for state, devices, loads in rows:
            states, ways = model.ways(i, state)
            for target, choice, load in zip(ways.target, ways.choice, ways.load):
                behind.append((states[target : target + 1], (*devices, int(choice) % 2), loads + load))
        rows = behind
    found: Dict[Tuple[int, ...], List[np.ndarray]] = {}
    for state, devices, loads in rows:
        if model.is_whole(state)[0]:
            found.setdefault(devices, []).append(loads)
    return found


@CHECKED
@given(problems(8, ALL, 2, limits=False), st.integers(0, 4))
def test_what_is_still_to_come_with_so_many_loadables_is_exact_at_the_start(drawn: Problem, loadables: int) -> None:
    problem = grouped(drawn)
    pair, _ = rounds_of(problem)
    rows = np.array([[1.0, 1.0], [1.0, 0.4], [0.3, 0.7]])
    host = Host(pair, 0, rows, np.full(3, -INFINITY), 10**6, NEVER)
    if host.graph.empty:
        return
    rest = CountedRest(pair.frontiers[0], host.graph, host.weights, loadables)
    segmented = TurningSegments(pair.frontiers[0], loadables, rest)
    loadables_us = loadables * pair.frontiers[0].loadable_us * host.weights[:, 1]
    expected = host.least(loadables)[loadables] - loadables_us
    assert segmented.rest(0, segmented.start)[0] == pytest.approx(expected)
    assert isinstance(host.graph, Graph)


@pytest.mark.parametrize("gaps", [0, 1, 2, 3])
def test_stays_may_be_in_any_windows_one_after_the_other(gaps: int) -> None:
    problem = two_chains()
    pair, labels = rounds_of(problem)
    stays = Stays(labels.timelines, 1, gaps, labels.timelines.telling, 10**6, NEVER)
    rows = [(stays.start, (), np.zeros(stays.columns))]
    for i in range(pair.items[1] + 1):
        behind = []
        for state, choices, loads in rows:
            states, ways = stays.ways(i, state)
            for target, choice, load in zip(ways.target, ways.choice, ways.load):
                behind.append((states[target : target + 1], (*choices, int(choice)), loads + load))
        rows = behind
    found = [(stays.devices(choices), loads) for state, choices, loads in rows if stays.is_whole(state)[0]]
    for devices in ([0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 0]):
        row = segments(problem, pair.placed(["GPU"] * 6, pair.named(1, np.array(devices))), 1)
        of_gpu = [s.time_us for s in row[::2]]
        outside = [s.time_us for s in row[1::2]]
        for windows in itertools.combinations(range(gaps + 2), len(of_gpu)):
            expected = np.zeros(stays.columns)
            for window, us in zip(windows, of_gpu):
                expected[window if 0 < window <= gaps else 0] += us
            for before, after, us in zip(windows, windows[1:], outside):
                expected[gaps + 1 + before if after == before + 1 else -1] += us
            assert any(d == devices and np.allclose(loads, expected) for d, loads in found), (devices, windows)
