"""The command to run next asks for the platform of the report."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Optional

import pytest

import edgedla
from edgedla.importers import load_onnx
from edgedla.placement.check_cost import with_cost
from edgedla.reports.worth import next_command
from edgedla.targets import platform_for
from tests.models import node, onnx_model


@pytest.mark.parametrize(
    ("target", "jetpack", "trt"),
    [
        ("orin", None, None),
        ("orin", "6.2", None),
        ("orin", "6.0", None),
        ("orin", None, "10.0.1"),
        ("orin", None, "10.7"),
        ("orin-nx-16gb", "5.1.2", None),
        ("xavier", None, "8.4"),
        ("xavier", "5.0.2", None),
        ("orin-nano-8gb", "6.1", None),
    ],
)
def test_it_asks_for_the_same_platform(target: str, jetpack: Optional[str], trt: Optional[str]) -> None:
    report = edgedla.check(onnx_model([node("Relu", "x", "y")]), target=target, jetpack=jetpack, trt=trt)
    command = shlex.split(str(next_command(report, "m.onnx")))
    given = {name: command[command.index(name) + 1] for name in ("--target", "--jetpack", "--trt") if name in command}
    if not report.platform.has_dla:
        assert command == ["edgedla", "targets"]
        return
    asked = platform_for(given["--target"], given.get("--jetpack"), given.get("--trt"))
    assert (asked.module.id, asked.release.trt, asked.release.dla_software) == (
        report.platform.module.id,
        report.platform.release.trt,
        report.platform.release.dla_software,
    )
    assert len(given) == 1 or (jetpack, trt) != (None, None), "the default needs no option"


@pytest.mark.parametrize(
    ("fps_of_all", "after_us", "verb"), [(50.0, 90.0, "place"), (50.0, 0.5, "fix"), (200.0, 90.0, "fix")]
)
def test_it_is_no_fix_where_the_gpu_alone_stays_better(fps_of_all: float, after_us: float, verb: str) -> None:
    """With the changes too one frame takes longer, and streams on all engines bring fewer frames."""
    nodes = [node("Relu", "x", "a"), node("ReduceMean", "a", "y", axes=[2, 3], keepdims=1)]
    model = onnx_model(nodes, {"x": [1, 8, 32, 32]}, {"y": [1, 8, 1, 1]})
    report = with_cost(edgedla.check(model, target="orin", precision="int8"), load_onnx(model))
    assert report.worth is not None
    gpu_us = next(way.cost.latency_us for way in report.worth.ways if way.name == "gpu")
    one, *_, every = report.worth.streams
    streams = (one._replace(throughput_fps=100.0), every._replace(throughput_fps=fps_of_all))
    ranking = (*report.ranking[:-1], replace(report.ranking[-1], latency_us=after_us * gpu_us))
    changed = replace(report, worth=replace(report.worth, streams=streams), ranking=ranking)
    assert shlex.split(str(next_command(changed, "m.onnx")))[1] == verb


#: Two inputs with open sizes, added.
OPEN = ("N", 8, "height", "width")
TWO = onnx_model([node("Add", "x y", "z")], {"x": OPEN, "y": OPEN}, {"z": OPEN})


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_it_gives_the_sizes_again(precision: str) -> None:
    shapes = {"x": [2, 8, 32, 32], "y": [2, 8, 32, 32]}
    report = edgedla.check(TWO, target="orin", precision=precision, shapes=shapes)
    command = shlex.split(str(next_command(report, "m.onnx")))
    assert command.count("--shapes") == 1
    assert command[command.index("--shapes") + 1] == "x:2x8x32x32,y:2x8x32x32"
    batch = edgedla.check(onnx_model([node("Relu", "x", "y")]), target="orin", precision=precision, batch=3)
    assert "--batch 3" in str(next_command(batch, "m.onnx"))


def test_sizes_that_are_open_still_come_beside_those_given() -> None:
    report = edgedla.check(TWO, target="orin", shapes={"x": [1, 8, 32, 32]})
    command = shlex.split(str(next_command(report, "m.onnx")))
    assert command[command.index("--shapes") + 1] == "x:1x8x32x32,y:1x8xHxW"
    both = shlex.split(str(next_command(edgedla.check(TWO, target="orin"), "m.onnx")))
    assert both[-2:] == ["--shapes", "x:1x8xHxW,y:1x8xHxW"]


def test_a_rule_shows_open_sizes_as_every_message_does() -> None:
    report = edgedla.check(TWO, target="orin")
    messages = {f.message for layer in report.layers for f in layer.findings if f.rule == "GEN001"}
    assert messages == {"dims 1x8x?x? -> 1x8x?x? have a dynamic or empty dimension"}
