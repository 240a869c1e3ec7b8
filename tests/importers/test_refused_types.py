"""A model whose inputs or outputs have a type that the release's parser lacks is refused, with the remedy for the type."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from onnx import TensorProto

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.errors import ModelRefused
from tests.models import node, onnx_model, save


def test_the_hinted_type_conversion_makes_the_model_acceptable(tmp_path: Path) -> None:
    kind = TensorProto.BFLOAT16
    model = onnx_model([node("Relu", "x", "y")], opset=14, kind=kind)
    model.graph.input[0].type.tensor_type.elem_type = kind
    path = save(model, tmp_path / "m.onnx")
    platform = {"target": "xavier-nx-8gb", "trt": "8.5.2"}
    with pytest.raises(ModelRefused) as refused:
        edgedla.check(path, **platform)
    assert "`edgedla fix MODEL --only float32-types -o OUT` turns the types" in refused.value.hint
    if sys.version_info >= (3, 10):
        out = tmp_path / "out.onnx"
        fix = ["fix", str(path), "--target", "xavier-nx-8gb", "--trt", "8.5.2", "--only", "float32-types", "-o", str(out)]
        assert exit_code_of(fix) == 0
        assert edgedla.check(out, **platform).totals.layers_dla == 1


def test_a_type_without_conversion_gets_no_command_hint() -> None:
    model = onnx_model([node("Relu", "x", "y")], opset=14, kind=TensorProto.UINT32)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT32
    with pytest.raises(ModelRefused) as refused:
        edgedla.check(model, target="xavier-nx-8gb", trt="8.5.2")
    assert "float32-types" not in refused.value.hint
