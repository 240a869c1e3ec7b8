"""Shared memory between GPU and DLA."""

from __future__ import annotations

import pytest
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


@pytest.mark.parametrize(
    ("target", "mode", "demand", "external", "factor"),
    [
        ("agx-orin-64gb", "MAXN", 40, 2 * 25, 1.0),
        ("agx-xavier-32gb", "MAXN", 75, 20, 75 / 60),
        ("agx-xavier-32gb", "MAXN", 75, 75, 75 / 45),
    ],
)
def test_transfers_take_longer_where_all_ask_for_more_than_the_memory_gives(
    target: str, mode: str, demand: float, external: float, factor: float
) -> None:
    model = CostModel.load(platform_for(target), "int8" if target.endswith("64gb") else "fp16", mode)
    assert model.transfer_factor("GPU", demand, external) == pytest.approx(factor, rel=0.03)


def test_a_low_memory_clock_leaves_less_to_share() -> None:
    fast, slow = (
        CostModel.load(platform_for("agx-orin-64gb"), "int8", m).transfer_factor("GPU", 70, 60) for m in ("MAXN", "15W")
    )
    assert slow > fast >= 1


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
