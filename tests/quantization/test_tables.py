"""Tables of the room against what they are about: sizes of types, constants of nodes, operators without arithmetic."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgedla.importers.model_file.float32_types import own_types
from edgedla.quantization.qdq.nodes import constants_of
from edgedla.quantization.session_memory import BITS
from tests.models import node, onnx_model


@pytest.mark.parametrize("number", sorted(BITS))
def test_bits_of_a_type_are_those_that_onnx_stores(number: int) -> None:
    """8 elements, packed as in a file. Text has no size of its own, and BFLOAT16 and FLOAT8 have no type in NumPy."""
    if number not in TensorProto.DataType.values():
        pytest.skip("this onnx does not know the type")
    name = TensorProto.DataType.Name(number)
    if name == "STRING":
        return
    stated = {"BFLOAT16": 16, "BOOL": 8, "COMPLEX64": 64, "COMPLEX128": 128, "FLOAT": 32, "DOUBLE": 64}
    digits = list(name.replace("FLOAT8", "FLOAT_8").replace("FLOAT4", "FLOAT_4").split("_"))
    bits = stated.get(name) or int("".join(c for c in digits[-1].split("E")[0] if c.isdigit()) or 0)
    assert BITS[number] == bits


@pytest.mark.parametrize(
    ("attribute", "value", "found"),
    [
        ("value", numpy_helper.from_array(np.array([1.5, 2.5], np.float32)), [1.5, 2.5]),
        ("value_float", 1.5, 1.5),
        ("value_floats", [1.5, 2.5], [1.5, 2.5]),
        ("value_int", 3, 3),
        ("value_ints", [3, 4], [3, 4]),
        ("value_string", "text", None),
    ],
)
def test_the_tensor_of_each_form_of_a_constant(attribute: str, value: object, found: object) -> None:
    constant = helper.make_node("Constant", [], ["c"], **{attribute: value})
    constants = constants_of(onnx_model([constant, node("Add", "x c", "y")]))
    assert {name: numpy_helper.to_array(tensor).tolist() for name, tensor in constants.items()} == (
        {} if found is None else {"c": found}
    )


@pytest.mark.parametrize("op", ["Shape", "Size"])
def test_arithmetic_on_sizes_is_no_activation_in_double(op: str) -> None:
    """Exporters compute sizes in DOUBLE: nothing of the network is to be converted for that."""
    nodes = [
        node(op, "x", "s"),
        node("Cast", "s", "d", to=TensorProto.DOUBLE),
        node("Mul", "d h", "m"),
        node("Cast", "m", "i", to=TensorProto.INT64),
        node("ReduceSum", "i", "k", keepdims=0),
        node("Cast", "k", "f", to=1),
        node("Mul", "x f", "y"),
    ]
    half = numpy_helper.from_array(np.array(0.5, np.float64), "h")
    model = onnx.shape_inference.infer_shapes(onnx_model(nodes, {"x": (1, 3, 8, 8)}, ("y",), [half]))
    assert not own_types(model)
