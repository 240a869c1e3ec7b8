"""The command to run next asks for the platform of the report."""

from __future__ import annotations

import shlex
from typing import Optional

import pytest

import edgedla
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
