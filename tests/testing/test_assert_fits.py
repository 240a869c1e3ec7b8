"""`edgedla.testing.assert_fits`: what passes, and that a failure names layers, rules and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import edgedla
from edgedla.reports.gate.baseline import Baseline, place_of
from edgedla.reports.gate.standing import standing_of
from edgedla.testing import assert_fits
from tests.models import node, ones, onnx_model, save

PLACE = {"target": "orin-nx-16gb"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution that the DLA runs and a mean over channels that it does not."""
    nodes = [
        node("Conv", "x w", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("ReduceMean", "c", "m", axes=[1], keepdims=1),
        node("Relu", "m", "y"),
    ]
    return save(onnx_model(nodes, constants=[ones("w", 8, 3, 3, 3)]), tmp_path / "net.onnx")


def test_limits_that_hold_give_the_report(model: Path) -> None:
    assert assert_fits(model, **PLACE, min_dla_macs=0.9, max_gpu_layers=1).totals.layers_gpu == 1


def test_a_refused_layer_fails_by_name_and_rule(model: Path) -> None:
    with pytest.raises(AssertionError, match=r"net does not fit orin-nx-16gb:\n  REDUCE m: RED\w+ "):
        assert_fits(model, **PLACE)


def test_a_broken_limit_names_value_limit_and_layers(model: Path) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_fits(model, **PLACE, max_gpu_layers=0, max_latency_us=0.5)
    text = str(failure.value)
    assert "1 layer off the DLA, at most 0 wanted" in text
    assert "per frame, at most 0.500 µs wanted" in text
    assert "REDUCE m: RED" in text


def test_a_baseline_fails_only_what_got_worse(model: Path, tmp_path: Path) -> None:
    report = edgedla.check(str(model), **PLACE)
    held = Baseline(str(tmp_path / "dla.json"), {})
    held.put(str(model), place_of(report), standing_of(report))
    held.write(report.rules_version)
    assert_fits(model, **PLACE, baseline=held.path)
    held.put(str(model), place_of(report), standing_of(report)._replace(layers_gpu=0, off_dla={}))
    held.write(report.rules_version)
    with pytest.raises(AssertionError, match=r"worse than .*dla.json: 1 more layer runs off the DLA: m \(RED"):
        assert_fits(model, **PLACE, baseline=held.path)


def test_a_baseline_needs_a_path(model: Path, tmp_path: Path) -> None:
    with pytest.raises(edgedla.UsageError, match="by their path"):
        assert_fits(model.read_bytes(), **PLACE, baseline=tmp_path / "dla.json")


def test_a_model_that_the_baseline_does_not_hold_fails(model: Path, tmp_path: Path) -> None:
    """Another precision than the baseline's, or a renamed model: a gate that passes then guards nothing."""
    report = edgedla.check(str(model), **{**PLACE, "precision": "fp16"})
    held = Baseline(str(tmp_path / "dla.json"), {})
    held.put(str(model), place_of(report), standing_of(report))
    held.write(report.rules_version)
    with pytest.raises(AssertionError, match=r"dla.json does not hold it on .*int8"):
        assert_fits(model, **{**PLACE, "precision": "int8"}, baseline=held.path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_dla_macs", 95.0),
        ("min_dla_macs", float("nan")),
        ("max_loadables", -1),
        ("max_latency_us", float("nan")),
        ("max_energy_mj", -0.5),
        ("fail_on", "sometimes"),
    ],
)
def test_a_limit_that_cannot_hold_or_cannot_break_is_wrong_use(model: Path, name: str, value: Any) -> None:
    with pytest.raises(edgedla.UsageError, match=name):
        assert_fits(model, **PLACE, **{name: value})
