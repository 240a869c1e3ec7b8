"""The pass over the bytes that skips large payloads: the rest keeps its meaning, and broken bytes are reported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from edgedla.errors import ModelError
from edgedla.graph.document import to_document
from edgedla.importers import load_onnx
from edgedla.importers.model_file import wire
from tests.amounts import examples
from tests.importers.onnx_models import constant, model, one, value, weights

BIG = (256, 64, 3, 3)  # 576 KiB of floats, above wire.LARGE_PAYLOAD_BYTES.


def conv(*dims):
    return one("Conv", dims=(1, dims[1], 16, 16), initializers=[weights("w", *dims), weights("b", dims[0])])


def test_stripping_removes_large_payloads_only():
    proto = conv(*BIG)
    left = onnx.load_from_string(wire.stripped(proto.SerializeToString()))
    assert left.graph.initializer[0].raw_data == b""
    assert list(left.graph.initializer[0].dims) == list(BIG)
    expected = onnx.ModelProto()
    expected.CopyFrom(proto)
    expected.graph.initializer[0].ClearField("raw_data")
    assert left == expected


def test_small_models_are_not_stripped():
    data = conv(4, 8, 3, 3).SerializeToString()
    assert wire.stripped(data) == data


@pytest.mark.parametrize("field", ["raw_data", "float_data"])
def test_stripping_removes_payloads_of_any_field_and_of_constant_nodes(field):
    array = np.ones(BIG, np.float32)
    tensor = constant("w", array)
    if field == "float_data":
        tensor = helper.make_tensor("w", onnx.TensorProto.FLOAT, BIG, array.ravel())
    nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Conv", ["x", "w"], ["y"])]
    proto = model(nodes, [value("x", [1, 64, 16, 16])], ["y"])
    data = proto.SerializeToString()
    assert len(wire.stripped(data)) < 1000
    assert [layer.type for layer in load_onnx(data).layers] == ["CONVOLUTION"]


def test_stripping_removes_payloads_in_subgraphs():
    inner = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["t"])], "inner", [], [value("t", None)], [weights("w", *BIG)]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    proto = model([node], [value("x", [1, 64, 16, 16])], ["y"], [constant("c", [True])])
    assert len(wire.stripped(proto.SerializeToString())) < 2000


def test_layers_are_the_same_with_and_without_the_payload(tmp_path):
    path = tmp_path / "m.onnx"
    proto = conv(*BIG)
    path.write_bytes(proto.SerializeToString())
    a, b = to_document(load_onnx(path)), to_document(load_onnx(proto))
    assert a["layers"] == b["layers"]


@pytest.mark.parametrize("cut", [1, 100, 70_000, 500_000])
def test_a_truncation_is_reported_with_its_position(cut):
    data = conv(*BIG).SerializeToString()[:-cut]
    with pytest.raises(wire.Malformed, match="cut off"):
        wire.stripped(data)


@given(st.integers(0, (1 << 63) - 1))
def test_numbers_are_written_as_they_are_read(number):
    data = wire.encoded(number)
    assert wire.varint(data, 0, len(data)) == (number, len(data))


START = conv(*BIG).SerializeToString()[:80_000]


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_any_bytes_are_stripped_or_refused(data):
    base = bytearray(START)
    for _ in range(data.draw(st.integers(1, 6))):
        base[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    try:
        left = wire.stripped(bytes(base))
    except wire.Malformed:
        return
    assert len(left) <= len(base) + 100


@pytest.mark.parametrize(("payload", "kind"), [(b"\x07", 0), (b"\x96\x01", 0), (b"12345678", 1), (b"\x03abc", 2), (b"1234", 5)])
def test_each_kind_of_field_ends_where_its_payload_does(payload, kind):
    data = bytes([3 << 3 | kind]) + payload
    found = list(wire.fields(data + b"\x08\x01", 0, len(data) + 2))
    assert [row[:2] + row[3:] for row in found] == [(3, 0, len(data)), (1, len(data), len(data) + 2)]


@pytest.mark.parametrize(("size", "fits"), [((1 << 31) - 1, True), (1 << 31, False)])
def test_a_graph_of_2_gib_is_refused(size, fits):
    if fits:
        wire.check_size(size, "m.onnx")
        return
    with pytest.raises(ModelError, match="2147483648 bytes of graph.*2 GB"):
        wire.check_size(size, "m.onnx")
