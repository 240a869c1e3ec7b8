"""Cost: addition, bases, spreads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.cost import BASES, Cost, device_kind, total, weakest

# No denormal numbers: a nanosecond's millionth has no meaning, and its product with a spread no digits.
numbers = st.one_of(st.just(0.0), st.floats(min_value=1e-3, max_value=1e6))
costs = st.builds(
    Cost, numbers, numbers, st.sampled_from(BASES), st.floats(min_value=0, max_value=2), st.floats(min_value=0, max_value=2)
)


@given(costs, costs, costs)
def test_addition_is_associative_and_its_zero_is_an_empty_cost(a: Cost, b: Cost, c: Cost) -> None:
    left, right = (a + b) + c, a + (b + c)
    assert left.basis == right.basis
    assert left.latency_us == pytest.approx(right.latency_us)
    assert left.spread * left.latency_us == pytest.approx(right.spread * right.latency_us, abs=1e-6)
    assert (a + Cost()).basis == a.basis


@given(st.lists(costs, min_size=1, max_size=6))
def test_a_sum_has_the_weakest_basis_and_adds_absolute_spreads(parts) -> None:
    whole = total(parts)
    assert whole.basis == weakest(p.basis for p in parts)
    assert whole.latency_us * whole.spread == pytest.approx(sum(p.latency_us * p.spread for p in parts), abs=1e-6)
    assert whole.spread <= max(p.spread for p in parts) + 1e-9


def test_scaling_keeps_basis_and_spread() -> None:
    assert Cost(10, 2, "guessed", 0.3, 0.4).scaled(2) == Cost(20, 4, "guessed", 0.3, 0.4)


@pytest.mark.parametrize("bad", [{"latency_us": -1.0}, {"basis": "published"}, {"spread": float("nan")}])
def test_an_impossible_cost_is_refused(bad) -> None:
    with pytest.raises(ValueError):
        Cost(**bad)


def test_device_names_have_a_kind() -> None:
    assert [device_kind(d) for d in ("GPU", "DLA", "DLA0", "DLA1")] == ["GPU", "DLA", "DLA", "DLA"]
    with pytest.raises(ValueError, match="CPU"):
        device_kind("CPU")


def test_a_costs_document_names_its_units() -> None:
    assert Cost(1.23456, 0.5, "fitted", 0.1).to_dict() == {
        "latency_us": 1.235,
        "energy_mj": 0.5,
        "basis": "fitted",
        "spread": 0.1,
        "energy_spread": 0.0,
    }
