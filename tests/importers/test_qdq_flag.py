"""UINT8 and asymmetric Q/DQ: refused up to TensorRT 10.10, from 10.11 on a matter of the parser's flag, and unknown on the DLA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.importers.parser_releases import ADJUST, REPORT, UINT8, parser_flags
from edgedla.placement.check_cost import check
from tests.models import node, onnx_model


def net(zero: Any) -> Any:
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "s": np.array(0.05, np.float32), "z": np.array(zero)}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), node("Conv", "d w", "y")]
    return onnx_model(nodes, {"x": (1, 4, 8, 8)}, {"y": (1, 4, 8, 8)}, constants, opset=13)


def halved(model: Any) -> Any:
    """With FP16 tensors and scales, as operator set 19 allows."""
    model.opset_import[0].version = 19
    for tensor in list(model.graph.initializer):
        if tensor.data_type == 1:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = 10
    return model


@pytest.mark.parametrize("zero", [np.uint8(128), np.int8(3)])
def test_the_parsers_flag_decides_from_10_11_on(zero: Any) -> None:
    for trt in ("10.7", "10.10"):
        with pytest.raises(ModelError):
            load_onnx(net(zero), trt=trt)
    for trt in ("10.11", "11.4.1"):
        notes = load_onnx(net(zero), trt=trt).notes
        assert any(UINT8 in note for note in notes)
        assert parser_flags(notes, gpu_fallback=True) == (UINT8, ADJUST)
        assert parser_flags(notes, gpu_fallback=False) == (UINT8, ADJUST, REPORT)


def test_symmetric_int8_needs_no_flag_and_is_unknown_on_the_dla_from_11_on() -> None:
    graph = load_onnx(net(np.int8(0)), trt="11.4.1")
    assert parser_flags(graph.notes, gpu_fallback=True) == ()
    report = check(halved(net(np.int8(0))), target="agx-orin-64gb", trt="11.4.1")
    assert [str(x.support) for x in report.layers if x.type in ("QUANTIZE", "DEQUANTIZE")] == ["unknown"] * 2
    fixes = {fix for layer in report.layers for finding in layer.findings for fix in finding.fixes}
    assert "strip-qdq" not in fixes
    old = check(net(np.int8(0)), target="agx-orin-64gb", trt="10.3")
    assert any("strip-qdq" in finding.fixes for layer in old.layers for finding in layer.findings)
