"""Names that are not UTF-8: TensorRT's protobuf takes any bytes, so the check must answer and print them."""

from __future__ import annotations

import json

import pytest

from edgedla.importers import load_onnx

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

RAW = b"\xff\xfe"


@pytest.mark.parametrize("trt", [(8, 6), (10, 3)])
def test_names_that_are_not_utf8_become_escaped_text(trt: tuple) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["xQQ", "wQQ"], ["aQQ"], name="nQQ"),
            helper.make_node("Mul", ["aQQ", "sQQ"], ["bQQ"]),
            helper.make_node("Relu", ["bQQ"], ["yQQ"], name="nQQ"),
        ],
        "gQQ",
        [value("xQQ", TensorProto.FLOAT, [1, 1, 4, 4])],
        [value("yQQ", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("wQQ", TensorProto.FLOAT, [1, 1, 1, 1], [1.0]),
            helper.make_tensor("sQQ", TensorProto.FLOAT, [], [2.0]),
        ],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    found = load_onnx(data.replace(b"QQ", RAW), trt=trt)
    assert found.layers[0].onnx_node == "n\\xff\\xfe"
    assert found.inputs == ("x\\xff\\xfe",)
    json.dumps([[la.name, la.inputs, la.outputs, la.onnx_op] for la in found.layers] + [n.name for n in found.nodes])
    assert found.constant_users["s\\xff\\xfe"] == 1
