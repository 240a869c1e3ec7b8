"""Plugins: those that TensorRT itself brings run on the GPU; of others edgedla does not know whether they are there."""

from __future__ import annotations

import onnx
import pytest

import edgedla
from edgedla.regions import Placed
from tests.models import node, onnx_model


@pytest.mark.parametrize("domain", ["", "TRT"])
@pytest.mark.parametrize(
    ("operator", "trt", "kind"),
    [
        ("EfficientNMS_TRT", "8.5", "PLUGIN_V2"),
        ("EfficientNMS_TRT", "10.3", "PLUGIN_V2"),
        ("EfficientNMS_TRT", "11.4.1", "UNKNOWN"),
        ("EfficientNMSLandmark_TRT", "10.3", "UNKNOWN"),
    ],
)
def test_a_plugin_that_tensorrt_brings_runs_on_the_gpu(operator: str, trt: str, kind: str, domain: str) -> None:
    made = node(operator, "x", "y", name="plugin")
    made.domain = domain
    proto = onnx_model([made], {"x": (1, 3, 8, 8)}, {"y": (1, 5, 4)})
    if domain:
        proto.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    report = edgedla.check(proto.SerializeToString(), target="agx-orin-64gb", trt=trt)
    layer = report.layers[0]
    assert (layer.type, layer.placed) == (kind, Placed.GPU)
    assert any(finding.rule == "NEVR007" for finding in layer.findings) == (kind == "PLUGIN_V2")
    unknown = any(node.unknown for node in edgedla.load_onnx(proto, trt=trt).nodes)
    assert unknown == (kind == "UNKNOWN")


def test_its_sizes_are_those_that_the_file_states() -> None:
    nodes = [node("EfficientNMS_TRT", "x", "p"), node("Relu", "p", "y")]
    proto = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": None})
    assert edgedla.load_onnx(proto, trt="10.3").layers[1].type == "UNKNOWN", "a layer of a tensor without dims"
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, (1, 5, 4)))
    graph = edgedla.load_onnx(proto, trt="10.3")
    assert [graph.tensors[layer.outputs[0]].dims for layer in graph.layers] == [(1, 5, 4), (1, 5, 4)]
