"""Where NVIDIA's parser deviates from ONNX: the layers follow the parser, and a note says so."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.importers.onnx_models import constant, ints, model, one, output_dims, value, weights

OLD, NEW = (8, 6), (10, 3)
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
GRU = one("GRU", {"hidden_size": 4, "layout": 1}, dims=(3, 5, 2), initializers=[weights("w", 1, 12, 2), weights("r", 1, 12, 4)])
UNEVEN = model(
    [helper.make_node("Split", ["x"], ["y", "z"], name="n", axis=1, num_outputs=2)], [value("x", [1, 5])], ["y", "z"], opset=18
)


def resize(**attributes):
    scales = constant("s", np.array([1, 1, 0.5, 0.5], np.float32))
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], name="n", mode="linear", **attributes)]
    return model(nodes, [value("x", [1, 3, 8, 8])], ["y"], [scales], opset=18)


def scatter(op, **attributes):
    nodes = [helper.make_node(op, ["x", "i", "u"], ["y"], name="n", **attributes)]
    return model(
        nodes, [value("x", [4, 8]), value("i", [2, 2], 7), value("u", [2, 2] if op != "ScatterND" else [2])], ["y"], opset=18
    )


def note(proto, trt):
    return "; ".join(n for n in load_onnx(proto, trt=trt).notes if "the parser" in n)


@pytest.mark.parametrize(
    ("proto", "trt", "told"),
    [
        (one("ReduceMean", initializers=[ints("a", 2, 3)], opset=18), OLD, "ignores the axes input"),
        (one("ReduceMean", initializers=[ints("a", 2, 3)], opset=18), NEW, ""),
        (one("ReduceMean", {"axes": [2, 3]}), OLD, ""),
        (one("ReduceMean", initializers=[ints("a", 0, 1, 2, 3)], opset=18), OLD, ""),
        (one("ReduceMean", initializers=[ints("a")], opset=18), OLD, ""),
        (one("ReduceMean", {"noop_with_empty_axes": 1}, initializers=[ints("a")], opset=18), OLD, "ignores the axes"),
        (one("ReduceSum", initializers=[ints("a", 1)], opset=18), OLD, ""),
        (one("ReduceLogSumExp", initializers=[ints("a", 1)], opset=18), NEW, "ignores the axes input"),
        (one("Shape", {"start": 1}, out_type=7), OLD, "ignores start and end"),
        (one("Shape", {"start": 1}, out_type=7), NEW, ""),
        (UNEVEN, OLD, "drops the rest"),
        (resize(antialias=1), OLD, "ignores antialias"),
        (resize(keep_aspect_ratio_policy="not_larger"), OLD, "stretches"),
        (resize(), OLD, ""),
        (scatter("ScatterND", reduction="add"), OLD, "ignores reduction"),
        (scatter("ScatterElements", reduction="mul"), OLD, "ignores reduction"),
        (scatter("ScatterElements", reduction="none"), OLD, ""),
        (scatter("ScatterElements", reduction="mul"), NEW, ""),
        (one("LpPool", {**POOL}, dims=(1, 1, 6, 6), opset=18), OLD, "ignores ceil_mode"),
        (one("LpPool", {**POOL}, dims=(1, 1, 6, 6), opset=18), NEW, ""),
        (UNEVEN, NEW, ""),
        (GRU, NEW, "ignores layout=1"),
        (one("MaxPool", {**POOL, "pads": [0, 0, 1, 1]}, dims=(1, 1, 6, 6)), NEW, ""),
        (one("MaxPool", {**POOL, "pads": [1, 1, 1, 1]}, dims=(1, 1, 5, 5)), NEW, ""),
        (one("MaxPool", {**POOL, "pads": [0, 0, 2, 2]}, dims=(1, 1, 6, 6)), NEW, "starts in the padding"),
    ],
)
def test_a_parser_departure_from_onnx_is_noted_only_where_it_matters(proto, trt, told):
    found = note(proto, trt)
    assert told in found
    assert bool(found) == bool(told)


def test_many_nodes_share_one_note():
    nodes = [helper.make_node("ReduceMax", [f"t{i}", "a"], [f"t{i + 1}"], name=f"max{i}") for i in range(3)]
    proto = model(nodes, [value("t0", [2, 3])], ["t3"], [ints("a", 1)], opset=18)
    assert note(proto, OLD).startswith("'max0' and 2 more [ReduceMax]: the parser ignores")


def test_a_refusal_caused_by_a_departure_names_it():
    nodes = [
        helper.make_node("ReduceMean", ["x", "a"], ["m"], name="mean", keepdims=1),
        helper.make_node("Reshape", ["m", "s"], ["y"], name="flat"),
    ]
    proto = model(nodes, [value("x", [1, 8, 4, 4])], ["y"], [ints("a", 2, 3), ints("s", 1, 8)], opset=18)
    assert output_dims(proto, NEW) == {"y": (1, 8)}
    with pytest.raises(ModelError, match=r"changes volume(.|\n)*'mean' \[ReduceMean\]: the parser ignores the axes"):
        load_onnx(proto, trt=OLD)


def test_reduction_axes_without_data_count_as_given():
    axes = constant("a", np.array([2, 3], np.int64))
    axes.ClearField("raw_data")
    assert "ignores the axes input" in note(one("ReduceMean", initializers=[axes], opset=18), OLD)
