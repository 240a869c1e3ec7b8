"""Types of half precision converted to FLOAT: every place that names one, and casts that become no-ops."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgedla.importers.model_file.float32_types import drop_casts, own_types, turn_types
from edgedla.quantization.session import open_session
from tests.models import constant, node, onnx_model, value
from tests.quantization.half_nets import halved

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)


def conv_net(kind: int = TensorProto.FLOAT) -> Any:
    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")]
    return onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 8, 8, 8)}, {"w": WEIGHTS}, opset=17, kind=kind)


def types_left(model: Any) -> List[int]:
    """Of all tensors, values and attributes, in bodies and functions too."""
    found: List[int] = []

    def graph(g: Any) -> None:
        found.extend(v.type.tensor_type.elem_type for v in (*g.input, *g.output, *g.value_info))
        found.extend(t.data_type for t in g.initializer)
        nodes(g.node)

    def nodes(every: Any) -> None:
        for inner in every:
            for entry in inner.attribute:
                found.extend([entry.t.data_type, entry.i if entry.name in ("to", "dtype") else 0])
                for body in (entry.g, *entry.graphs):
                    graph(body)

    graph(model.graph)
    for function in model.functions:
        nodes(function.node)
    return [kind for kind in found if kind in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)]


def test_a_half_precision_network_is_converted_including_its_ports() -> None:
    model = halved(conv_net())
    own = own_types(model)
    assert own is not None
    assert (own.names, own.nodes, own.of, own.first) == (("FLOAT16",), 2, 2, "c")
    assert turn_types(model) == ("x takes FLOAT, before FLOAT16", "y gives FLOAT, before FLOAT16")
    assert drop_casts(model) == 0
    assert types_left(model) == []
    onnx.checker.check_model(model, full_check=True)
    assert own_types(model) is None


def test_float_ports_of_a_half_network_lose_their_casts_and_keep_their_names() -> None:
    model = halved(conv_net(), keep_ends=True)
    assert turn_types(model) == ()
    assert drop_casts(model) == 2
    assert [n.op_type for n in model.graph.node] == ["Conv", "Relu"]
    assert (list(model.graph.node[0].input)[:1], list(model.graph.node[1].output)) == (["x"], ["y"])
    onnx.checker.check_model(model, full_check=True)


def test_outputs_behind_casts_keep_their_names() -> None:
    """An input that is cast to an output, a tensor behind two casts, and an output that is read on."""
    nodes = [
        node("Cast", "x", "first", to=10),
        node("Relu", "x", "inner"),
        node("Cast", "inner", "one", to=10),
        node("Cast", "one", "two", to=1),
        node("Cast", "two", "three", to=10),
        node("Relu", "three", "last"),
    ]
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {}, {}, opset=17)
    model.graph.output.extend(
        [value("first", (1, 3, 8, 8), 10), value("three", (1, 3, 8, 8), 10), value("last", (1, 3, 8, 8), 10)]
    )
    turn_types(model)
    assert drop_casts(model) == 3
    onnx.checker.check_model(model, full_check=True)
    assert [n.op_type for n in model.graph.node] == ["Identity", "Relu", "Relu"]
    x = RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32)
    first, three, last = open_session(model.SerializeToString()).run(["first", "three", "last"], {"x": x})
    assert np.array_equal(first, x)
    assert np.array_equal(three, np.maximum(x, 0))
    assert np.array_equal(last, three)


def test_branches_read_the_value_before_a_removed_cast() -> None:
    nodes = [node("Cast", "x", "h", to=10), node("ReduceMax", "h", "m", keepdims=0), node("Greater", "m zero", "c")]
    k = helper.make_node("Constant", [], ["k"], value=constant("k", np.array(2.0, np.float16)))
    then = helper.make_graph([k, node("Mul", "h k", "r")], "t", [], [value("r", None, 10)])
    other = helper.make_graph([node("Cast", "h", "f", to=10)], "e", [], [value("f", None, 10)])
    nodes.append(helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other))
    zero = constant("zero", np.array(0.0, np.float16))
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, [zero], opset=17, kind=10)
    turn_types(model)
    assert drop_casts(model) == 1
    assert types_left(model) == []
    onnx.checker.check_model(model, full_check=True)
    x = 1 + np.abs(RANDOM.standard_normal((1, 3, 8, 8)).astype(np.float32))
    assert np.array_equal(open_session(model.SerializeToString()).run(["y"], {"x": x})[0], 2 * x)


def test_every_type_attribute_is_converted() -> None:
    half = helper.make_tensor("v", 10, [1], [0.5])
    nodes = [
        node("Shape", "x", "s"),
        helper.make_node("ConstantOfShape", ["s"], ["o"], value=half),
        node("Add", "x o", "a"),
        node("RandomNormalLike", "x", "r", dtype=10),
        node("RandomUniform", "", "u", dtype=10, shape=[1]),
        node("EyeLike", "square", "e", dtype=10),
        node("Add", "a r", "y"),
    ]
    square = constant("square", np.zeros((4, 4), np.int32))
    model = onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, [square], opset=17, kind=10)
    model.graph.input[0].type.tensor_type.elem_type = 10
    turn_types(model)
    assert types_left(model) == []
    onnx.checker.check_model(model, full_check=True)


def test_functions_and_scalars_are_converted_keeping_their_shape() -> None:
    body = [helper.make_node("Constant", [], ["k"], value=constant("", np.array(2.0, np.float32))), node("Mul", "p k", "q")]
    twice = helper.make_function("own", "Twice", ["p"], ["q"], body, [helper.make_opsetid("", 17)])
    model = onnx_model(
        [node("Relu", "x", "a"), helper.make_node("Twice", ["a"], ["y"], domain="own")],
        outputs={"y": (1, 3, 8, 8)},
        opset=17,
        functions=[twice],
    )
    half = halved(model)
    assert types_left(half) != []
    turn_types(half)
    assert types_left(half) == []
    assert list(half.functions[0].node[0].attribute[0].t.dims) == []


def test_double_values_beyond_float_stay_finite() -> None:
    numbers = np.array([1e300, -1e300, np.inf, 0.1])
    model = onnx_model([node("Add", "x k", "y")], {"x": (4,)}, {"y": (4,)}, {"k": numbers}, kind=11)
    model.graph.input[0].type.tensor_type.elem_type = 11
    own = own_types(model)
    assert own is not None
    assert own.names == ("DOUBLE",)
    turn_types(model)
    largest = np.finfo(np.float32).max
    turned = numpy_helper.to_array(model.graph.initializer[0])
    assert np.array_equal(turned, np.array([largest, -largest, np.inf, 0.1], np.float32))


@pytest.mark.parametrize(
    "nodes",
    [
        # Sizes are worked out in DOUBLE; the network is FLOAT.
        [
            node("Relu", "x", "a"),
            node("Shape", "a", "s"),
            node("Cast", "s", "d", to=11),
            node("Mul", "d d", "e"),
            node("Cast", "e", "i", to=7),
            node("ConstantOfShape", "i", "z"),
            node("Identity", "a", "y"),
        ],
        # Only its input was FLOAT16.
        [node("Cast", "x", "h", to=10), node("Cast", "h", "f", to=1), node("Relu", "f", "y")],
    ],
)
def test_a_float_network_with_casts_to_other_types_is_unchanged(nodes: Any) -> None:
    assert own_types(onnx_model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 3, 8, 8)}, opset=17)) is None


@pytest.mark.parametrize(("to", "dropped"), [(TensorProto.FLOAT, 1), (TensorProto.INT32, 0), (TensorProto.FLOAT16, 0)])
def test_only_casts_from_float_to_float_are_dropped(to: int, dropped: int) -> None:
    model = onnx_model([node("Cast", "x", "c", to=to), node("Identity", "c", "y")], {"x": (1, 3)})
    assert drop_casts(model) == dropped
    assert len(model.graph.node) == 2 - dropped
