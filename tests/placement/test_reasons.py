"""The cost at the borders when one item moves, from each tensor's readers, against the full sums."""

from __future__ import annotations

from typing import Any, List

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgedla.placement.problem.evaluate import crossings_of
from edgedla.placement.problem.problem import Problem
from edgedla.placement.result.reasons import Borders
from tests.amounts import amount, examples
from tests.placement.placement_problems import problems


def borders(problem: Problem, devices: List[str]) -> float:
    """The price of all transitions and links."""
    crossings = sum(c.cost.latency_us for f in range(len(problem.flows)) for c in crossings_of(problem, f, devices))
    apart = [k for k in problem.links if devices[k.producer] != devices[k.consumer]]
    return crossings + sum(k.cost(devices[k.consumer]).latency_us for k in apart)


@settings(max_examples=examples(amount(20, 60)), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(max_items=8, devices=("GPU", "DLA0", "DLA1"), models=2), st.data())
def test_the_border_cost_of_a_move_equals_the_difference_of_the_sums(problem: Problem, data: Any) -> None:
    devices = [data.draw(st.sampled_from(item.allowed)) for item in problem.items]
    counted = Borders(problem, devices, "latency")
    for i, item in enumerate(problem.items):
        for there in item.allowed:
            moved = [*devices[:i], there, *devices[i + 1 :]]
            assert counted.added(i, there) == pytest.approx(borders(problem, moved) - borders(problem, devices))
