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
