"""Objectives that combine: power at frame rates, a latency bound on each model, one frame of each model in flight."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgedla
from edgedla.costs.networks import network
from edgedla.errors import NoPlacement, UsageError
from edgedla.placement.pareto import RESOLUTION, Reached, trace, undominated
from edgedla.placement.problem.evaluate import evaluate
from edgedla.placement.problem.goal import Goal, legal
from edgedla.placement.problem.problem import Limits, Problem
from edgedla.placement.solvers.solve import solve
from tests.placement.own_sums import is_legal, least, least_makespan, loads_of, makespan, value_of
from tests.placement.placement_models import small_model
from tests.placement.placement_problems import assignments, checked, problems
from tests.placement.tiny_networks import loops_in, tiny_pair, tiny_problem

ALL = ("GPU", "DLA0", "DLA1")
ORIN = {"target": "agx-orin-64gb", "precision": "int8"}
QUICK = checked(10, 20)


@pytest.mark.parametrize("seed", range(6))
def test_a_network_with_loops_is_placed_as_brute_force_places_it(seed: int) -> None:
    """benchmarks/bench_place_brute.py does so for 2,000."""
    problem, graph = tiny_problem(seed, ALL if seed % 2 else ALL[:2])
    rng = random.Random(seed)
    goals = [Goal("latency"), Goal("throughput"), Goal("energy", frames_per_second=(rng.uniform(1000, 12000),))]
    for goal in goals:
        expected = least(problem, goal.objective, None, goal.frames_per_second)
        answer = solve(problem, goal, time_limit_s=60)
        assert answer.value == pytest.approx(expected, rel=2e-4)
        assert answer.optimal
        if answer.best is not None:
            assert is_legal(problem, answer.best.assignment, None, goal.frames_per_second)
            value = value_of(problem, answer.best.assignment, goal.objective, goal.frames_per_second)
            assert value == pytest.approx(answer.value)


@pytest.mark.parametrize("seed", range(4))
def test_two_networks_take_as_long_as_the_shortest_schedule_of_brute_force(seed: int) -> None:
    problem = tiny_pair(seed, ALL if seed % 2 else ALL[:2])
    expected = least_makespan(problem)
    answer = solve(problem, Goal("makespan"), time_limit_s=60)
    assert answer.optimal
    assert answer.value == pytest.approx(expected, rel=2e-4)
    assert makespan(problem, answer.best.assignment) == pytest.approx(answer.value)


def test_the_tiny_networks_hold_loops() -> None:
    assert sum(loops_in(tiny_problem(seed, ALL)[1]) > 0 for seed in range(6)) >= 3


@QUICK
@given(problems(max_items=5, devices=ALL, models=2, pools=False), st.tuples(st.integers(20, 150), st.integers(20, 150)))
def test_each_model_keeps_its_bound(problem: Problem, bounds: tuple) -> None:
    goal = Goal("throughput", tuple(float(b) for b in bounds))

    def kept(devices: tuple) -> bool:
        loads = loads_of(problem, devices)
        times = [sum(us for (at, _), (us, _) in loads.items() if at == m) for m in range(len(problem.models))]
        return is_legal(problem, devices) and all(t <= b * (1 + 1e-9) for t, b in zip(times, bounds))

    expected = min((value_of(problem, d, "throughput") for d in assignments(problem) if kept(d)), default=float("inf"))
    for answer in (solve(problem, goal, time_limit_s=60),):
        assert answer.value == pytest.approx(expected, rel=2e-4)
        assert answer.optimal


@QUICK
@given(problems(max_items=6), st.integers(2000, 40000))
def test_frame_rates_that_a_device_cannot_keep_are_no_placement(problem: Problem, fps: int) -> None:
    goal = Goal("energy", frames_per_second=(float(fps),))
    expected = least(problem, "energy", None, goal.frames_per_second)
    assert solve(problem, goal, time_limit_s=60).value == pytest.approx(expected, rel=2e-4)


@QUICK
@given(problems(max_items=6, pools=False))
def test_the_front_equals_brute_force_within_its_resolution(problem: Problem) -> None:
    def best_within(bound: object) -> object:
        answer = solve(problem, Goal("energy", total_latency_us=bound), time_limit_s=60)  # type: ignore[arg-type]
        if answer.best is None:
            return None
        return Reached(answer.best.latency(0).latency_us, answer.value, answer.optimal, None)

    fastest = solve(problem, Goal("latency"), time_limit_s=60)
    if fastest.best is None:
        return
    row, complete = trace(best_within, fastest.value, lambda: False)  # type: ignore[arg-type]
    assert complete
    front = undominated(row)
    for devices in assignments(problem):
        if legal(problem, evaluate(problem, devices), Goal("energy")):
            latency, energy = (value_of(problem, devices, name) for name in ("latency", "energy"))
            assert any(
                p.latency_us <= latency * (1 + RESOLUTION) * (1 + 1e-6) and p.worth <= energy * (1 + 3e-4) + 1e-6 for p in front
            )


def test_at_a_low_frame_rate_the_dla_loses_where_its_work_costs_more() -> None:
    """ResNet-50 at 10 frames/s on Orin: at INT8 the DLA's frame costs less energy, at FP16, 14 times as long, more."""
    int8, fp16 = (
        edgedla.place(
            network("resnet50_b1"),
            target="agx-orin-64gb",
            trt="10.3",
            precision=precision,
            objective="energy",
            frames_per_second=[10],
        )
        for precision in ("int8", "fp16")
    )
    assert int8.models[0].regions
    assert not fp16.models[0].regions
    for placement in (int8, fp16):
        energy = placement.figures.energy.energy_mj
        assert placement.proof.value == pytest.approx(10 * energy / 1e3, rel=1e-6)
        assert placement.to_dict()["frames_per_second"] == [10.0]


def test_a_frame_rate_beyond_every_device_is_refused_with_the_rate() -> None:
    with pytest.raises(NoPlacement, match=r"1e\+09 frames/s"):
        edgedla.place(small_model(), objective="energy", frames_per_second=[1e9], **ORIN)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"objective": "energy", "frames_per_second": [0.0]}, "0 frames/s of model 1"),
        ({"objective": "latency", "frames_per_second": [1.0]}, "with the objective latency"),
        ({"objective": "energy", "frames_per_second": [1.0, 2.0]}, "2 frame rates for 1 model"),
        ({"latency_bound_us": [1e6, 1e6]}, "2 latency bounds for 1 model"),
        ({"latency_bound_us": [1e6, -1.0]}, "latency bound"),
        ({"objective": "latency", "in_flight": "one"}, "one frame in flight"),
        ({"objective": "throughput", "in_flight": "two"}, "frames in flight"),
        ({"objective": "latency", "rates": [2.0]}, "rates: the objective latency counts one frame of each model"),
        ({"objective": "throughput", "one_process": True}, "one_process: it changes nothing with many frames"),
        ({"limits": Limits(loadables_per_core=17)}, "loadables_per_core: .* takes 16 loadables on one DLA core, not 17"),
    ],
)
def test_wrong_bounds_and_rates_are_named(wrong, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        edgedla.place(small_model(), **{**ORIN, **wrong})


def test_user_limits_keep_the_releases_cap_on_loadables() -> None:
    old = edgedla.place(small_model(), target="agx-xavier", trt="8.4", limits=Limits(max_regions=1))
    assert old.limits["loadables_per_core"] == 8


@pytest.mark.parametrize("one_process", [False, True])
def test_place_and_predict_agree_on_one_frame_in_flight(one_process: bool) -> None:
    models = [small_model(), small_model(widths=(64, 64), pool=False)]
    placement = edgedla.place(models, objective="throughput", in_flight="one", one_process=one_process, time_limit_s=3, **ORIN)
    together = edgedla.predict(models, devices=[placement, placement], one_process=one_process, **ORIN)
    frames = [s.together.latency_us for s in together.streams]
    assert list(placement.frame_latency_us) == pytest.approx(frames)
    assert placement.figures.period.latency_us == pytest.approx(max(frames))
    assert placement.proof.bound <= placement.proof.value
    for baseline in placement.baselines:
        if not baseline.broken:
            assert placement.proof.value <= baseline.figures.period.latency_us * (1 + 1e-9)
    again = edgedla.read_placement(placement.to_dict())
    assert (again.in_flight, again.one_process) == ("one", one_process)


def test_the_wait_for_a_full_gpu_is_part_of_the_throughput() -> None:
    """What the busiest engine says is not reached by a DLA stream that waits for the GPU's frames."""
    graph = network("resnet50_b1")
    pinned = edgedla.place(
        [graph, replace(graph, name="again")], objective="throughput", in_flight="one", trt="10.3", time_limit_s=2, **ORIN
    )
    wholly_apart = next(b for b in pinned.baselines if b.name == "one-per-device")
    loads = max(c.latency_us for c in wholly_apart.figures.loads.values())
    assert wholly_apart.figures.period.latency_us > 2 * loads
    assert pinned.figures.period.latency_us < wholly_apart.figures.period.latency_us
