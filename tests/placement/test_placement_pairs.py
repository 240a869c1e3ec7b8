"""Makespan of two models: the search by segment times agrees with brute force over all assignments."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Iterable, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.networks import network
from edgedla.placement.api import prepare
from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.baselines import baselines
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import INFINITY, Goal, Solution, legal
from edgedla.placement.problem.problem import Flow, Item, Limits, Link, Problem
from edgedla.placement.problem.schedule_search import ScheduleSearch
from edgedla.placement.request import PlacementRequest
from edgedla.placement.solvers.best import Best
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.fit_around import around, first_start, taken
from edgedla.placement.solvers.rounds import Rounds, Way
from edgedla.placement.solvers.solve import schedule_length, solve
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import problem_of_model
from edgedla.placement.solvers.states.state_arrays import StateArrays
from edgedla.placement.solvers.two_models import pair_search as pair_search_module
from edgedla.placement.solvers.two_models.labels.label_rounds import LabelRounds
from edgedla.placement.solvers.two_models.pair import Pair, simple_bounds
from edgedla.placement.solvers.two_models.solve_pair import _by_more, can_solve, solve_pair
from tests.placement.placement_problems import brute_force, checked, cost, problems, regroup

pytestmark = pytest.mark.once

CHECKED = checked(20, 1000)
MAKESPAN = Goal("makespan")
ONE_CORE, ALL = ("GPU", "DLA0"), ("GPU", "DLA0", "DLA1")


def of_one_batch(problem: Problem) -> Problem:
    return replace(problem, items=tuple(replace(i, batch=1) for i in problem.items))


def on_two_cores(problem: Problem, evaluation: Evaluation) -> bool:
    """Whether a model is on two cores. That may pay only where a loadable is parted, which the search leaves out."""
    return len({(r.model, r.core) for r in evaluation.regions}) > len({r.model for r in evaluation.regions})


def held_against_brute_force(problem: Problem, **options: float) -> Tuple[Solution, float]:
    """(what `solve_pair` says, which holds what all assignments show in which no model is on two cores; their least)."""
    length = schedule_length()
    least, _ = brute_force(problem, MAKESPAN, lambda p, e: INFINITY if on_two_cores(p, e) else length(p, e)[0])
    solution = solve_pair(problem, MAKESPAN, [], Deadline.after(20.0), value_of=length, **options)
    assert solution.one_core_per_model == (len(problem.cores) > 1)
    assert solution.bound <= least * (1 + 1e-9)
    assert solution.value >= least * (1 - 1e-9)
    return solution, least


@CHECKED
@given(st.one_of(problems(8, ONE_CORE, 2), problems(6, ALL, 2)))
def test_bound_and_value_enclose_the_brute_force_makespan_of_pairs(drawn: Problem) -> None:
    problem = of_one_batch(drawn)
    assert can_solve(problem, MAKESPAN)
    solution, least = held_against_brute_force(problem)
    assert not solution.optimal or solution.value <= least * (1 + 2e-4)


SETS = [frozenset(s) for n in (2, 3) for s in itertools.combinations(ALL, n)]
factors = st.lists(st.sampled_from([1.0, 1.05, 1.5]), min_size=6, max_size=6)


def slowed(problem: Problem, drawn: List[float]) -> Problem:
    """With these factors, of the GPU and of both cores: one core beside the GPU, both cores alone, and all engines."""
    kinds = [{"GPU", "DLA0"}, {"DLA0", "DLA1"}, {*ALL}]
    slowdown = {}
    for s in SETS:
        k = kinds.index({"GPU", "DLA0"} if len(s) == 2 and "GPU" in s else {*s})
        slowdown[s] = {d: drawn[2 * k + (d != "GPU")] for d in sorted(s)}
    return replace(problem, slowdown=slowdown)


@CHECKED
@given(problems(6, ALL, 2), factors)
def test_pairs_whose_engines_slow_each_other_are_held_against_brute_force(drawn: Problem, slower: List[float]) -> None:
    solution, least = held_against_brute_force(slowed(of_one_batch(drawn), slower))
    assert not solution.optimal or solution.value <= least * (1 + 2e-4)


@CHECKED
@given(problems(6, ALL, 2), factors)
def test_what_holds_of_more_engines_holds_of_fewer_but_for_the_slowdown(drawn: Problem, slower: List[float]) -> None:
    problem, length = slowed(of_one_batch(drawn), slower), schedule_length()
    on_all = replace(problem, slowdown=dict.fromkeys(SETS, problem.slowdown[frozenset(ALL)]))
    least, _ = brute_force(on_all, MAKESPAN, lambda p, e: INFINITY if on_two_cores(p, e) else length(p, e)[0])
    for fewer in (ONE_CORE, ("GPU",), ("DLA0",), ("DLA0", "DLA1")):
        on_fewer, _ = brute_force(
            problem, MAKESPAN, lambda p, e, s={*fewer}: INFINITY if e.engines != s or on_two_cores(p, e) else length(p, e)[0]
        )
        assert _by_more(problem, fewer, {ALL: least}, INFINITY) <= on_fewer * (1 + 1e-9)


def test_bounds_of_more_engines_are_divided_by_the_slowdown_of_what_is_in_use() -> None:
    problem = slowed(Problem((), (), (), lambda p, c, m: (), (), cost(0), ALL), [1.0] * 6)
    problem.slowdown[frozenset(ALL)].update({"GPU": 1.2, "DLA0": 1.1, "DLA1": 1.3})
    problem.slowdown[frozenset(ONE_CORE)].update({"DLA0": 1.04})
    assert _by_more(problem, ONE_CORE, {ALL: 250.0}, INFINITY) == pytest.approx(250.0 / (1.3 / 1.04))
    assert _by_more(problem, ("GPU",), {ALL: 240.0}, INFINITY) == pytest.approx(200.0)
    assert _by_more(problem, ("GPU",), {ALL: 240.0}, 120.0) == pytest.approx(100.0)
    assert _by_more(problem, ALL, {ONE_CORE: 240.0}, INFINITY) == 0.0


@CHECKED
@given(problems(6, ALL, 2))
def test_without_turns_and_labels_the_weights_give_valid_bounds(drawn: Problem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_search_module, "HANDED_OUT", 1)
        patch.setattr(Rounds, "begin", lambda *_: None)
        patch.setattr(Rounds, "run", lambda *_: None)
        patch.setattr(LabelRounds, "can_run", lambda _: False)
        held_against_brute_force(of_one_batch(drawn), gap=0.0)


def test_reformats_run_unslowed_where_the_gpu_has_no_layers() -> None:
    """Both models on a core each: their reformats on the GPU meet no layers of its own, which would slow them."""

    def item(name: str, model: int, gpu: int, dla: int) -> Item:
        return Item(name, model, (0,), ALL, {"GPU": cost(gpu), "DLA": cost(dla)}, 1, True, "")

    def flow(model: int, producer: Optional[int], consumers: Tuple[int, ...], us: Tuple[int, int, int]) -> Flow:
        by_kind = dict(zip((("GPU", "DLA"), ("DLA", "GPU"), ("DLA", "DLA")), map(cost, us)))
        return Flow(f"t{producer}", model, producer, consumers, not consumers, by_kind)

    problem = Problem(
        items=(item("m0l0", 0, 38, 32), item("m0l1", 0, 9, 1), item("m1l0", 1, 40, 13)),
        flows=(
            flow(0, None, (0,), (4, 11, 2)),
            flow(0, 0, (1,), (11, 11, 0)),
            flow(0, 1, (), (12, 8, 1)),
            flow(1, None, (2,), (14, 15, 4)),
            flow(1, 2, (), (3, 12, 3)),
        ),
        links=(Link(0, 1, {"GPU": cost(29), "DLA": cost(1)}),),
        grouping=lambda problem, core, members: (members,),
        models=("m0", "m1"),
        loadable=cost(17),
        devices=ALL,
        limits=Limits(1, None, 1),
        rates=(1.0, 1.0),
        slowdown={frozenset(s): dict.fromkeys(s, 1.25) for n in (2, 3) for s in itertools.combinations(ALL, n)},
        engine=cost(8),
    )
    problem = replace(problem, grouping=regroup(problem, "fp16"))
    solution = solve(problem, MAKESPAN)
    assert solution.best is not None
    assert solution.best.assignment == ("DLA0", "DLA0", "DLA1")
    assert solution.value == pytest.approx(85.5)


@CHECKED
@given(problems(8, ONE_CORE, 1), st.integers(0, 100))
def test_a_dive_gives_a_placement_of_its_stated_length(drawn: Problem, seed: int) -> None:
    bare = of_one_batch(drawn)
    problem = replace(bare, grouping=regroup(bare, "fp16"))
    frontier = Frontier(problem, ONE_CORE)
    weights = np.random.default_rng(seed).random((5, 2))
    prices = Prices(frontier, weights, np.ones(5, bool))
    free = [taken([[]] * 5)] * 2
    states, factors = StateArrays(frontier, alike=False), np.array([1.25, 2.0])
    ends, met, of_devices = around(states, len(problem.items), prices, factors, free, np.arange(5), NEVER, kept=1)
    for end, loads, choices in zip(ends, of_devices, met):
        e = evaluate(problem, [ONE_CORE[k] for k in choices])
        assert end == pytest.approx(loads @ factors)
        assert loads == pytest.approx([e.loads[0, d].latency_us if (0, d) in e.loads else 0.0 for d in ONE_CORE])


@CHECKED
@given(problems(7, ONE_CORE, 1, limits=False))
def test_around_without_other_work_gives_the_least_latency(drawn: Problem) -> None:
    bare = of_one_batch(drawn)
    problem = replace(bare, grouping=regroup(bare, "fp16"))
    frontier = Frontier(problem, ONE_CORE)
    prices = Prices(frontier, np.ones((1, 2)), np.ones(1, bool))
    free = [taken([[]])] * 2
    ends, choices, _ = around(
        StateArrays(frontier, alike=False), len(problem.items), prices, np.ones(2), free, np.zeros(1, int), NEVER, kept=10_000
    )
    least, _ = brute_force(problem, Goal("latency"), lambda _, e: e.latency(0).latency_us)
    assert ends[0] == pytest.approx(least)
    assert evaluate(problem, [ONE_CORE[k] for k in choices[0]]).latency(0).latency_us == pytest.approx(least)


@CHECKED
@given(problems(6, ONE_CORE, 1, limits=False), st.lists(st.integers(1, 25), min_size=4, max_size=4))
def test_around_another_model_never_takes_less_time(drawn: Problem, steps: List[int]) -> None:
    bare = of_one_batch(drawn)
    problem = replace(bare, grouping=regroup(bare, "fp16"))
    at = np.cumsum(steps).astype(float)
    plan = [[(at[0], at[1]), (at[2], at[3])]] * 2
    busy = [taken(plan), taken([[(at[1], at[2])]] * 2)]
    frontier = Frontier(problem, ONE_CORE)
    prices = Prices(frontier, np.array([[1.0, 1.0], [1.3, 1.0]]), np.ones(2, bool))
    ends, choices, _ = around(
        StateArrays(frontier, alike=False), len(problem.items), prices, np.ones(2), busy, np.arange(2), NEVER
    )
    for end, row in zip(ends, choices):
        devices = [ONE_CORE[k] for k in row]
        assert all(d in item.allowed for d, item in zip(devices, problem.items))
        assert evaluate(problem, devices).latency(0).latency_us <= end + 1e-9


@pytest.mark.parametrize(
    ("earliest", "length", "start"),
    [(0, 5, 0), (0, 10, 0), (0, 11, 40), (3, 8, 20), (12, 1, 20), (20, 10, 20), (20, 11, 40), (15, 99, 40), (33, 0, 33)],
)
def test_first_start_finds_an_uninterrupted_interval(earliest: float, length: float, start: float) -> None:
    busy = taken([[(30.0, 40.0), (10.0, 20.0)], []])
    met = first_start(np.full((1, 2), float(earliest)), np.full((1, 2), float(length)), busy)
    assert met.tolist() == [[start, earliest]]


def test_around_after_the_deadline_places_nothing() -> None:
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective="makespan")
    problem = problem_of_model(prepare([network("resnet18")] * 2, request).problem(MAKESPAN), 0)
    frontier = Frontier(problem, ONE_CORE)
    prices = Prices(frontier, np.ones((1, 2)), np.ones(1, bool))
    ends, choices, _ = around(
        StateArrays(frontier, alike=False),
        len(problem.items),
        prices,
        np.ones(2),
        [taken([[]])] * 2,
        np.zeros(1, int),
        Deadline.after(-1),
    )
    assert len(ends) == len(choices) == 0


def test_turns_shorten_a_pair_deterministically_and_go_on_where_patience_ended() -> None:
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective="makespan")
    answers, calls = [], []
    for patience_s in (INFINITY, 1e-3):
        problem = prepare([network("resnet50_b1"), network("resnet18")], request).problem(MAKESPAN)
        best = Best(problem, MAKESPAN, schedule_length())
        best.offer_all(baselines(problem).values(), NEVER)
        before = best.value
        names = [("GPU", "DLA0"), ("GPU", "DLA1")]
        models = [StateArrays(Frontier(problem_of_model(problem, m), ONE_CORE), alike=False) for m in (0, 1)]
        factors = np.array([problem.factor(frozenset(ALL), d) for d in ONE_CORE])
        order = [problem.items_of(m) for m in (0, 1)]
        ways = [[Way.of(devices, model, factors)] for devices, model in zip(names, models)]
        turns = Rounds(problem, best, order, ways, NEVER)
        turns.begin(NEVER)
        assert best.evaluation is not None
        done = [-1, 0]
        while done[-1] > done[-2]:
            turns.run([best.evaluation], NEVER, 0.0, patience_s)
            done.append(len(turns._turned) + len(turns._moved))
        calls.append(len(done))
        assert best.value < before
        assert legal(problem, best.evaluation, MAKESPAN)
        answers.append((best.value, best.evaluation.assignment))
    assert answers[0] == answers[1]
    assert calls[0] < calls[1]


def test_after_a_proof_no_more_rounds_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    targets: List[float] = []
    run = Rounds.run

    def watched(self: Rounds, seeds: Iterable[Evaluation], until: Deadline, target: float, patience_s: float) -> None:
        targets.append(target)
        run(self, seeds, until, target, patience_s)

    monkeypatch.setattr(Rounds, "run", watched)
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective="makespan")
    problem = prepare([network("resnet50_b1")] * 2, request).problem(MAKESPAN)
    start, length = baselines(problem).values(), schedule_length()
    solution = solve_pair(problem, MAKESPAN, start, Deadline.after(10.0), gap=0.01, value_of=length)
    assert not solution.timed_out
    assert 0 < max(targets) < solution.value * (1 - 0.01) <= solution.bound * (1 + 1e-9)


def test_where_no_pair_keeps_the_limits_the_look_in_any_order_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: List[float] = []

    class NotThrough:
        bound, is_through = 0.0, False

        def __init__(self, pair: Pair, weights: np.ndarray, weighed: np.ndarray, limit: float, until: Deadline) -> None:
            limits.append(limit)
            if len(limits) > 9:
                raise AssertionError(limits)

    monkeypatch.setattr(pair_search_module, "AnyOrder", NotThrough)
    monkeypatch.setattr(Best, "offer", lambda *_: None)
    problem = prepare([network("resnet18")] * 2, PlacementRequest("orin-nx-8gb", precision="int8", objective="makespan")).problem(
        MAKESPAN
    )
    solution = solve_pair(problem, MAKESPAN, [], NEVER, value_of=schedule_length())
    assert solution.best is None
    assert limits == [INFINITY] * solution.rounds


def test_without_time_for_a_search_a_pair_beats_the_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_search_module.PairSearch, "run", lambda _: None)
    request = PlacementRequest("agx-orin-64gb", precision="int8", objective="makespan")
    problem = prepare([network("resnet50_b1"), network("resnet18")], request).problem(MAKESPAN)
    solution = solve_pair(problem, MAKESPAN, baselines(problem).values(), Deadline.after(10.0), value_of=schedule_length())
    reached = [evaluate(problem, devices) for devices in baselines(problem).values()]
    lengths = [schedule_length()(problem, e)[0] for e in reached if legal(problem, e, MAKESPAN)]
    assert solution.value < 0.97 * min(lengths)


@CHECKED
@given(st.data())
def test_simple_bounds_of_a_pair_are_below_its_schedule(data: st.DataObject) -> None:
    rows = [
        data.draw(st.sampled_from([("GPU",), ("GPU", core, "GPU"), ("GPU", core, "GPU", core, "GPU")]))
        for core in ("DLA0", data.draw(st.sampled_from(["DLA0", "DLA1"])))
    ]
    times = [[float(data.draw(st.integers(1, 30))) for _ in row] for row in rows]
    search = ScheduleSearch(rows, times)
    search.run()
    arrays = tuple(np.array([t]) for t in times)
    names = (rows[0], rows[1])
    assert simple_bounds(names, (arrays[0], arrays[1]))[0] <= search.length_us + 1e-9
