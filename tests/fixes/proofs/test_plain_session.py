"""Sessions that take weights as inputs: what counts as part of the user's file."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgedla.errors import EnvironmentMissing, ModelError
from edgedla.fixes.proofs.plain_session import of_the_file, session_of
from edgedla.quantization import memory_limit
from tests.models import constant, node, onnx_model

ir = pytest.importorskip("onnx_ir", reason="rewriting needs Python 3.10")

KIB = 1 << 10


def dense(inputs: int) -> onnx.ModelProto:
    weights = np.random.default_rng(0).standard_normal((inputs, 4), np.float32)
    nodes = [node("Flatten", "x", "f"), node("Gemm", "f w", "y")]
    return onnx_model(nodes, {"x": (1, inputs // 4, 2, 2)}, {"y": (1, 4)}, [constant("w", weights)])


def run(inputs: int) -> np.ndarray:
    session = session_of(ir.from_proto(dense(inputs)), ["y"])
    return session.run({"x": np.ones((1, inputs // 4, 2, 2), np.float32)})["y"]


def test_fed_weights_count_in_the_size_of_the_model_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "SMALL_FILE_BYTES", 64 * KIB)
    monkeypatch.setattr(memory_limit, "SMALL_FILE_LIMIT", 2 * KIB)
    assert run(1 << 14).shape == (1, 4)
    with pytest.raises(EnvironmentMissing, match="for a model file below"):
        run(1 << 11)


def test_only_tensors_read_from_the_model_belong_to_the_users_file() -> None:
    array = np.ones((2, 3), np.float32)
    assert of_the_file(ir.serde.TensorProtoTensor(constant("w", array)))
    assert of_the_file(ir.LazyTensor(lambda: ir.tensor(array), ir.DataType.FLOAT, ir.Shape((2, 3))))
    assert not of_the_file(ir.tensor(array))


def test_weights_whose_file_is_missing_are_named() -> None:
    model = dense(64)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="gone.bin")
    with pytest.raises(ModelError, match="the elements of 'w' cannot be worked out"):
        session_of(ir.from_proto(model), ["y"])
