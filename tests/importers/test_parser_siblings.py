"""Variants of the recorded operators: as in onnx-tensorrt's source, before and after 10.3 alike."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.importers.onnx_models import constant, ints, model, one, types, value

pytestmark = pytest.mark.once

OLD, NEW = (8, 6), (10, 3)
INT64 = TensorProto.INT64


def gather(op, kind):
    rank = {"Gather": [2], "GatherElements": [1, 2], "GatherND": [1, 2]}[op]
    nodes = [helper.make_node(op, ["x", "i"], ["y"], name="n")]
    return model(nodes, [value("x", [4, 8]), value("i", rank, kind)], ["y"])


@pytest.mark.parametrize(
    ("op", "kind", "expected"),
    [
        ("Gather", INT64, ["CAST", "GATHER"]),
        ("Gather", TensorProto.INT32, ["GATHER"]),
        ("GatherElements", TensorProto.INT32, ["CAST", "GATHER"]),
        ("GatherND", TensorProto.INT32, ["CAST", "GATHER"]),
    ],
)
def test_gather_casts_indices_by_operator_and_type(op, kind, expected):
    assert types(gather(op, kind), NEW) == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, ["SHAPE", "CAST"]),
        ({"start": 0}, ["SHAPE", "CAST"]),
        ({"start": -10, "end": 10}, ["SHAPE", "CAST"]),
        ({"end": 4}, ["SHAPE", "CAST"]),
        ({"start": 1}, ["SHAPE", "CAST", "SLICE"]),
        ({"start": 2, "end": 1}, ["SHAPE", "CAST", "SLICE"]),
    ],
)
def test_shape_with_start_and_end_has_a_slice_only_if_partial(attributes, expected):
    proto = one("Shape", attributes, dims=("n", 8, 4, 4), out_type=INT64)
    assert types(proto, NEW) == expected


def test_a_vector_times_a_batch_of_matrices_is_refused():
    def vector_first(batch):
        nodes = [helper.make_node("MatMul", ["x", "b"], ["y"], name="n")]
        return model(nodes, [value("x", [4]), value("b", [batch, 4, 3])], ["y"])

    assert types(vector_first(1), NEW) == ["SHUFFLE", "MATRIX_MULTIPLY", "SHUFFLE"]
    for trt in (OLD, NEW):
        with pytest.raises(ModelError, match="changes volume"):
            load_onnx(vector_first(2), trt=trt)


def test_lp_pooling_rounds_up_since_10():
    proto = one("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, dims=(1, 1, 5, 5), opset=18)
    modes = {t: next(x for x in load_onnx(proto, trt=t).layers if x.type == "POOLING").params["padding_mode"] for t in (OLD, NEW)}
    assert modes == {OLD: "EXPLICIT_ROUND_DOWN", NEW: "EXPLICIT_ROUND_UP"}


@pytest.mark.parametrize(
    ("mode", "expected"), [("bilinear", "LINEAR"), ("bicubic", "CUBIC"), ("linear", "NEAREST"), ("cubic", "NEAREST")]
)
def test_gridsample_knows_only_the_older_mode_names(mode, expected):
    graph = load_onnx(one("GridSample", {"mode": mode}, inputs=[("grid", (1, 4, 4, 2))], opset=20), trt=NEW)
    assert graph.layers[-1].params["mode"] == expected
    assert bool([n for n in graph.notes if "does not know the mode" in n]) == (expected == "NEAREST")


def test_range_accepts_vectors_of_one_element_only():
    nodes = [helper.make_node("Range", ["x", "b", "d"], ["y"], name="n")]
    proto = model(nodes, [value("x", [1], INT64), value("b", [1], INT64)], ["y"], [ints("d", 1)], out_type=INT64)
    assert types(proto, NEW).count("SHUFFLE") == types(proto, NEW).count("FILL") + 2
    wide = model(nodes, [value("x", [2], INT64), value("b", [1], INT64)], ["y"], [ints("d", 1)], out_type=INT64)
    with pytest.raises(ModelError, match="to a scalar"):
        load_onnx(wide, trt=NEW)


def test_resize_with_computed_scales_refuses_partial_axes():
    def resize(axes):
        nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], name="n", axes=axes)]
        return model(nodes, [value("x", [1, 8, 4, 4]), value("s", [len(axes)])], ["y"], opset=18)

    assert "RESIZE" in types(resize([0, 1, 2, 3]), NEW)
    with pytest.raises(ModelError, match="axes is not supported"):
        load_onnx(resize([2, 3]), trt=NEW)


def quantized(scale_dims, zero=True, dims=(4, 8), **attributes):
    initializers = [constant("s", np.full(scale_dims, 0.1, np.float32))]
    if zero:
        initializers.append(constant("z", np.zeros(scale_dims, np.int8)))
    return one("QuantizeLinear", attributes, dims=dims, initializers=initializers, opset=21, out_type=TensorProto.INT8)


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        (quantized(()), ""),
        (quantized((4,), axis=0), ""),
        (quantized((4, 2), axis=1, block_size=4), ""),
        (quantized((2, 2), axis=1), "single blocking dimension"),
        (quantized((4, 2, 1)), "Invalid rank for the scale"),
        (quantized((3,), axis=0), "number of scales"),
        (quantized((), zero=False, output_dtype=TensorProto.INT8), ""),
        (quantized((), zero=False, output_dtype=TensorProto.INT16), "unsupported data type"),
        (quantized((), zero=False, output_dtype=TensorProto.FLOAT), "invalid data type"),
        (quantized((), output_dtype=TensorProto.INT4), "Mismatch"),
        (quantized((), zero=False, dims=(4, 7), output_dtype=TensorProto.INT4), "odd last dimension"),
    ],
)
def test_quantize_scales_per_tensor_channel_and_block_are_checked(proto, reason):
    if not reason:
        assert types(proto, NEW) == ["QUANTIZE"]
        return
    with pytest.raises(ModelError, match=reason):
        load_onnx(proto, trt=NEW)


def test_tensorrts_fp8_operators_import_as_quantize_and_dequantize():
    nodes = [
        helper.make_node("TRT_FP8QuantizeLinear", ["x", "s"], ["q"], domain="trt", name="q"),
        helper.make_node("TRT_FP8DequantizeLinear", ["q", "s"], ["y"], domain="trt", name="d"),
    ]
    proto = model(nodes, [value("x", [1, 8])], ["y"], [constant("s", np.float32(0.1))])
    assert types(proto, NEW) == ["QUANTIZE", "DEQUANTIZE"]


@pytest.mark.parametrize("op", ["Mish", "HardSwish"])
def test_composed_activations_refuse_bfloat16(op):
    nodes = [helper.make_node(op, ["x"], ["y"], name="n")]
    proto = model(nodes, [value("x", [1, 8], TensorProto.BFLOAT16)], ["y"], out_type=TensorProto.BFLOAT16)
    with pytest.raises(ModelError, match="is supported for the"):
        load_onnx(proto, trt=NEW)
