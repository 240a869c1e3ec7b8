"""The fit to one board: a made-up board, slower than the model in ways that the fit can and cannot express."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from edgedla.cli.main import main
from edgedla.costs.fit.own_board import LEAST_OPERATORS, fit_board
from edgedla.costs.model import CostModel
from edgedla.costs.operators import operators_of
from edgedla.costs.profile import Measurement, Profile, operator_signature, parse_profile
from edgedla.errors import DocumentError
from edgedla.targets import platform_for
from tests.costs.cost_graphs import residual_block

TARGET, MODE = "agx-orin-64gb", "MAXN"


def graphs(count=3):
    return {f"net{n}": residual_block((1, 32 * (n + 1), 56, 56), 32 * (n + 1)) for n in range(count)}


def measured(graph, factor, operator_us, precision="fp16", device="GPU", keep=lambda k: True):
    """The profile of a board on which every operator takes factor * predicted + operator_us."""
    model = CostModel.load(platform_for(TARGET), precision, MODE)
    costs = model.layer_costs(graph)
    found = []
    for k, operator in enumerate(operators_of(graph)):
        predicted = sum(costs[i, device].latency_us for i in operator.layers)
        if predicted > 0 and keep(k):
            signature = operator_signature(graph, operator)
            found.append(Measurement(signature, precision, device, factor * predicted + operator_us))
    return Profile(TARGET, MODE, "test", tuple(found))


def test_fit_board_on_a_slower_board_halves_the_error_of_new_networks():
    nets = graphs(4)
    new = nets.pop("net3")
    fit = fit_board(nets, [measured(g, 1.5, 4.0) for g in nets.values()])
    (engine,) = fit.engines
    assert engine.after < engine.before / 2
    assert engine.left_out < engine.before / 2
    assert engine.networks == 3
    platform = platform_for(TARGET)
    plain = CostModel.load(platform, "fp16", MODE)
    fitted = CostModel.load(platform, "fp16", MODE, profile=fit.profile)
    costs, corrected = plain.layer_costs(new), fitted.layer_costs(new)
    for operator in operators_of(new):
        predicted = sum(costs[i, "GPU"].latency_us for i in operator.layers)
        now = sum(corrected[i, "GPU"].latency_us for i in operator.layers)
        truth = 1.5 * predicted + 4.0
        if predicted > 0:
            assert abs(now / truth - 1) < abs(predicted / truth - 1)
            assert corrected[operator.layers[0], "GPU"].basis != "measured"
        assert corrected[operator.layers[0], "DLA"] == costs[operator.layers[0], "DLA"], "nothing was measured there"


def test_a_fitted_board_keeps_measured_operator_times():
    nets = graphs(3)
    profiles = [measured(g, 1.5, 4.0) for g in nets.values()]
    model = CostModel.load(platform_for(TARGET), "fp16", MODE, profile=fit_board(nets, profiles).profile)
    graph = nets["net0"]
    costs = model.layer_costs(graph)
    for operator in operators_of(graph):
        known = profiles[0].operator_us(graph, operator, "fp16", "GPU")
        if known is not None:
            assert costs[operator.layers[0], "GPU"].latency_us == pytest.approx(known.latency_us)
            assert costs[operator.layers[0], "GPU"].basis == "measured"


def test_a_board_that_matches_the_model_gets_a_factor_of_1():
    nets = graphs(3)
    (engine,) = fit_board(nets, [measured(g, 1.0, 0.0) for g in nets.values()]).engines
    assert engine.before == pytest.approx(0.0, abs=1e-9)
    assert engine.correction.factor == pytest.approx(1.0, abs=1e-6)
    assert engine.correction.operator_us == pytest.approx(0.0, abs=1e-3)


def test_too_few_measured_operators_give_no_correction():
    nets = graphs(1)
    (engine,) = fit_board(nets, [measured(nets["net0"], 2.0, 0.0, keep=lambda k: k < 1)]).engines
    assert engine.operators < LEAST_OPERATORS
    assert engine.correction is None
    assert engine.after is None


def test_dla_times_fit_the_factor_without_operator_overhead():
    nets = graphs(3)
    (engine,) = fit_board(nets, [measured(g, 1.3, 0.0, device="DLA") for g in nets.values()]).engines
    assert engine.device == "DLA"
    assert engine.correction.operator_us == 0.0
    assert 1.1 < engine.correction.factor <= 1.3


def test_a_board_profile_round_trips_and_invalid_ones_are_refused():
    nets = graphs(3)
    profile = fit_board(nets, [measured(g, 1.5, 4.0) for g in nets.values()]).profile
    document = json.loads(json.dumps(profile.to_dict()))
    key = ("GPU", "fp16")
    assert parse_profile(document).corrections[key].factor == pytest.approx(profile.corrections[key].factor, abs=1e-6)
    for wrong in ({"device": "TPU"}, {"factor": -1}, {"spread": "x"}, {"precision": "fp8"}):
        document["corrections"] = [{"device": "GPU", "precision": "fp16", "factor": 1, "operator_us": 0, "spread": 0, **wrong}]
        with pytest.raises(DocumentError):
            parse_profile(document)


def test_profiles_of_two_boards_or_of_other_networks_are_refused():
    nets = graphs(1)
    one = measured(nets["net0"], 1.5, 4.0)
    two = Profile("orin-nx-16gb", MODE, "test", one.measurements)
    with pytest.raises(DocumentError, match="one module"):
        fit_board(nets, [one, two])
    with pytest.raises(DocumentError, match="no measured operator"):
        fit_board({"other": residual_block((1, 24, 9, 9), 24)}, [one])


def test_costs_fit_without_models_and_profiles_fails():
    assert CliRunner().invoke(main, ["costs", "fit"]).exit_code != 0
