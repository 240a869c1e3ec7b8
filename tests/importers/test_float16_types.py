"""FLOAT models converted to FLOAT16: what becomes FLOAT16, what stays FLOAT, where Casts stand, and that both compute the same."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
import onnx.version_converter
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.importers.model_file.float16_tensors import HALF
from edgedla.importers.model_file.float16_types import Halved, in_float16
from edgedla.quantization.session import open_session
from tests.amounts import examples
from tests.models import constant, node, onnx_model


def weights(*dims: int, scale: float = 0.2) -> np.ndarray:
    return (np.random.default_rng(sum(dims)).standard_normal(dims) * scale).astype(np.float32)


def net(nodes: List[Any], outputs: Dict[str, Tuple[int, ...]], constants: Dict[str, np.ndarray], opset: int = 17) -> Any:
    return onnx_model(nodes, {"x": (1, 4, 8, 8)}, outputs, {"w": weights(4, 4, 3, 3), **constants}, opset=opset)


def conv(source: str, result: str) -> Any:
    return node("Conv", f"{source} w", result, name=f"to_{result}", pads=[1, 1, 1, 1])


def test_constants_of_an_old_file_need_not_be_inputs() -> None:
    """Before IR 4 they have to: the conversion to a newer operator set missed those that had become FLOAT16."""
    model = net([conv("x", "y")], {"y": (1, 4, 8, 8)}, {}, opset=8)
    model.ir_version = 3
    model.graph.input.extend([onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [4, 4, 3, 3])])
    halved = in_float16(model)
    assert halved is not None
    onnx.version_converter.convert_version(halved.model, 17)


def converted(model: Any, **options: Any) -> Halved:
    halved = in_float16(model, **options)
    assert halved is not None
    onnx.checker.check_model(halved.model, full_check=True)
    return halved


def casts(model: Any) -> List[Tuple[str, int]]:
    return [(n.input[0], n.attribute[0].i) for n in model.graph.node if n.op_type == "Cast"]


def outputs(model: Any, x: np.ndarray) -> List[np.ndarray]:
    narrow = model.graph.input[0].type.tensor_type.elem_type == HALF
    session = open_session(model.SerializeToString(), optimize=False)
    return [np.asarray(v) for v in session.run(None, {"x": x.astype(np.float16) if narrow else x})]


def test_casts_stand_at_the_ends_alone_and_weights_are_converted_once() -> None:
    model = net([conv("x", "a"), node("Relu", "a", "r"), conv("r", "y")], {"y": (1, 4, 8, 8)}, {})
    halved = converted(model)
    assert casts(halved.model) == [("x", HALF), ("y_fp16", 1)]
    assert [(t.name, t.data_type) for t in halved.model.graph.initializer] == [("w", HALF)], "it keeps its name"
    assert (halved.nodes, halved.of, halved.kept, halved.interface) == (3, 3, (), ())
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    assert np.allclose(outputs(halved.model, x)[0], outputs(model, x)[0], rtol=4e-3, atol=4e-3)


def test_without_own_ends_inputs_and_outputs_become_float16() -> None:
    halved = converted(net([conv("x", "y")], {"y": (1, 4, 8, 8)}, {}), own_ends=False)
    assert casts(halved.model) == []
    assert halved.interface == ("x takes FLOAT16, before FLOAT", "y gives FLOAT16, before FLOAT")


def test_scales_of_resize_integers_and_shapes_are_not_touched() -> None:
    nodes = [
        conv("x", "a"),
        onnx.helper.make_node("Resize", ["a", "", "scales"], ["u"], mode="nearest"),
        node("Shape", "u", "s"),
        node("Gather", "s two", "rows"),
        node("Reshape", "u target", "y"),
    ]
    constants = {"scales": np.array([1, 1, 2, 2], np.float32), "two": np.array([2]), "target": np.array([1, -1])}
    model = net(nodes, {"y": (1, 1024), "rows": (1,)}, constants)
    model.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    halved = converted(model)
    kinds = {t.name: t.data_type for t in halved.model.graph.initializer}
    assert (kinds["scales"], kinds["w"], kinds["two"]) == (1, HALF, 7)
    assert len(casts(halved.model)) == 2, "Shape reads the form that is there"
    assert np.array_equal(outputs(halved.model, np.ones((1, 4, 8, 8), np.float32))[1], [16])


def test_a_constant_that_both_types_read_has_both_forms_and_a_kept_node_its_casts() -> None:
    nodes = [conv("x", "a"), node("Mul", "a k", "b", name="large"), node("Mul", "b k", "c"), conv("c", "y")]
    model = net(nodes, {"y": (1, 4, 8, 8)}, {"k": np.array(2, np.float32)})
    halved = converted(model, keep={"b": "values up to 1e+06"})
    assert {t.name: t.data_type for t in halved.model.graph.initializer} == {"w": HALF, "k": 1, "k_fp16": HALF}
    assert casts(halved.model) == [("x", HALF), ("a", 1), ("b", HALF), ("y_fp16", 1)]
    assert halved.kept == (("large", "values up to 1e+06"),)
    assert "FLOAT stay large (values up to 1e+06)" in halved.text


def test_weights_beyond_the_range_are_clamped_and_named() -> None:
    model = net(
        [conv("x", "a"), node("Mul", "a k", "b"), node("Add", "b tiny", "y")],
        {"y": (1, 4, 8, 8)},
        {"k": np.array(1e6, np.float32), "tiny": np.array(1e-9, np.float32)},
    )
    halved = converted(model)
    assert (halved.clamped, halved.vanished) == (("k",), ("tiny",))
    assert "clamped in k" in halved.text
    assert "become 0 in tiny" in halved.text


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        ([conv("x", "a"), node("CumSum", "a axis", "y")], 11),
        ([conv("x", "a"), node("NonZero", "a", "n"), node("Cast", "n", "y", to=1)], 17),
    ],
)
def test_what_onnx_has_no_float16_for_stays_float(nodes: List[Any], opset: int) -> None:
    model = net(nodes, {"y": (1, 4, 8, 8)}, {"axis": np.array(1)}, opset)
    if nodes[1].op_type == "NonZero":
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.ClearField("shape")
    halved = in_float16(model)
    assert halved is not None
    assert halved.nodes >= 1
    x = np.random.default_rng(3).standard_normal((1, 4, 8, 8)).astype(np.float32)
    assert np.allclose(outputs(halved.model, x)[0], outputs(model, x)[0], rtol=1e-2, atol=1e-2)


def test_values_that_subgraphs_read_stay_float() -> None:
    branch = onnx.helper.make_graph(
        [node("Relu", "a", "r")], "then", [], [onnx.helper.make_tensor_value_info("r", 1, (1, 4, 8, 8))]
    )
    other = onnx.helper.make_graph(
        [node("Neg", "a", "n")], "else", [], [onnx.helper.make_tensor_value_info("n", 1, (1, 4, 8, 8))]
    )
    model = net(
        [conv("x", "a"), node("If", "yes", "i", then_branch=branch, else_branch=other), conv("i", "y")],
        {"y": (1, 4, 8, 8)},
        {"yes": np.array(True)},
    )
    halved = converted(model)
    x = np.random.default_rng(4).standard_normal((1, 4, 8, 8)).astype(np.float32)
    assert np.allclose(outputs(halved.model, x)[0], outputs(model, x)[0], rtol=1e-2, atol=1e-2)


def test_models_with_float16_or_quantisation_or_without_float_data_are_left_alone() -> None:
    assert in_float16(converted(net([conv("x", "y")], {"y": (1, 4, 8, 8)}, {})).model) is None
    quantised = net(
        [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "d"), conv("d", "y")],
        {"y": (1, 4, 8, 8)},
        {"s": np.array(0.1, np.float32)},
    )
    assert in_float16(quantised) is None
    integers = onnx_model([node("Add", "x x", "y")], {"x": (2,)}, {"y": (2,)}, [])
    for value in (*integers.graph.input, *integers.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.INT64
    assert in_float16(integers) is None


_STEPS = ("Relu", "Sigmoid", "Mul", "Add", "Concat", "MaxPool", "Cast", "Identity", "Constant")


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.sampled_from(_STEPS), min_size=1, max_size=7), st.sets(st.integers(0, 7)), st.booleans())
def test_any_chain_computes_the_same_in_both_types(steps: List[str], kept: Any, own_ends: bool) -> None:
    """Whatever stays FLOAT, the model is sound and within FLOAT16's rounding."""
    nodes, at, keep = [conv("x", "v0")], "v0", {}
    for i, step in enumerate(steps, 1):
        new = f"v{i}"
        if step == "Concat":
            nodes += [node("Concat", f"{at} {at}", f"{new}_two", axis=1), node("Slice", f"{new}_two zero four one", new)]
        elif step == "Constant":
            nodes += [node("Constant", "", f"{new}_c", value=constant("", np.float32([0.5]))), node("Mul", f"{at} {new}_c", new)]
        elif step in ("Mul", "Add"):
            nodes.append(node(step, f"{at} k", new))
        elif step == "MaxPool":
            nodes.append(node(step, at, new, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        else:
            nodes.append(node(step, at, new, **({"to": 1} if step == "Cast" else {})))
        keep.update({new: "asked"} if i in kept else {})
        at = new
    constants = {"k": np.float32([0.75]), "zero": np.array([0]), "four": np.array([4]), "one": np.array([1])}
    model = net([*nodes, node("Relu", at, "y")], {"y": (1, 4, 8, 8), "v0": (1, 4, 8, 8)}, constants)
    halved: Optional[Halved] = in_float16(model, keep, own_ends)
    assert halved is not None
    onnx.checker.check_model(halved.model, full_check=True)
    x = np.random.default_rng(5).standard_normal((1, 4, 8, 8)).astype(np.float32)
    for got, expected in zip(outputs(halved.model, x), outputs(model, x)):
        assert np.linalg.norm(got.astype(np.float64) - expected) <= 5e-3 * max(np.linalg.norm(expected), 1e-6)


@pytest.mark.parametrize("read_twice", [False, True])
def test_a_listed_type_of_a_constant_becomes_float16_too(read_twice: bool) -> None:
    """onnx-ir, so torch's exporter and `fix`, list constants in value_info; ONNX Runtime refused the conversion of such a model."""
    nodes = [conv("x", "a"), node("Relu", "a", "y")]
    keep = {}
    if read_twice:
        nodes, keep = [conv("x", "a"), conv("a", "y")], {"y": "asked"}
    model = net(nodes, {"y": (1, 4, 8, 8)}, {})
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("w", 1, (4, 4, 3, 3)))
    halved = converted(model, keep=keep)
    x = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)
    assert np.allclose(outputs(halved.model, x)[0], outputs(model, x)[0], rtol=1e-2, atol=1e-2)
