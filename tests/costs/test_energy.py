"""Energy above idle: its fitted figures, its comparisons, and its transfer to other modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.costs.cost import total
from edgedla.costs.energy import budget_w
from edgedla.costs.fit.evidence import load_rows
from edgedla.costs.fit.power import fit_power
from edgedla.costs.fit.samples import samples_of
from edgedla.costs.fit.solve import fit_all
from edgedla.costs.model import CostModel
from edgedla.costs.networks import network
from edgedla.placement.worth.compute import worth_of
from edgedla.rules import load_rules
from edgedla.targets import platform_for
from edgedla.targets.modules import module_for, modules

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
    assert ratio == pytest.approx(row.value, rel=0.3)


def test_fp16_on_orins_dla_costs_many_times_the_energy_of_int8() -> None:
    fp16, int8 = (energy_mj(CostModel.load(ORIN, p), "resnet50_b1", "DLA") for p in ("fp16", "int8"))
    assert 7 < fp16 / int8 < 30


def test_other_modules_are_a_guess_with_a_wide_spread() -> None:
    spreads = {}
    for target in ("agx-orin-64gb", "orin-nx-16gb", "agx-xavier-32gb"):
        model = CostModel.load(platform_for(target), "int8")
        spreads[target] = model.layer_costs(network("resnet18"))[0, "GPU"].energy_spread
    assert spreads["agx-orin-64gb"] < 0.35 < spreads["orin-nx-16gb"] < 0.9 < spreads["agx-xavier-32gb"]


@pytest.mark.parametrize(
    ("target", "watts", "basis"),
    [
        ("agx-orin-64gb", 7.6, "fitted"),
        ("agx-orin-32gb", 7.6, "fitted"),
        ("orin-nx-16gb", 4.3, "fitted"),
        ("orin-nano-8gb", 4.556, "fitted"),
        ("agx-xavier-32gb", 7.632, "fitted"),
        ("xavier-nx-8gb", 4.3, "guessed"),
        ("agx-thor-t5000", 7.6, "guessed"),
    ],
)
def test_idle_power_is_that_of_the_modules_family(target: str, watts: float, basis: str) -> None:
    model = CostModel.load(platform_for(target), "fp16")
    assert (model.energy.idle_w, model.energy.idle_basis) == (watts, basis)


@pytest.mark.parametrize(
    ("target", "mode", "watts"),
    [
        ("orin-nano-8gb", "7W", 7),
        ("orin-nano-4gb", "7W_AI", 7),
        ("agx-xavier-32gb", "15W_DESKTOP", 15),
        ("orin-nx-16gb", "40W_SUPER", 40),
        ("orin-nx-16gb", "MAXN", 25),
        ("agx-orin-64gb", "MAXN", 60),
        ("agx-xavier-32gb", "MAXN", None),
        ("agx-thor-t5000", "", None),
    ],
)
def test_the_budget_of_a_power_mode_is_in_its_name_or_in_the_data_sheet(target: str, mode: str, watts) -> None:
    assert budget_w(module_for(target), mode) == watts


def test_no_power_mode_of_any_module_has_a_budget_below_the_idle_power() -> None:
    for module in modules().values():
        for mode in module.power_modes:
            energy = CostModel.load(platform_for(module.id), "fp16", mode).energy
            assert energy.budget_w is None or energy.budget_w > energy.idle_w, (module.id, mode)


def test_a_frame_takes_less_energy_at_a_lower_clock_and_voltage() -> None:
    """ResNet-50 INT8 on the GPU took 16.9 mJ at 50W and 22.4 mJ at MAXN (rows p590, p132)."""
    low, high = (energy_mj(CostModel.load(ORIN, "int8", mode), "resnet50_b1", "GPU") for mode in ("50W", "MAXN"))
    assert 0.55 < low / high < 0.9


@pytest.mark.long
def test_the_energy_of_unseen_sources_lies_within_the_stated_spread() -> None:
    rows = load_rows()
    power = fit_power(rows, fit_all(samples_of(rows, "fit")))
    errors = [abs(f.unseen) for f in power.figures if f.unseen is not None]
    assert len(errors) >= 15
    assert sum(errors) / len(errors) < 0.25, "UNLIKE_THE_OTHERS of tests/costs/test_fit.py says what to do"
    assert sum(e <= power.spread for e in errors) / len(errors) >= 0.5
    assert sum(e <= 2 * power.spread for e in errors) / len(errors) >= 0.92


def test_a_prediction_says_where_its_power_is_beyond_the_modes_budget() -> None:
    graph = replace(network("ssd_rn34_1200"), lowering="8.5")
    for target, mode, over in (("orin-nano-8gb", "7W", True), ("agx-orin-64gb", "50W", False)):
        prediction = edgedla.predict(graph, target=target, trt="8.5", power_mode=mode, devices="GPU", precision="int8")
        assert any("the board lowers its clocks there" in note for note in prediction.notes) == over


@pytest.mark.parametrize(("target", "known"), [("agx-xavier-32gb", False), ("orin-nx-16gb", True)])
def test_no_sentence_says_which_engine_costs_more_where_no_figure_tells(target: str, known: bool) -> None:
    graph = replace(network("resnet50_b1"), lowering="8.5")
    platform = platform_for(target, trt="8.5")
    costs = CostModel.load(platform, "int8")
    worth = worth_of(graph, platform, load_rules().check(graph, platform, "int8"), costs)
    said = worth.headline()
    axis = said.axis("energy")
    assert axis is not None
    assert axis.known == known
    assert ("energy not known" in said.text) == (not known)
    assert ("energy" in said.text.replace("energy not known", "")) == known
    assert any("do not tell whether the GPU or the DLA costs less" in n for n in costs.notes) == (not known)


def test_a_report_shows_no_two_energies_where_no_figure_compares_them(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(Path(__file__).parents[2] / "examples" / "00_shapes_detector" / "shapes_detector.onnx")
    assert exit_code_of(["check", model, "--target", "agx-xavier-32gb", "--fail-on", "never"]) == 0
    told = capsys.readouterr().out
    assert "energy not known" in told
    (row,) = (line for line in told.splitlines() if line.strip().startswith("?  energy"))
    assert "mJ" not in row
    assert "best for energy" not in told
