"""Two streams with one frame in flight each: their waits have a lower bound, and no placement beats it."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.placement.deadline import Deadline
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.prediction.streams import GPU_SWITCH_US, Lane, side_by_side
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.one_in_flight.solve_paces import can_solve, solve_paces
from edgedla.placement.solvers.one_in_flight.waits import Frames, Sharing
from tests.amounts import amount
from tests.placement.placement_problems import brute_force, checked, problems, regroup

pytestmark = pytest.mark.once

CHECKED = checked(10, 60)
ONE = Goal("throughput", one_in_flight=True)


def alone(device: str, demand: float, external: float) -> float:
    """No transfer is slowed down by others."""
    return 1.0


def random_lane(rng: random.Random) -> Lane:
    scale = 10 ** rng.uniform(1, 4)
    if rng.random() < 0.2:
        return Lane((("GPU", rng.random() * scale),), {}, {})
    parts: List[Tuple[str, float]] = []
    for _ in range(rng.randint(1, 4)):
        parts += [("GPU", rng.random() * scale), ("DLA0", rng.random() * scale)]
    return Lane((*parts, ("GPU", rng.random() * scale)), {}, {})


def frames_of(lane: Lane, known: bool) -> Frames:
    """The row that stands for a lane: with as many visits as it has, or with two or more."""
    gpu_us, visits = sum(lane.gpu_parts), len(lane.gpu_parts)
    whole = visits == 1
    return Frames(
        np.array([gpu_us]),
        np.array([lane.alone_us - gpu_us]),
        np.array([lane.alone_us]),
        np.array([float(visits if known or whole else 2)]),
        np.array([not (known or whole)]),
        np.array([whole]),
    )


@pytest.mark.parametrize("one_process", [True, False])
@pytest.mark.parametrize("slower", [1.0, 1.3])
def test_waits_of_two_streams_are_not_below_the_bound(one_process: bool, slower: float) -> None:
    rng = random.Random(int(slower * 10) + one_process)
    reached = 0.0
    for _ in range(amount(400, 4000)):
        lanes, rates = [random_lane(rng), random_lane(rng)], (rng.choice([1.0, 2.0, 0.5]), 1.0)
        paces = side_by_side(lanes, alone, GPU_SWITCH_US, one_process)
        period_us = max(r * p.frame_us for r, p in zip(rates, paces))
        a, b = (frames_of(lane, rng.random() < 0.5) for lane in lanes)
        sharing = Sharing(rates, GPU_SWITCH_US, one_process, 2)
        waits = sharing.waits(a, b, period_us * slower)
        for pace, wait in zip(paces, waits):
            assert wait[0] <= pace.waiting_us["GPU"] + 1e-6 * pace.frame_us
            reached = max(reached, wait[0] / max(pace.waiting_us["GPU"], 1e-9))
        assert sharing.can_keep(a, b, period_us * slower).all()
    assert reached > 0.99


def test_paces_of_processes_converge_to_consistent_waits() -> None:
    rng = random.Random(5)
    # The frames of the first ones stand still for a round before the waits do.
    still = (Lane((("GPU", 33.0), ("DLA0", 1714.0)), {}, {}), Lane((("GPU", 2851.0), ("DLA0", 64.0), ("GPU", 2131.0)), {}, {}))
    for lanes in (still, *((random_lane(rng), random_lane(rng)) for _ in range(amount(300, 3000)))):
        paces = side_by_side(lanes, alone, GPU_SWITCH_US)
        mean = [pace.waiting_us["GPU"] / len(lane.gpu_parts) for pace, lane in zip(paces, lanes)]
        for own, other in ((0, 1), (1, 0)):
            wait = sum(
                (part + GPU_SWITCH_US)
                * min(1.0, max(visit + mean[own], part + GPU_SWITCH_US + mean[other]) / paces[other].frame_us)
                for visit in lanes[own].gpu_parts
                for part in lanes[other].gpu_parts
            )
            frame_us = paces[own].frame_us
            assert abs(wait - paces[own].waiting_us["GPU"]) <= 5e-6 * frame_us
            waits_us = sum(paces[own].waiting_us.values())
            assert abs(lanes[own].alone_us + waits_us - frame_us) <= 5e-6 * frame_us


@CHECKED
@given(
    problems(max_items=6, devices=("GPU", "DLA0", "DLA1"), models=2, pools=False),
    st.sampled_from([(1.0, 1.0), (1.0, 2.5)]),
    st.sampled_from([1.0, 30.0]),
    st.booleans(),
)
def test_no_placement_is_faster_than_the_bound_and_the_best_is_legal(
    problem: Problem, rates: Tuple[float, float], longer: float, one_process: bool
) -> None:
    def stretched(costs: object) -> object:
        return {k: replace(c, latency_us=(c.latency_us + 0.5) * longer) for k, c in costs.items()}  # type: ignore[attr-defined]

    problem = replace(
        problem,
        rates=rates,
        slowdown={},
        items=tuple(replace(i, costs=stretched(i.costs)) for i in problem.items),
        flows=tuple(replace(f, costs=stretched(f.costs)) for f in problem.flows),
    )
    problem = replace(problem, grouping=regroup(problem, "int8"))
    pace = OneInFlight(SimpleNamespace(transfer_factor=alone, platform=SimpleNamespace(chip="orin")), one_process)  # type: ignore[arg-type]
    least, best = brute_force(problem, ONE, lambda p, e: pace.period_us(p, e))
    if not can_solve(problem, ONE) or best is None:
        return
    start = [i.allowed[0] for i in problem.items]
    found = solve_paces(problem, ONE, [tuple(start)], Deadline.after(0.5), pace)
    assert found.bound <= least * (1 + 1e-5)
    assert found.value >= least * (1 - 1e-5)
    if found.best is not None:
        assert found.value == pytest.approx(pace.period_us(problem, found.best), rel=1e-9)
