"""Energy above idle: its fitted figures, its comparisons, and its transfer to other modules."""

from __future__ import annotations

import pytest

from edgedla.costs.cost import total
from edgedla.costs.fit.evidence import load_rows
from edgedla.costs.model import CostModel
from edgedla.costs.networks import network
from edgedla.targets import platform_for

ORIN = platform_for("agx-orin-64gb")


def energy_mj(model: CostModel, name: str, device: str) -> float:
    graph = network(name)
    costs = model.layer_costs(graph)
    fixed = model.engine() if device == "GPU" else model.engine() + model.loadable()
    return (total(costs[i, device] for i in range(len(graph.layers))) + fixed).energy_mj


def comparable_rows():
    """Dense, and at batch 1 on both engines."""
    rows = (r for r in load_rows() if r.metric.startswith("perf-per-watt"))
    return [r for r in rows if r.model.endswith("bs=1") and "sparse" not in r.includes]


@pytest.mark.parametrize("row", comparable_rows(), ids=lambda r: r.id)
def test_predictions_match_the_published_advantage_of_the_dla_without_being_fitted_to_it(row) -> None:
    model = CostModel.load(ORIN, "int8", row.power_mode)
    name = row.work.split()[1]
    ratio = energy_mj(model, name, "GPU") / energy_mj(model, name, "DLA")
    assert ratio == pytest.approx(row.value, rel=0.25)


def test_fp16_on_orins_dla_costs_many_times_the_energy_of_int8() -> None:
    fp16, int8 = (energy_mj(CostModel.load(ORIN, p), "resnet50_b1", "DLA") for p in ("fp16", "int8"))
    assert 7 < fp16 / int8 < 30


def test_other_modules_are_a_guess_with_a_wide_spread() -> None:
    spreads = {}
    for target, basis in (("agx-orin-64gb", "fitted"), ("orin-nx-16gb", "guessed"), ("agx-xavier-32gb", "guessed")):
        model = CostModel.load(platform_for(target), "int8")
        assert model.idle_power_basis == basis
        spreads[target] = model.layer_costs(network("resnet18"))[0, "GPU"].energy_spread
    fitted = spreads.pop("agx-orin-64gb")
    assert min(spreads.values()) > 1.5 * fitted, f"guesses {spreads}, fitted {fitted}"
