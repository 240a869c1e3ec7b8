"""A strongly typed release: without Q/DQ nodes no command prices INT8, and Casts at the border of FP16 are no refusals."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime import InferenceSession

import edgedla
from edgedla.errors import ModelError
from edgedla.regions.float16_model import NO_INT8, built_precision, half_model
from edgedla.regions.values import Cause, Placed
from edgedla.reports import layer_groups, summary
from edgedla.reports.gate import fail_on
from edgedla.targets import platform_for
from tests.models import node, onnx_model, save

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


def test_casts_at_the_border_of_the_fp16_part_are_no_refusals(tmp_path: Path) -> None:
    path = save(onnx_model([node("Relu", "x", "y")], {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), tmp_path / "one.onnx")
    where: Dict[str, Any] = {"target": "agx-orin-64gb", "jetpack": "7.2.2"}
    report = edgedla.check(path, **where)
    casts = [layer for layer in report.layers if layer.type == "CAST"]
    assert [(x.placed, x.cause, x.because_of) for x in casts] == [(Placed.GPU, Cause.TYPE_BORDER, ())] * 2
    assert "the network's input" in casts[0].reason
    assert "the network's output" in casts[1].reason
    assert fail_on.passes(report, "unsupported")
    assert not fail_on.passes(report, "fallback")
    assert summary.headline(report).text.endswith("2 on the GPU (Casts at its borders)")
    assert not layer_groups.refused(report)
    # Without fallback nobody is there to run them.
    strict = edgedla.check(convert(path, tmp_path), mode="strict", **where)
    assert strict.strict is not None
    assert strict.strict.passes is False
    assert not any(layer.cause is Cause.TYPE_BORDER for layer in strict.layers)


def convert(path: Path, folder: Path) -> Path:
    """A model in FLOAT16 between Casts, as a user's own."""
    nodes = [node("Cast", "x", "a", to=10), node("Relu", "a", "b"), node("Cast", "b", "y", to=1)]
    return save(onnx_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), folder / "cast.onnx")


def test_a_cast_between_the_dla_and_a_part_that_stays_float_is_there_because_of_it(tmp_path: Path) -> None:
    nodes = [
        node("Cast", "x", "a", to=10),
        node("Relu", "a", "b"),
        node("Cast", "b", "c", to=1),
        node("Erf", "c", "y", name="erf"),
    ]
    path = save(onnx_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), tmp_path / "part.onnx")
    report = edgedla.check(path, target="agx-orin-64gb", jetpack="7.2.2")
    erf = next(layer for layer in report.layers if layer.name == "erf")
    assert [layer.because_of for layer in report.layers if layer.type == "CAST"] == [(), (erf.index,)]
    assert erf.cause is Cause.RULE
    # Releases without strong types reformat by themselves, and refuse the Cast.
    older = edgedla.check(path, target="agx-orin-64gb", jetpack="6.2")
    assert {layer.cause for layer in older.layers if layer.type == "CAST"} == {Cause.RULE}


@NEEDS_310
def test_what_fix_left_in_float_is_not_told_to_convert_again(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Erf", "r", "y", name="erf")]
    path = save(onnx_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}), tmp_path / "net.onnx")
    result = edgedla.fix(path, target="agx-orin-64gb", jetpack="7.2.2")
    fixed = result.save(tmp_path / "fixed.onnx")[0]
    report = edgedla.check(fixed, target="agx-orin-64gb", jetpack="7.2.2")
    assert not [fix for layer in report.layers for finding in layer.findings for fix in finding.fixes if fix == "fp16-tensors"]
    with pytest.raises(ModelError, match="into which `edgedla fix` converted them, first"):
        edgedla.build(fixed, tmp_path / "out", edgedla.BuildRequest("agx-orin-64gb", jetpack="6.2", precision="int8"))


def _calls_its_own_function(weights: np.ndarray) -> onnx.ModelProto:
    inside = [node("Conv", "a w", "b", pads=[1, 1, 1, 1]), node("Relu", "b", "c")]
    function = helper.make_function("own", "ConvRelu", ["a", "w"], ["c"], inside, [helper.make_opsetid("", 13)])
    calls = [node("ConvRelu", "x w", "m", domain="own"), node("ConvRelu", "m w", "y", domain="own")]
    return onnx_model(calls, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}, {"w": weights}, functions=[function])


@pytest.mark.skipif(tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 15), reason="onnx 1.15 brought its inliner")
def test_a_model_that_calls_its_own_functions_is_converted_inside_of_them(tmp_path: Path) -> None:
    weights = np.linspace(-0.1, 0.1, 576, dtype=np.float32).reshape(8, 8, 3, 3)
    path = save(_calls_its_own_function(weights), tmp_path / "calls.onnx")
    report = edgedla.check(path, target="agx-orin-64gb", jetpack="7.2.2")
    assert [layer.type for layer in report.layers if layer.placed is Placed.DLA] == ["CONVOLUTION", "ACTIVATION"] * 2
    if sys.version_info >= (3, 10):
        fixed = edgedla.fix(path, target="agx-orin-64gb", jetpack="7.2.2").save(tmp_path / "fixed.onnx")[0]
        again = edgedla.check(fixed, target="agx-orin-64gb", jetpack="7.2.2")
        assert [layer.type for layer in again.layers] == [layer.type for layer in report.layers]
        sample = {"x": np.full((1, 8, 8, 8), 0.5, np.float32)}
        ours, theirs = (InferenceSession(str(file)).run(None, sample)[0] for file in (fixed, path))
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_functions_that_multiply_beyond_the_importers_limit_are_not_unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedla.importers.walk.MAX_FUNCTION_NODES", 3)
    proto = _calls_its_own_function(np.zeros((8, 8, 3, 3), np.float32))
    assert half_model(proto.SerializeToString(), platform_for("agx-orin-64gb", jetpack="7.2.2")) is None
