"""Sessions that take weights as inputs: what counts as part of the user's file."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from edgedla.errors import EnvironmentMissing, ModelError
from edgedla.fixes.proofs import plain_session
from edgedla.fixes.proofs.plain_session import of_the_file, optimised_session_of, session_of
from edgedla.quantization import memory_limit
from edgedla.quantization.session import open_session
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


@pytest.mark.parametrize("inputs", [64, 1 << 12])
def test_the_optimised_session_computes_with_the_weights_where_they_lie(inputs: int) -> None:
    """A constant that nothing reads is none that ONNX Runtime would take."""
    proto = dense(inputs)
    proto.graph.initializer.append(constant("unread", np.ones((64, 64), np.float32)))
    model = ir.from_proto(proto)
    x = np.random.default_rng(1).standard_normal((1, inputs // 4, 2, 2)).astype(np.float32)
    whole = open_session(proto.SerializeToString()).run(["y"], {"x": x})
    assert np.array_equal(optimised_session_of(model).run(["y"], {"x": x})[0], whole[0])


def test_an_optimised_session_that_takes_no_weights_from_outside_gets_them_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    proto = dense(1 << 12)

    def opened(data: bytes, **options: Any) -> Any:
        if options.get("weights"):
            raise ModelError("not this release")
        return open_session(data, **options)

    monkeypatch.setattr(plain_session, "open_session", opened)
    x = np.ones((1, 1 << 10, 2, 2), np.float32)
    whole = open_session(proto.SerializeToString()).run(["y"], {"x": x})
    assert np.array_equal(optimised_session_of(ir.from_proto(proto)).run(["y"], {"x": x})[0], whole[0])
