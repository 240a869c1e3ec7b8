"""The Pareto front, the request that the command and Python share, and the texts of both."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import edgedla
from edgedla.errors import UsageError
from edgedla.reports.prediction import render_front, render_prediction
from tests.placement.placement_models import small_model

ORIN = {"target": "agx-orin-64gb", "precision": "int8"}


@pytest.fixture(scope="module")
def front() -> edgedla.ParetoFront:
    return edgedla.pareto(small_model(), edgedla.PlacementRequest(**ORIN))


def test_no_point_of_the_front_dominates_another(front) -> None:
    assert front.points
    for a in front.points:
        for b in front.points:
            if a is not b:
                assert not (a.latency_us <= b.latency_us and a.energy_mj <= b.energy_mj)


def test_the_ends_of_the_front_are_the_optima_of_each_objective(front) -> None:
    fastest, thriftiest = (edgedla.place(small_model(), objective=o, **ORIN) for o in ("latency", "energy"))
    assert front.points[0].latency_us == pytest.approx(fastest.figures.latency.latency_us)
    assert front.points[-1].energy_mj == pytest.approx(thriftiest.figures.energy.energy_mj)


def test_an_unsupported_pair_of_objectives_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no front"):
        edgedla.pareto(small_model(), edgedla.PlacementRequest(**ORIN), ("energy", "latency"))


def test_a_front_renders_in_every_format(front) -> None:
    text = render_front(front, "text")
    assert "latency ms" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert json.loads(render_front(front, "json"))["objectives"] == ["latency", "energy"]
    page = render_front(front, "html")
    assert page.count("<circle") == len(front.points)
    with pytest.raises(UsageError, match="form"):
        render_front(front, "trtexec")


@pytest.mark.parametrize(
    ("second", "gap", "said"),
    [("energy", 0.05, "at most 5.00% lower"), ("throughput", 0.2, "at most 25.00% higher"), ("energy", 1.0, "no bound proven")],
)
def test_an_unproven_point_of_the_front_shows_its_gap(front, second, gap, said) -> None:
    point = replace(front.points[0], proven=False, gap=gap)
    unproven = replace(front, objectives=("latency", second), points=(point,))
    assert said in render_front(unproven, "text")
    assert said in render_front(unproven, "html")
    assert json.loads(render_front(unproven, "json"))["points"][0]["gap"] == gap
    assert said not in render_front(front, "text")


def test_a_prediction_as_text_names_the_spread_and_the_memory() -> None:
    text = render_prediction(edgedla.predict(small_model(), devices="DLA0", **ORIN), "text")
    assert "predicted, fitted" in text
    assert "MiB (±50%)" in text
    with pytest.raises(UsageError, match="form"):
        render_prediction(edgedla.predict(small_model(), **ORIN), "html")


def test_devices_and_pins_as_one_string_are_parsed_as_on_the_command_line() -> None:
    pinned = edgedla.place(small_model(), devices="GPU,DLA0", pins="*:GPU", **ORIN)
    assert {x.device for x in pinned.models[0].layers} == {"GPU"}
    assert pinned.devices == ("GPU", "DLA0")
    assert edgedla.place(small_model(), devices="GPU", **ORIN).devices == ("GPU",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rates": (1.0, 0.0)}, "rate 2 is 0"),
        ({"latency_bound_us": 0.0}, "latency bound"),
        ({"time_limit_s": -1.0}, "time limit"),
        ({"objective": "speed"}, "objective"),
    ],
)
def test_an_invalid_placement_request_names_the_mistake(wrong, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        edgedla.PlacementRequest(target="orin", **wrong)


def test_a_front_without_throughput_refuses_rates() -> None:
    request = edgedla.PlacementRequest(rates=[1.0], **ORIN)
    with pytest.raises(UsageError, match="rates: the objective latency counts one frame of each model"):
        edgedla.pareto(small_model(), request)
    assert edgedla.pareto(small_model(), request, ("latency", "throughput")).points


def test_a_target_without_engines_on_record_names_the_file() -> None:
    from dataclasses import replace

    from edgedla.costs.engines import gpu_engine, highest_clocks
    from edgedla.errors import RuleError
    from edgedla.targets import platform_for

    module = platform_for("agx-orin-64gb").module
    with pytest.raises(RuleError, match=r"engines\.yaml.*no engines of the target new-module"):
        highest_clocks(replace(module, id="new-module"))
    with pytest.raises(RuleError, match="chip new"):
        gpu_engine(replace(module, chip="new"), "int8")
