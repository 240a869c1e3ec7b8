"""The objective "gpu-time": the least time of the GPU under bounds, of equals the shortest frame, and what the answer says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import edgedla
from edgedla.costs.networks import network
from edgedla.errors import UsageError
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.result.document import read_placement
from edgedla.placement.solvers.solve import solve
from edgedla.reports.placement.text import headline, to_text
from tests.placement.own_sums import is_legal, least, value_of
from tests.placement.placement_models import small_model
from tests.placement.placement_problems import assignments, checked, problems
from tests.placement.tiny_networks import tiny_problem

ALL = ("GPU", "DLA0", "DLA1")
CHECKED = checked(16, 40)
ORIN = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "fp16"}


@CHECKED
@given(problems(), st.one_of(st.none(), st.integers(20, 200)))
def test_gpu_time_under_a_latency_bound_equals_brute_force(problem: Problem, bound: int) -> None:
    bound_us = None if bound is None else float(bound)
    answer = solve(problem, Goal("gpu-time", bound_us), time_limit_s=60)
    assert answer.value == pytest.approx(least(problem, "gpu-time", bound_us), rel=2e-4, abs=1e-6)
    assert answer.optimal


@CHECKED
@given(problems(max_items=6, models=2, devices=ALL, pools=False), st.integers(2000, 40000))
def test_gpu_time_at_frame_rates_equals_brute_force(problem: Problem, fps: int) -> None:
    rates = (float(fps), fps / 2)
    answer = solve(problem, Goal("gpu-time", frames_per_second=rates), time_limit_s=60)
    assert answer.value == pytest.approx(least(problem, "gpu-time", None, rates), rel=2e-4, abs=1e-6)
    assert answer.optimal


@pytest.mark.long
@CHECKED
@given(problems(max_items=6, devices=ALL, pools=False))
def test_of_equals_the_shortest_frame_is_taken(problem: Problem) -> None:
    answer = solve(problem, Goal("gpu-time"), time_limit_s=60)
    if answer.best is None:
        return
    legal = [d for d in assignments(problem) if is_legal(problem, d)]
    equal = [d for d in legal if value_of(problem, d, "gpu-time") <= answer.value * (1 + 1e-9)]
    shortest = min(value_of(problem, d, "latency") for d in equal)
    assert value_of(problem, answer.best.assignment, "gpu-time") == pytest.approx(answer.value)
    assert value_of(problem, answer.best.assignment, "latency") == pytest.approx(shortest, rel=2e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_network_with_loops_is_placed_as_brute_force_places_it(seed: int) -> None:
    problem, _ = tiny_problem(seed, ALL if seed % 2 else ALL[:2])
    rates = (random.Random(seed).uniform(1000, 12000),)
    for fps in ((), rates):
        answer = solve(problem, Goal("gpu-time", frames_per_second=fps), time_limit_s=60)
        assert answer.value == pytest.approx(least(problem, "gpu-time", None, fps), rel=2e-4, abs=1e-6)
        assert answer.optimal


def test_the_dla_takes_the_network_where_the_gpu_alone_is_faster() -> None:
    """FP16 takes many times as long on the DLA: latency leaves it empty, gpu-time fills it."""
    model = network("resnet50_b1")
    fastest, free = (edgedla.place(model, **ORIN, objective=objective) for objective in ("latency", "gpu-time"))
    assert sum(fastest.figures.regions.values()) == 0
    assert sum(free.figures.regions.values()) > 0
    assert free.proof.optimal
    assert free.figures.busy_gpu_us < 0.2 * fastest.figures.busy_gpu_us
    sentence = next(note for note in free.notes if "frees" in note)
    alone = next(b for b in free.baselines if b.name == "gpu").figures
    assert f"frees {100 - 100 * free.figures.busy_gpu_us / alone.busy_gpu_us:.0f} % of the GPU's time per frame" in sentence
    assert headline(free)[1].startswith("GPU time per frame: ")


def test_a_latency_bound_trades_gpu_time_for_the_frame() -> None:
    model = network("resnet50_b1")
    free = edgedla.place(model, **ORIN, objective="gpu-time")
    bound_us = free.figures.latency.latency_us / 2
    bounded = edgedla.place(model, **ORIN, objective="gpu-time", latency_bound_us=bound_us)
    assert bounded.figures.latency.latency_us <= bound_us * (1 + 1e-6)
    assert bounded.figures.busy_gpu_us > free.figures.busy_gpu_us


def test_at_a_frame_rate_the_answer_is_how_busy_the_gpu_is(tmp_path) -> None:
    placement = edgedla.place(small_model(), **ORIN, objective="gpu-time", frames_per_second=[30])
    busy = placement.figures.busy_gpu_us * 30 / 1e4
    assert headline(placement)[1].startswith(f"GPU at 30 frames/s: {float(f'{busy:.3g}'):g} % busy, proven")
    file = tmp_path / "placement.json"
    file.write_text(placement.to_json())
    again = read_placement(file)
    assert again.figures.busy_gpu_us == pytest.approx(placement.figures.busy_gpu_us, abs=1e-3)
    assert again.objective == "gpu-time"
    assert "GPU at 30 frames/s" in to_text(again)


def test_frame_rates_go_with_energy_and_gpu_time_only() -> None:
    with pytest.raises(UsageError, match="frame rates do not go with the objective latency"):
        edgedla.place(small_model(), **ORIN, frames_per_second=[30])
