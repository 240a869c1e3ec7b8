"""`fix` of models with plugins of TensorRT, which ONNX Runtime cannot run: in a domain of their own, or in ONNX's."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import helper

import edgedla
from edgedla.errors import ModelError
from edgedla.quantization.session import open_session
from tests.models import node, onnx_model, value

ORIN: Any = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "int8"}
DIMS = (1, 8, 16, 16)


def plugin(inputs: str, outputs: str, domain: str) -> onnx.NodeProto:
    made = node("EfficientNMS_TRT" if not domain else "Own_TRT", inputs, outputs, name="plugin")
    made.domain = domain
    return made


def mean_and_sum(read: str, written: str) -> List[onnx.NodeProto]:
    """A mean over the map, which `average-pool` rewrites, added to the map."""
    return [
        node("GlobalAveragePool", read, "mean", name="gap"),
        node("Conv", "mean v", "weighed"),
        node("Add", f"{read} weighed", written),
    ]


def model(nodes: List[onnx.NodeProto], domain: str, dims_of: Any = None, **more: Any) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 8, 3, 3)).astype("f4"), "v": rng.standard_normal((8, 8, 1, 1)).astype("f4")}
    first = node("Conv", "x w", "c", pads=[1, 1, 1, 1])
    made = onnx_model([first, *nodes], {"x": DIMS}, {"y": DIMS}, weights, **more)
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    made.graph.value_info.extend(value(name, DIMS) for name in dims_of or ())
    return made


@pytest.mark.parametrize("domain", ["", "vendor"])
def test_what_stands_before_a_plugin_is_rewritten_and_proven(domain: str) -> None:
    proto = model([*mean_and_sum("c", "s"), plugin("s", "y", domain)], domain)
    result = edgedla.fix(proto, only=("average-pool",), **ORIN)
    assert [(site.proof.status, site.proof.inputs) for site in result.applied] == [("proved", "seeded")]
    assert result.network.within is None
    assert "ONNX Runtime lacks" in result.network.detail
    written = result.to_proto()
    assert [(n.op_type, n.domain) for n in written.graph.node][-1] == (proto.graph.node[-1].op_type, domain)


@pytest.mark.parametrize("domain", ["", "vendor"])
def test_what_stands_behind_a_plugin_is_proven_on_random_input(domain: str) -> None:
    """Its size is the one that the file states: figures are those of `check`."""
    proto = model([plugin("c", "p", domain), *mean_and_sum("p", "y")], domain, ["p"])
    result = edgedla.fix(proto, only=("average-pool",), **ORIN)
    assert [(site.proof.status, site.proof.inputs) for site in result.applied] == [("proved", "random")]
    before = edgedla.check(proto.SerializeToString(), **ORIN).totals
    assert result.before.layers_dla == before.layers_dla
    assert result.before.latency_us is not None


def test_a_plugin_inside_a_branch_or_a_function_is_one() -> None:
    result = value("r", DIMS)
    branches = {
        name: helper.make_graph([inner], name, [], [result])
        for name, inner in (("then_branch", node("Relu", "c", "r")), ("else_branch", plugin("c", "r", "")))
    }
    chosen = [node("ReduceMax", "c", "m", keepdims=0), node("Cast", "m", "b", to=onnx.TensorProto.BOOL)]
    branch = [*chosen, node("If", "b", "p", **branches)]
    inside = helper.make_function("own", "Wrapped", ["a"], ["o"], [plugin("a", "o", "")], [helper.make_opsetid("", 13)])
    call = node("Wrapped", "c", "p")
    call.domain = "own"
    for nodes, more in ((branch, {}), ([call], {"functions": [inside]})):
        fixed = edgedla.fix(model([*nodes, *mean_and_sum("p", "y")], "", ["p"], **more), only=("average-pool",), **ORIN)
        assert all(site.proof.inputs == "random" for site in fixed.applied)


def test_a_decoder_with_a_plugin_is_not_cut_off() -> None:
    nodes = [node("Reshape", "c flat", "f"), plugin("f", "y", "")]
    proto = model(nodes, "")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 8, 256]), "flat"))
    result = edgedla.fix(proto, purpose="standalone", **ORIN)
    assert any("EfficientNMS_TRT is not an ONNX operator" in site.reason for site in result.refused)


def test_a_plugin_that_onnx_runtime_knows_by_name_only_gets_the_advice_for_plugins() -> None:
    boxes = {"x": (1, 10, 4), "s": (1, 10, 3)}
    names = "y b c l"
    made = node(
        "EfficientNMS_TRT",
        "x s",
        names,
        background_class=-1,
        box_coding=0,
        iou_threshold=0.5,
        max_output_boxes=5,
        plugin_version="1",
        score_activation=0,
        score_threshold=0.1,
    )
    proto = onnx_model([made], boxes, names.split())
    for output in (proto.graph.output[0], proto.graph.output[3]):
        output.type.tensor_type.elem_type = onnx.TensorProto.INT32
    with pytest.raises(ModelError, match="lacks that operator"):
        open_session(proto.SerializeToString())
    double = onnx_model([node("Conv", "x w", "y")], {"x": (1, 3, 4, 4)}, constants={"w": np.ones((1, 3, 1, 1))})
    double.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    double.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    with pytest.raises(ModelError) as caught:
        open_session(double.SerializeToString())
    assert "lacks that operator" not in str(caught.value)
