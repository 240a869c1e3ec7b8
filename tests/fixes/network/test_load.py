"""Large weights of a file are read once, into arrays of their own, and everything else is as onnx-ir reads it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedla.errors import ModelError
from edgedla.fixes.network.load import load
from edgedla.fixes.network.model_file import open_model
from tests.models import constant, node, onnx_model

ir = pytest.importorskip("onnx_ir", reason="rewriting needs Python 3.10")

LARGE = (512, 1024)


def model(*weights: onnx.TensorProto) -> onnx.ModelProto:
    nodes = [node("MatMul", "x w", "h"), node("Relu", "h", "y")]
    return onnx_model(nodes, {"x": (1, 512)}, {"y": (1, 1024)}, list(weights))


def elements(kind: type = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(LARGE, np.float32).astype(kind)


def written(proto: onnx.ModelProto, folder: Path) -> str:
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return str(path)


def odd_field() -> onnx.TensorProto:
    tensor = constant("w", elements())
    tensor.ClearField("raw_data")
    tensor.float_data.extend(elements().reshape(-1).tolist())
    return tensor


def described() -> onnx.TensorProto:
    tensor = constant("w", elements())
    tensor.doc_string = "of layer 1"
    return tensor


@pytest.mark.parametrize(
    ("tensor", "lies_apart"),
    [
        (constant("w", elements()), True),
        (constant("w", elements(np.float16)), True),
        (constant("w", elements(np.float64)), False),
        (constant("w", np.ones((4, 4), np.float32)), False),
        (odd_field(), False),
        (described(), False),
    ],
)
def test_a_file_is_as_onnx_ir_reads_it(tensor: onnx.TensorProto, lies_apart: bool, tmp_path: Path) -> None:
    path = written(model(tensor), tmp_path)
    found, plain = load(path), ir.load(path)
    weight = found.graph.initializers["w"].const_value
    assert isinstance(weight, ir.LazyTensor) == lies_apart
    assert np.array_equal(weight.numpy(), plain.graph.initializers["w"].const_value.numpy())
    assert ir.to_proto(found).SerializeToString() == ir.to_proto(plain).SerializeToString()


def test_a_large_constant_in_a_node_stays_there(tmp_path: Path) -> None:
    proto = model()
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=constant("w", elements())))
    found = load(written(proto, tmp_path))
    assert np.array_equal(next(iter(found.graph)).attributes["value"].value.numpy(), elements())


def test_weights_that_do_not_fit_their_dims_are_refused(tmp_path: Path) -> None:
    tensor = constant("w", elements())
    tensor.raw_data = tensor.raw_data[:-4]
    with pytest.raises(ModelError, match="the data of the initializer 'w' does not fit its type and dims"):
        open_model(written(model(tensor), tmp_path))
