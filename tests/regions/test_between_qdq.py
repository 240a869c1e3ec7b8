"""Q/DQ where tensor types decide: no source says what the DLA makes of it, so nothing of it is refused, promised or converted."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgedla
from edgedla.reports import render_check

#: Form -> (ONNX type of the scales, type of the levels, zero point), as `edgedla quantize --qdq-form` writes them.
FORMS: Dict[str, Tuple[int, Any, int]] = {
    "int8": (TensorProto.FLOAT, np.int8, 0),
    "int8-fp16": (TensorProto.FLOAT16, np.int8, 0),
    "uint8": (TensorProto.FLOAT, np.uint8, 128),
}


def quantised(form: str, behind: Tuple[str, ...] = ()) -> onnx.ModelProto:
    """Q, DQ, Conv, Relu, Q, DQ, then the operators of `behind`, which no Q/DQ follow."""
    kind, levels, zero = FORMS[form]
    scalar = np.float16 if kind == TensorProto.FLOAT16 else np.float32
    constants = {"s": np.array(0.02, scalar), "z": np.array(zero, levels), "w": np.full((8, 8, 3, 3), 0.01, scalar)}
    nodes: List[Any] = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"], name="xq"),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"], name="xd"),
        helper.make_node("Conv", ["xd", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["rq"], name="rq"),
        helper.make_node("DequantizeLinear", ["rq", "s", "z"], ["rd"], name="rd"),
    ]
    last = "rd"
    for operator in behind:
        nodes.append(helper.make_node(operator, [last], [operator.lower()], name=operator.lower()))
        last = operator.lower()
    nodes[-1].output[0] = "y"
    ends = [helper.make_tensor_value_info(name, kind, [1, 8, 16, 16]) for name in "xy"]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def findings(report: Any) -> Dict[str, List[str]]:
    return {x.name: [f.rule for f in x.findings] for x in report.layers}


@pytest.mark.parametrize("form", FORMS)
def test_every_layer_of_a_model_in_qdq_is_unknown(form: str) -> None:
    report = edgedla.check(quantised(form), target="agx-orin-64gb", jetpack="7.2.2", cost=True)
    assert {str(x.support) for x in report.layers} == {"unknown"}
    assert {name: rules for name, rules in findings(report).items() if name in ("xq", "conv", "relu")} == {
        "xq": ["QDQ001"],
        "conv": ["GEN009"],
        "relu": ["GEN009"],
    }
    said = " ".join(render_check([report], "text").split())
    assert "UNDECIDED: No layer is known to run on the DLA" in said
    assert "fp16-tensors" not in said
    assert "check --on-device drift.yaml" in said


@pytest.mark.parametrize(
    ("form", "behind", "rule", "remedy"),
    [
        ("int8", ("Sigmoid",), "GEN007", "fp16-beside-qdq"),
        ("uint8", ("Sigmoid", "Tanh"), "GEN007", "fp16-beside-qdq"),
        ("int8-fp16", ("Sigmoid",), None, None),
    ],
)
def test_what_no_qdq_follows_has_the_type_of_its_tensors(
    form: str, behind: Tuple[str, ...], rule: Optional[str], remedy: Optional[str]
) -> None:
    report = edgedla.check(quantised(form, behind), target="agx-orin-64gb", jetpack="7.2.2")
    last = report.layers[-1]
    assert [f.rule for f in last.findings] == ([rule] if rule else [])
    assert [fix for f in last.findings for fix in f.fixes] == ([remedy] if remedy else [])
    assert findings(report)["conv"] == ["GEN009"]


@pytest.mark.parametrize("mode", ["strict", "standalone"])
@pytest.mark.parametrize("form", FORMS)
def test_builds_without_fallback_are_unknown_too_whatever_their_constants(form: str, mode: str) -> None:
    platform: Dict[str, Any] = {"target": "agx-orin-64gb", "mode": mode}
    answer = edgedla.check(quantised(form), jetpack="7.2.2", **platform).strict
    assert answer is not None
    assert (answer.passes, answer.offenders) == (None, ())
    older = edgedla.check(quantised("int8"), trt="10.3", **platform).strict
    assert older is not None
    assert older.passes is False
    assert "s" in older.offenders, "the scale, a constant"


def test_up_to_tensorrt_10_the_layers_between_are_as_ever() -> None:
    report = edgedla.check(quantised("int8"), target="agx-orin-64gb", trt="10.3", precision="int8")
    assert findings(report)["xq"] == ["NEVR004"]
    assert "GEN009" not in findings(report)["conv"]
