"""A model's file has the bytes that protobuf writes, without its large weights passing through protobuf."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest

from edgedla.errors import ModelError
from edgedla.fixes.network import write_model
from edgedla.fixes.network.model_file import open_model
from edgedla.io.publishing import publication
from tests.models import constant, node, onnx_model

ir = pytest.importorskip("onnx_ir", reason="rewriting needs Python 3.10")

LARGE = (512, 1024)


def opened(folder: Path) -> Any:
    """A model with large and small weights of the file, of several types, and with large ones that are made of others."""
    random = np.random.default_rng(0)
    weights = [
        constant("read", random.standard_normal(LARGE, np.float32)),
        constant("half", random.standard_normal(LARGE, np.float32).astype(np.float16)),
        constant("whole", np.zeros((1, 1), np.int64)),
        constant("none", np.zeros((0, 4), np.float32)),
        constant("small", np.ones((1024, 4), np.float32)),
    ]
    nodes = [node("MatMul", "x read", "h"), node("MatMul", "h small", "y")]
    nodes += [node("Identity", name, f"{name}_out") for name in ("half", "whole", "none")]
    nodes.append(node("MatMul", "x made", "z"))
    outputs = {"y": (1, 4), "z": (1, 1024), "half_out": LARGE, "whole_out": LARGE, "none_out": (0, 4)}
    proto = onnx_model(nodes, {"x": (1, 512)}, outputs, [*weights, constant("made", np.zeros(LARGE, np.float32))])
    proto.graph.output[2].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    proto.graph.output[3].type.tensor_type.elem_type = onnx.TensorProto.INT64
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    model = open_model(folder / "m.onnx")
    model.graph.initializers["whole"].const_value = ir.tensor(random.integers(0, 9, LARGE))
    read = model.graph.initializers["read"].const_value
    model.graph.initializers["made"].const_value = ir.LazyTensor(
        lambda: ir.tensor(read.numpy() * 2),
        ir.DataType.FLOAT,
        ir.Shape(LARGE),
        doc_string="doubled",
        metadata_props={"of": "read"},
    )
    return model


def save(model: Any, path: Path) -> bytes:
    with publication() as out:
        write_model.save_model(model, path, out)
    return path.read_bytes()


def test_the_file_has_the_bytes_of_the_message(tmp_path: Path) -> None:
    model = opened(tmp_path)
    tensors = [v.const_value for v in model.graph.initializers.values()]
    whole = write_model.written_proto(model).SerializeToString()
    assert save(model, tmp_path / "out.onnx") == whole
    assert [v.const_value for v in model.graph.initializers.values()] == tensors
    assert save(model, tmp_path / "again.onnx") == whole


def test_large_weights_pass_by_protobuf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: List[int] = []
    written = write_model.written_proto

    def seen(model: Any, *given: Any) -> Any:
        proto = written(model, *given)
        sizes.append(proto.ByteSize())
        return proto

    model = opened(tmp_path)
    whole = written(model).ByteSize()
    monkeypatch.setattr(write_model, "written_proto", seen)
    assert len(save(model, tmp_path / "out.onnx")) == whole
    # Integers are no weights: theirs are written as they always were.
    assert sizes == [pytest.approx(whole - 512 * 1024 * (4 + 2 + 4), abs=200)]


def test_a_model_above_what_protobuf_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_model, "MOST_BYTES_OF_PROTOBUF", 1 << 20)
    with pytest.raises(ModelError, match="cannot be written: protobuf holds 2 GiB at most"):
        save(opened(tmp_path), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
