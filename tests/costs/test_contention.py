"""Shared memory between GPU and DLA."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.coefficients import contention_numbers
from edgedla.costs.contention import achieved_gb_s, slowdown_of
from edgedla.costs.fit.evidence import load_rows
from edgedla.costs.model import CostModel
from edgedla.targets import platform_for

load = st.floats(min_value=0, max_value=300)


@given(load, load, load)
def test_more_external_traffic_never_speeds_an_engine_up(demand: float, external: float, more: float) -> None:
    assert slowdown_of(demand, external + more, 80, 45) >= slowdown_of(demand, external, 80, 45) >= 1


def test_below_the_bandwidth_limit_nothing_slows_down() -> None:
    model = CostModel.load(platform_for("agx-orin-64gb"), "int8")
    both = model.contention(40, 2 * 25)
    assert (both.gpu, both.dla, both.basis) == (1.0, 1.0, "guessed")


def test_demand_above_the_bandwidth_slows_both_engines_down() -> None:
    model = CostModel.load(platform_for("agx-xavier-32gb"), "fp16")
    both = model.contention(75, 75)
    assert both.gpu > 1.3
    assert both.dla > 1.3
    assert both.basis == "fitted"


def test_a_low_memory_clock_leaves_less_to_share() -> None:
    fast, slow = (CostModel.load(platform_for("agx-orin-64gb"), "int8", m).contention(70, 60) for m in ("MAXN", "15W"))
    assert slow.gpu > fast.gpu >= 1


def test_predictions_match_the_published_matrix_within_its_error() -> None:
    rows = [r for r in load_rows() if r.metric == "bandwidth" and r.use == "fit"]
    numbers = contention_numbers()
    total, floor = (136.5 * share for share in (numbers.total_share, numbers.floor_share))
    assert len(rows) == 100
    errors = []
    for row in rows:
        words = dict(w.split("=") for w in row.work.split())
        predicted = achieved_gb_s(float(words["demand"]), float(words["external"]), total, floor)
        errors.append(abs(predicted / row.value - 1))
    assert sum(errors) / len(errors) < 0.06


def test_two_dla_cores_scale_by_two_until_their_sum_exceeds_the_memory() -> None:
    model = CostModel.load(platform_for("agx-xavier-32gb"), "fp16")
    assert model.contention(0, 2 * 35).dla == 1.0
    assert model.contention(0, 2 * 60).dla > 1.4
