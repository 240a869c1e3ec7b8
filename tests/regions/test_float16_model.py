"""INT8 on a strongly typed release: without Q/DQ nodes no command prices it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

import edgedla
from edgedla.regions.float16_model import NO_INT8, built_precision
from edgedla.targets import platform_for

SHAPES = Path(__file__).resolve().parents[2] / "examples/00_shapes_detector/shapes_detector.onnx"
NEW: Dict[str, Any] = {"target": "agx-orin-64gb", "jetpack": "7.2.2", "precision": "int8"}
NEEDS_310 = pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")


@pytest.mark.parametrize(
    ("kinds", "trt", "precision"),
    [
        (["CONVOLUTION", "RELU"], "11.4.1", "fp16"),
        (["CONVOLUTION", "DEQUANTIZE"], "11.4.1", "int8"),
        (["Conv", "QuantizeLinear"], "11.4.1", "int8"),
        ([], "11.4.1", "fp16"),
        (["CONVOLUTION", "RELU"], "10.3.0", "int8"),
    ],
)
def test_only_q_dq_makes_int8_of_a_strongly_typed_network(kinds: List[str], trt: str, precision: str) -> None:
    assert built_precision(kinds, platform_for("agx-orin-64gb", trt=trt), "int8") == precision


def _check(**where: Any) -> Any:
    report = edgedla.check(SHAPES, cost=True, **where)
    assert report.worth is not None
    return report.precision, report.to_dict()["worth"], NO_INT8 in report.notes


def _place(**where: Any) -> Any:
    placement = edgedla.place(SHAPES, **where)
    return placement.precision, placement.figures.latency, NO_INT8 in placement.notes


def _predict(**where: Any) -> Any:
    prediction = edgedla.predict(SHAPES, devices="tensorrt", **where)
    return prediction.precision, prediction.latency_us, NO_INT8 in prediction.notes


def _fix(**where: Any) -> Any:
    result = edgedla.fix(SHAPES, prove=False, **where)
    return result.precision, result.after.latency_us, NO_INT8 in result.notes


@pytest.mark.parametrize("verb", [_check, _place, _predict, pytest.param(_fix, marks=NEEDS_310)])
def test_int8_without_q_dq_is_answered_in_fp16_and_says_so(verb: Any) -> None:
    asked, usual = verb(**NEW), verb(**{**NEW, "precision": "fp16"})
    assert asked == (*usual[:2], True)
    assert usual[0] == "fp16"
    assert usual[2] is False
