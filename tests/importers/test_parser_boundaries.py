"""Numbers of the importer at their boundaries: cut indices, windows of old opsets, strides, clamped constants."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.importers.onnx_models import constant, ints, model, one, types, value, weights

INT_MAX, INT_MIN = (1 << 31) - 1, -(1 << 31)


def cut(start: int, end: int, step: int = 1, size: int = 8):
    """The SLICE of one axis by INT32 constants, which the parser of 10.x writes as numbers."""
    initializers = [constant(n, np.array([v], np.int32)) for n, v in zip("sead", (start, end, 0, step))]
    proto = one("Slice", dims=(size, 4), initializers=initializers)
    (layer,) = load_onnx(proto, trt="10.3").layers
    return layer.params["start"][0], layer.params["size"][0], layer.params["stride"][0]


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, 8, 1, (0, 8, 1)),
        (1, 7, 1, (1, 6, 1)),
        (0, 9, 1, (0, 8, 1)),
        (8, 9, 1, (8, 0, 1)),
        (9, 10, 1, (8, 0, 1)),
        (-8, INT_MAX, 1, (0, 8, 1)),
        (-9, 8, 1, (0, 8, 1)),
        (-1, 8, 1, (7, 1, 1)),
        (0, -1, 1, (0, 7, 1)),
        (0, 8, 2, (0, 4, 2)),
        (0, 7, 2, (0, 4, 2)),
        (1, 8, 3, (1, 3, 3)),
        (5, 3, 1, (5, 0, 1)),
        (7, INT_MIN, -1, (7, 8, -1)),
        (8, INT_MIN, -1, (7, 8, -1)),
        (-1, -9, -1, (7, 8, -1)),
        (7, 0, -1, (7, 7, -1)),
        (6, 0, -2, (6, 3, -2)),
        (7, 0, -3, (7, 3, -3)),
    ],
)
def test_slice_bounds_at_int32_limits_equal_numpys(start, end, step, expected):
    assert cut(start, end, step) == expected
    assert len(np.arange(8)[start:end:step]) == expected[1]


@pytest.mark.parametrize(
    ("dims", "perm", "moves"),
    [
        ((2, 1, 3), (0, 2, 1), False),
        ((1, 2, 3), (1, 0, 2), False),
        ((2, 3, 1), (0, 2, 1), False),
        ((2, 2, 3), (0, 2, 1), True),
        ((2, 1, 3), (2, 1, 0), True),
        ((2, 2), (0, 1), False),
        ((2, 2), (1, 0), True),
    ],
)
def test_8_6_transposes_only_where_data_moves(dims, perm, moves):
    (layer,) = load_onnx(one("Transpose", {"perm": list(perm)}, dims=dims), trt="8.6").layers
    assert (layer.params.get("first_transpose") == list(perm)) is moves
    assert (layer.params.get("reshape") is None) is moves


@pytest.mark.parametrize("trt", ["8.4", "8.6", "10.0", "10.3", "10.7"])
@pytest.mark.parametrize("axes", [(1, 1), (1, -1), (0, -2)])
def test_repeated_axes_of_a_slice_are_refused(trt, axes):
    numbers = [ints("s", 0, 0), ints("e", 2, 2), ints("a", *axes)]
    with pytest.raises(ModelError, match="No duplicated axes"):
        load_onnx(one("Slice", dims=(8, 4), initializers=numbers), trt=trt)
    numbers[2] = ints("a", 0, 1)
    assert load_onnx(one("Slice", dims=(8, 4), initializers=numbers), trt=trt).layers


@pytest.mark.parametrize(("channels", "groups", "fits"), [(8, 2, True), (8, 1, False), (8, 3, False), (4, 1, True)])
def test_groups_of_a_convolution_with_a_computed_kernel_have_to_fit_its_channels(channels, groups, fits):
    nodes = [
        helper.make_node("Relu", ["w"], ["k"]),
        helper.make_node("Conv", ["x", "k"], ["y"], group=groups, kernel_shape=[3, 3]),
    ]
    proto = model(nodes, [value("x", [1, channels, 8, 8]), value("w", [6, 4, 3, 3])], ["y"])
    if fits:
        assert types(load_onnx(proto, trt="10.3")) == ["ACTIVATION", "CONVOLUTION"]
        return
    with pytest.raises(ModelError, match="misalign with the channel size"):
        load_onnx(proto, trt="10.3")


@pytest.mark.parametrize(("given", "excludes"), [(0, True), (1, False), (2, True)])
def test_an_average_excludes_padding_unless_it_is_to_count(given, excludes):
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": given}
    (layer,) = load_onnx(one("AveragePool", attributes), trt="10.3").layers
    assert layer.params["average_count_excludes_padding"] is excludes


def test_a_step_of_zero_is_refused():
    with pytest.raises(ModelError, match="step of Slice is 0"):
        cut(0, 8, 0)


@pytest.mark.parametrize(
    ("opset", "mode", "out"), [(9, "EXPLICIT_ROUND_DOWN", 3), (10, "EXPLICIT_ROUND_UP", 4), (11, "EXPLICIT_ROUND_UP", 4)]
)
def test_ceil_mode_counts_from_opset_10_on(opset, mode, out):
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
    graph = load_onnx(one("MaxPool", attributes, dims=(1, 4, 7, 7), opset=opset))
    assert graph.layers[0].params["padding_mode"] == mode
    assert graph.tensors[graph.outputs[0]].dims == (1, 4, out, out)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("opset", "refused"), [(9, False), (10, True), (13, True)])
def test_pooling_dilations_are_refused_from_opset_10_on(op, opset, refused):
    proto = one(op, {"kernel_shape": [2, 2], "dilations": [2, 2]}, opset=opset)
    if refused:
        with pytest.raises(ModelError, match="dilations other than 1"):
            load_onnx(proto)
    else:
        assert types(proto) == ["POOLING"]


@pytest.mark.parametrize(
    ("dims", "shape", "stride"),
    [
        ((1, 3, 1, 5), (2, 3, 4, 5), [0, 1, 0, 1]),
        ((3, 1), (2, 3, 4), [0, 1, 0]),
        ((2, 3), (2, 3), [1, 1]),
        ((2, 1), (1, 4), [1, 0]),
    ],
)
@pytest.mark.parametrize("trt", ["8.5", "10.3"])
def test_expand_has_stride_0_along_axes_of_size_1(trt, dims, shape, stride):
    graph = load_onnx(one("Expand", dims=dims, initializers=[ints("shape", *shape)]), trt=trt)
    assert graph.layers[-1].params["stride"] == stride


@pytest.mark.parametrize(
    ("given", "expected"), [(INT_MAX, INT_MAX), (INT_MAX + 1, INT_MAX), (INT_MIN, INT_MIN), (INT_MIN - 1, INT_MIN)]
)
@pytest.mark.parametrize("count", [1, 100])
def test_constants_beyond_int32_are_clamped_before_10(count, given, expected):
    """A few are worked out in Python, many by NumPy."""
    nodes = [helper.make_node("Gather", ["c", "last"], ["g"], name="pick"), helper.make_node("Add", ["x", "g"], ["y"], name="n")]
    initializers = [ints("c", *([0] * (count - 1)), given), ints("last", count - 1)]
    graph = load_onnx(
        model(nodes, [value("x", [1], TensorProto.INT32)], ["y"], initializers, out_type=TensorProto.INT32), trt="8.6"
    )
    tensor = graph.tensors[graph.layers[-1].inputs[1]]
    assert (tensor.dtype, tensor.value.tolist()) == ("INT32", [expected])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [((4, 8), (8,), (4, 8)), ((8,), (4, 8), (4, 8)), ((2, 1, 3), (5, 1), (2, 5, 3)), ((1,), (1, 1), (1, 1)), ((), (3,), (3,))],
)
@pytest.mark.parametrize("trt", ["8.5", "10.3"])
def test_operands_of_lower_rank_get_leading_ones(trt, left, right, expected):
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], name="n")]
    graph = load_onnx(model(nodes, [value("x", left), value("z", right)], ["y"]), trt=trt)
    assert graph.tensors[graph.outputs[0]].dims == expected
    assert [layer.type for layer in graph.layers].count("SHUFFLE") == (len(left) != len(right))


def test_a_lone_dynamic_dim_is_kept_where_the_other_operand_has_one():
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], name="n")]
    graph = load_onnx(model(nodes, [value("x", ["n", 4]), value("z", [1, 4])], ["y"]))
    assert graph.tensors[graph.outputs[0]].dims == (-1, 4)


@pytest.mark.parametrize(("trt", "kind"), [("8.5", "SCALE"), ("8.4", "ELEMENTWISE")])
def test_batchnorm_in_half_precision_is_one_scale_layer_from_8_5_on(trt, kind):
    half = [constant(n, np.ones(8, np.float16)) for n in ("s", "b", "m", "v")]
    nodes = [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], name="n")]
    proto = model(nodes, [value("x", [1, 8, 4, 4], TensorProto.FLOAT16)], ["y"], half, out_type=TensorProto.FLOAT16)
    assert set(types(proto, trt)) == {kind}
    mixed = model(nodes, [value("x", [1, 8, 4, 4])], ["y"], [weights(n, 8) for n in ("s", "b", "m", "v")])
    assert types(mixed, trt) == ["SCALE"]


@pytest.mark.parametrize(("sizes", "parts"), [((3, 5), [(0, 3), (3, 5)]), ((8, 0), [(0, 8), (8, 0)]), (None, [(0, 4), (4, 4)])])
@pytest.mark.parametrize("trt", ["8.6", "10.3"])
def test_parts_of_a_split_begin_where_the_one_before_ends(trt, sizes, parts):
    given = [] if sizes is None else [ints("s", *sizes)]
    nodes = [helper.make_node("Split", ["x", *(n.name for n in given)], ["y", "z"], name="n", axis=1)]
    layers = load_onnx(model(nodes, [value("x", [2, 8, 4])], ["y", "z"], given), trt=trt).layers
    rows = [(layer.params["start"], layer.params["size"]) for layer in layers]
    assert rows == [([0, start, 0], [2, size, 4]) for start, size in parts]


def test_a_split_by_computed_sizes_leaves_its_axis_open():
    nodes = [helper.make_node("Split", ["x", "s"], ["y", "z"], name="n", axis=1)]
    proto = model(nodes, [value("x", [2, 8, 4]), value("s", [2], TensorProto.INT64)], ["y", "z"])
    graph = load_onnx(proto, trt="10.3")
    assert [graph.tensors[name].dims for name in graph.outputs] == [(2, -1, 4)] * 2


@pytest.mark.parametrize(("p", "fits"), [(0, False), (1, True), (2, True), (3, False)])
def test_pooling_by_a_norm_is_of_the_first_or_second(p, fits):
    proto = one("LpPool", {"kernel_shape": [2, 2], "p": p})
    if fits:
        assert ("UNARY", {"op": "ABS" if p == 1 else "SQRT"}) in [(x.type, x.params) for x in load_onnx(proto).layers]
        return
    with pytest.raises(ModelError, match="Only L1 and L2 normalization"):
        load_onnx(proto)


@pytest.mark.parametrize(
    ("opset", "attributes", "runs"), [(6, {"is_test": 0}, False), (6, {"is_test": 1}, True), (6, {}, True), (7, {}, True)]
)
def test_dropout_in_training_is_refused_up_to_opset_6(opset, attributes, runs):
    proto = one("Dropout", attributes, opset=opset)
    if runs:
        assert types(proto) == ["IDENTITY"]
        return
    with pytest.raises(ModelError, match="training mode"):
        load_onnx(proto)


@pytest.mark.parametrize("op", ["Add", "Div", "Greater", "Less", "Max", "Min", "Mul", "Sub"])
def test_arithmetic_of_booleans_is_refused(op):
    values = [value(name, [2, 4], TensorProto.BOOL) for name in ("x", "z")]
    proto = model([helper.make_node(op, ["x", "z"], ["y"], name="n")], values, ["y"], out_type=TensorProto.BOOL)
    with pytest.raises(ModelError, match="the given inputs with type BOOL"):
        load_onnx(proto)


@pytest.mark.parametrize("like", [False, True])
@pytest.mark.parametrize(
    ("kind", "attributes", "ends"),
    [
        ("Uniform", {}, (0.0, 1.0)),
        ("Uniform", {"low": -1.0, "high": 3.0}, (-1.0, 3.0)),
        ("Normal", {}, (0.0, 1.0)),
        ("Normal", {"mean": 2.0, "scale": 0.5}, (2.0, 0.5)),
    ],
)
def test_random_numbers_keep_their_range(kind, attributes, ends, like):
    if like:
        nodes = [helper.make_node(f"Random{kind}Like", ["x"], ["r"], name="r", **attributes)]
    else:
        nodes = [helper.make_node(f"Random{kind}", [], ["r"], name="r", shape=[2, 3], **attributes)]
    nodes.append(helper.make_node("Add", ["x", "r"], ["y"], name="n"))
    fill = load_onnx(model(nodes, [value("x", [2, 3])], ["y"])).layers[0]
    assert (fill.params["alpha"], fill.params["beta"], fill.params["dims"]) == (*ends, [2, 3])


@pytest.mark.parametrize(
    ("trt", "to", "inside", "outside"), [("8.6", "FLOAT", "FLOAT", "INT8"), ("10.3", "INT8", "INT8", "INT8")]
)
def test_8_6_knows_the_type_of_quantised_values_at_outputs_alone(trt, to, inside, outside):
    numbers = [constant("s", np.array(0.1, np.float32)), constant("z", np.array(0, np.int8))]
    quantize = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q")
    back = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="d")
    pair = load_onnx(model([quantize, back], [value("x", [1, 8])], ["y"], numbers), trt=trt)
    alone = load_onnx(model([quantize], [value("x", [1, 8])], ["q"], numbers, out_type=TensorProto.INT8), trt=trt)
    assert pair.layers[0].params["to"] == to
    assert [graph.tensors[graph.layers[0].outputs[0]].dtype for graph in (pair, alone)] == [inside, outside]


@pytest.mark.parametrize("trt", ["8.6", "10.3"])
def test_a_resize_keeps_open_sizes_open(trt):
    scales = constant("s", np.array([1, 1, 2, 1.5], np.float32))
    nodes = [helper.make_node("Resize", ["x", "", "s"], ["y"], name="n", mode="nearest")]
    graph = load_onnx(model(nodes, [value("x", [1, 3, "h", 8])], ["y"], [scales]), trt=trt)
    assert graph.tensors[graph.outputs[0]].dims == (1, 3, -1, 12)


@pytest.mark.parametrize(
    ("kernel", "said"), [([3, 3], ""), ([5, 5], "kernel_shape = .5, 5., kernel dimensions = .3, 3."), ([3, 5], "are not equal")]
)
def test_a_kernel_of_another_size_than_its_weights_is_refused(kernel, said):
    proto = one("Conv", {"kernel_shape": kernel}, dims=(1, 4, 8, 8), initializers=[weights("w", 2, 4, 3, 3)])
    if not said:
        assert types(proto) == ["CONVOLUTION"]
        return
    with pytest.raises(ModelError, match=said):
        load_onnx(proto)


@pytest.mark.parametrize(("op", "stacked", "sliced"), [("GRU", 3, [0, 1]), ("LSTM", 4, [0, 1, 2, 3])])
def test_gates_are_cut_from_the_stack_one_behind_the_other(op, stacked, sliced):
    hidden = 4
    nodes = [helper.make_node(op, ["x", "w", "r"], ["y"], name="n", hidden_size=hidden)]
    initializers = [weights("w", 1, stacked * hidden, 2), weights("r", 1, stacked * hidden, hidden)]
    layers = load_onnx(model(nodes, [value("x", [3, 1, 2])], ["y"], initializers)).layers
    starts = [layer.params["start"] for layer in layers if layer.type == "SLICE"]
    assert sorted(starts) == [[0, 0, hidden * k] for k in sliced]


@pytest.mark.parametrize(("opset", "dims", "out"), [(8, (2, 3, 4), (2, 3, 4)), (9, (3, 4), (3, 4))])
def test_a_scan_of_opset_8_has_a_batch_and_no_lengths(opset, dims, out):
    values = [value(name, [4]) for name in "abcd"]
    inside = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Identity", ["c"], ["d"])]
    body = helper.make_graph(inside, "body", values[:2], values[2:])
    names = ["", "s", "v"] if opset == 8 else ["s", "v"]
    node = helper.make_node("Scan", names, ["y", "z"], name="n", body=body, num_scan_inputs=1)
    state = value("s", [*dims[:-2], 4])
    graph = load_onnx(model([node], [state, value("v", dims)], ["y", "z"], [], opset))
    assert graph.tensors[graph.outputs[1]].dims == out
    if opset == 8:
        node.input[0] = "s"
        with pytest.raises(ModelError, match="sequence_lens"):
            load_onnx(model([node], [state, value("v", dims)], ["y", "z"], [], opset))


@pytest.mark.parametrize("masked", [False, True])
def test_a_deformable_convolution_without_a_mask_gets_one_of_ones(masked):
    """The plugin's inputs are data, offsets, mask and weights, in this order."""
    names = ["x", "w", "o", *(["", "m"] if masked else [])]
    inputs = [value("x", [1, 4, 8, 8]), value("o", [1, 18, 6, 6]), *([value("m", [1, 9, 6, 6])] if masked else [])]
    nodes = [helper.make_node("DeformConv", names, ["y"], name="n")]
    graph = load_onnx(model(nodes, inputs, ["y"], [weights("w", 2, 4, 3, 3)], 19))
    assert graph.tensors[graph.outputs[0]].dims == (1, 2, 6, 6)
    assert graph.layers[-1].params["plugin"] == "ModulatedDeformConv2d"
    data, offsets, mask, kernel = graph.layers[-1].inputs
    assert (data, offsets) == ("x", "o")
    assert mask == "m" if masked else mask in graph.tensors and mask != kernel
