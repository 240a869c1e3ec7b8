"""One operator at a time: the layers that the parser makes of it, and their properties that decide where they can run."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from edgedla.errors import ModelError, UsageError
from edgedla.importers import load_onnx
from tests.importers.onnx_models import VERSIONS, constant, ints, model, one, output_dims, types, value, weights

# fmt: off
#: What, model, layer types; the same in both lowerings.
SAME = [
    ("convolution", one("Conv", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, initializers=[weights("w", 4, 8, 3, 3)]),
     ["CONVOLUTION"]),
    ("1-D convolution as 2-D", one("Conv", dims=(1, 8, 20), initializers=[weights("w", 4, 8, 3)]),
     ["SHUFFLE", "CONVOLUTION", "SHUFFLE"]),
    ("transposed convolution", one("ConvTranspose", {"strides": [2, 2]}, initializers=[weights("w", 8, 4, 2, 2)]),
     ["DECONVOLUTION"]),
    ("batch normalization", one("BatchNormalization", initializers=[weights(n, 8) for n in "sbmv"]), ["SCALE"]),
    ("activation", one("LeakyRelu", {"alpha": 0.2}), ["ACTIVATION"]),
    ("SiLU is two layers", model([helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])],
                                 [value("x", [1, 8, 4, 4])], ["y"]), ["ACTIVATION", "ELEMENTWISE"]),
    ("clip to 6 is an activation", one("Clip", initializers=[constant("lo", np.float32(0)), constant("hi", np.float32(6))]),
     ["ACTIVATION"]),
    ("max pooling", one("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}), ["POOLING"]),
    ("the same tensor twice", model([helper.make_node("Add", ["x", "x"], ["y"])], [value("x", [1, 8])], ["y"]),
     ["ELEMENTWISE"]),
    ("operands of different rank", one("Add", inputs=[("b", (8, 1, 1))]), ["SHUFFLE", "ELEMENTWISE"]),
    ("concatenation", one("Concat", {"axis": 1}, inputs=[("b", (1, 2, 16, 16))]), ["CONCATENATION"]),
    ("concatenation of one", one("Concat", {"axis": 1}), ["CONCATENATION"]),
    ("split into slices", model([helper.make_node("Split", ["x"], ["y", "z"], axis=1)], [value("x", [1, 8, 4, 4])],
                                ["y", "z"], opset=13), ["SLICE", "SLICE"]),
    ("dropout leaves nothing at work", one("Dropout"), ["IDENTITY"]),
    ("reduction", one("ReduceMean", {"axes": [2, 3]}), ["REDUCE"]),
    ("reduction of squares", one("ReduceSumSquare", {"axes": [1]}), ["ELEMENTWISE", "REDUCE"]),
    ("reshape by a constant", one("Reshape", initializers=[ints("s", 0, -1)]), ["SHUFFLE"]),
    ("shape arithmetic folds away", model(
        [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["b"]),
         helper.make_node("Unsqueeze", ["b", "axes"], ["bu"]), helper.make_node("Concat", ["bu", "rest"], ["t"], axis=0),
         helper.make_node("Reshape", ["x", "t"], ["y"])],
        [value("x", [2, 8, 4, 4])], ["y"], [constant("zero", np.int64(0)), ints("axes", 0), ints("rest", -1)]), ["SHUFFLE"]),
    ("nearest resize", one("Resize", {"mode": "nearest"}, initializers=[
        constant("roi", np.zeros(0, np.float32)), constant("scales", np.array([1, 1, 2, 2], np.float32))]), ["RESIZE"]),
    ("matrix product with weights", one("MatMul", dims=(2, 8), initializers=[weights("w", 8, 4)]), ["MATRIX_MULTIPLY"]),
    ("fully connected", one("Gemm", {"transB": 1}, dims=(2, 8), initializers=[weights("w", 4, 8), weights("b", 4)]),
     ["MATRIX_MULTIPLY", "ELEMENTWISE"]),
    ("an unused node stays", model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["x"], ["z"])],
                                   [value("x", [1, 8])], ["y"]), ["ACTIVATION", "UNARY"]),
    ("quantize and dequantize", model(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
        [value("x", [1, 8, 4, 4])], ["y"], [constant("s", np.float32(0.1)), constant("z", np.int8(0))]),
     ["QUANTIZE", "DEQUANTIZE"]),
    ("an input that is an output", model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1, 8])], ["y", "x"]),
     ["ACTIVATION", "IDENTITY"]),
]

#: What, model, layer types of 8.6, layer types of 10.3; None: refused.
CHANGED = [
    ("GELU is an operator since 10.3", one("Gelu", opset=20), None, ["ACTIVATION"]),
    ("instance normalization", one("InstanceNormalization", initializers=[weights("s", 8), weights("b", 8)]),
     ["PLUGIN_V2"], ["NORMALIZATION"]),
]

#: What, model, layer type, parameters, in both lowerings.
PARAMETERS = [
    ("pads before and after", one("Conv", {"kernel_shape": [3, 3], "pads": [0, 1, 1, 2], "strides": [2, 1], "group": 2},
                                  initializers=[weights("w", 4, 4, 3, 3)]), "CONVOLUTION",
     {"kernel": [3, 3], "stride": [2, 1], "pre_padding": [0, 1], "post_padding": [1, 2], "groups": 2, "nb_output_maps": 4}),
    ("weights tell the kernel", one("Conv", initializers=[weights("w", 4, 8, 5, 3)]), "CONVOLUTION", {"kernel": [5, 3]}),
    ("ceil_mode is a padding mode", one("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}), "POOLING",
     {"padding_mode": "EXPLICIT_ROUND_UP", "op": "MAX"}),
    ("padding does not count", one("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), "POOLING",
     {"average_count_excludes_padding": True, "op": "AVERAGE"}),
    ("padding counts", one("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}), "POOLING",
     {"average_count_excludes_padding": False}),
    ("pads are computed for SAME_UPPER", one("Conv", {"auto_pad": "SAME_UPPER", "kernel_shape": [3, 3], "strides": [2, 2]},
                                            initializers=[weights("w", 4, 8, 3, 3)]), "CONVOLUTION",
     {"padding_mode": "SAME_UPPER"}),
    ("default slope", one("LeakyRelu"), "ACTIVATION", {"op": "LEAKY_RELU", "alpha": 0.01}),
    ("both bounds", one("Clip", initializers=[constant("lo", np.float32(-1)), constant("hi", np.float32(3))]), "ACTIVATION",
     {"op": "CLIP", "alpha": -1.0, "beta": 3.0}),
    ("negative axis", one("Concat", {"axis": -1}, inputs=[("b", (1, 8, 16, 2))]), "CONCATENATION", {"axis": 3}),
    ("permutation", one("Transpose", {"perm": [0, 2, 3, 1]}), "SHUFFLE", {"first_transpose": [0, 2, 3, 1]}),
    ("axes of a reduction", one("ReduceMean", {"axes": [-1, 2], "keepdims": 0}), "REDUCE",
     {"op": "AVG", "axes": [2, 3], "keep_dims": False}),
    ("axis of softmax", one("Softmax", {"axis": 1}), "SOFTMAX", {"axes": [1]}),
]

#: What, model, dims of y with the dynamic ones as -1.
DIMS = [
    ("convolution over a dynamic batch", one("Conv", {"kernel_shape": [3, 3]}, dims=("n", 8, 16, 16),
                                              initializers=[weights("w", 4, 8, 3, 3)]), (-1, 4, 14, 14)),
    ("pooling over dynamic height", one("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, dims=(1, 8, "h", 16)), (1, 8, -1, 8)),
    ("flattened dynamic batch", one("Flatten", dims=("n", 8, 4, 4)), (-1, 128)),
    ("view(x.size(0), -1)", model(
        [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "zero"], ["b"]),
         helper.make_node("Unsqueeze", ["b", "axes"], ["bu"]), helper.make_node("Concat", ["bu", "rest"], ["t"], axis=0),
         helper.make_node("Reshape", ["x", "t"], ["y"])],
        [value("x", ["n", 8, 4, 4])], ["y"], [constant("zero", np.int64(0)), ints("axes", 0), ints("rest", -1)]), (-1, 128)),
    ("an unknown multiple of the batch", model(
        [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["s", "zero", "one"], ["b"]),
         helper.make_node("Mul", ["b", "two"], ["m"]), helper.make_node("Concat", ["m", "rest"], ["t"], axis=0),
         helper.make_node("Reshape", ["x", "t"], ["y"])],
        [value("x", ["n", 8, 4, 4])], ["y"], [ints("zero", 0), ints("one", 1), ints("two", 2), ints("rest", 4, -1)]),
     (-1, 4, -1)),
    ("dynamic batch of a product", one("MatMul", dims=("n", 8), initializers=[weights("w", 8, 4)]), (-1, 4)),
]
# fmt: on

ids = {"ids": lambda v: v.replace(" ", "_") if isinstance(v, str) else ""}


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
@pytest.mark.parametrize(("what", "proto", "expected"), SAME, **ids)
def test_layers_in_both_lowerings(what, proto, expected, trt):
    assert types(proto, trt) == expected


@pytest.mark.parametrize(("what", "proto", "before", "since"), CHANGED, **ids)
def test_layers_that_differ_between_the_lowerings(what, proto, before, since):
    for trt, expected in (((8, 6), before), ((10, 3), since)):
        if expected is None:
            with pytest.raises(ModelError, match="refuses"):
                load_onnx(proto, trt=trt)
        else:
            assert types(proto, trt) == expected


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
@pytest.mark.parametrize(("what", "proto", "kind", "expected"), PARAMETERS, **ids)
def test_layer_parameters_that_decide_placement_are_imported(what, proto, kind, expected, trt):
    layer = next(layer for layer in load_onnx(proto, trt=trt).layers if layer.type == kind)
    found = {name: layer.params.get(name) for name in expected}
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in found.items()}
    assert plain == pytest.approx(expected) if all(isinstance(v, float) for v in expected.values()) else plain == expected


@pytest.mark.parametrize("trt", VERSIONS, ids=str)
@pytest.mark.parametrize(("what", "proto", "expected"), DIMS, **ids)
def test_dynamic_dims_stay_dynamic(what, proto, expected, trt):
    assert output_dims(proto, trt) == {"y": expected}


@pytest.mark.parametrize(
    ("trt", "lowering"),
    [
        ((8, 2, 1), ("8.4", "8.2")),
        ((8, 4, 1), ("8.4", "")),
        ("8.5.2", ("8.5", "")),
        ((8, 6), ("8.6", "")),
        ((10, 0), ("10.0", "")),
        ("10.1", ("10.0", "10.1")),
        ([10, 3, 0], ("10.3", "")),
        ((10, 7), ("10.7", "")),
        ((10, 8), ("10.7", "10.8")),
        ((11, 4, 1), ("10.10", "11.4")),
    ],
)
def test_an_unobserved_release_uses_the_newest_older_observed_parser(trt, lowering):
    graph = load_onnx(one("Relu"), trt=trt)
    assert (graph.lowering, graph.stands_in_for) == lowering


@pytest.mark.parametrize("trt", ["", "ten", "10.x", (), (10, -3)])
def test_an_invalid_release_is_refused(trt):
    with pytest.raises(UsageError, match="is not a TensorRT version"):
        load_onnx(one("Relu"), trt=trt)


def test_a_release_of_other_than_numbers_is_refused():
    with pytest.raises(UsageError, match="trt: .* of type tuple of NoneType and str"):
        load_onnx(one("Relu"), trt=("10", None))


@pytest.mark.parametrize(
    ("trt", "opset", "newest"),
    [("8.2", 14, 13), ("8.4.1", 14, 13), ("8.5", 18, 17), ("8.5", 17, 0), ("10.3", 21, 20), ("10.7", 22, 0), ("11.4", 26, 25)],
)
def test_a_model_newer_than_the_parser_is_noted(trt, opset, newest):
    notes = [n for n in load_onnx(one("Relu", opset=opset), trt=trt).notes if "opset" in n]
    assert notes == [] if not newest else f"opset {opset} is newer than {newest}," in notes[0]
