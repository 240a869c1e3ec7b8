"""Numbers and types that the parser's operators look up, against what onnx and NumPy say of the same."""

from __future__ import annotations

import math
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx, shape_tensor
from edgedla.importers.context import Refused
from edgedla.importers.model_file import tensor_data
from edgedla.importers.model_file.annotate import PREFIX, annotated
from edgedla.importers.network.partial import OPERATIONS
from edgedla.importers.ops.activations import TYPE_RANGE
from edgedla.importers.ops.control_flow.recurrent_layer import ACTIVATIONS
from tests.frozen import changeable
from tests.importers.onnx_models import constant, ints, model, one, output_dims, value


@pytest.mark.parametrize(("name", "kind"), [("FLOAT", "f4"), ("HALF", "f2"), ("INT32", "i4"), ("INT64", "i8")])
def test_the_range_of_a_type_is_numpys(name: str, kind: str) -> None:
    info: Any = np.finfo(kind) if kind[0] == "f" else np.iinfo(kind)
    assert TYPE_RANGE[name] == (info.min, info.max)


@pytest.mark.parametrize("name", ["LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Elu"])
def test_an_activation_of_a_recurrent_layer_has_its_operators_defaults(name: str) -> None:
    """So the ONNX specification of RNN, GRU and LSTM says. What an operator has not is 0."""
    attributes = onnx.defs.get_schema(name).attributes
    defaults = [attributes[key].default_value.f if key in attributes else 0.0 for key in ("alpha", "beta")]
    assert ACTIVATIONS[name][1:] == pytest.approx(defaults)


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5), (1, 9), (-1, 9)])
def test_sizes_are_divided_toward_zero_and_stay_whole(a: int, b: int) -> None:
    found = OPERATIONS["DIV"](a, b)
    assert (type(found), found) == (int, math.trunc(a / b))
    assert OPERATIONS["FLOOR_DIV"](a, b) == math.floor(a / b)


@pytest.mark.parametrize(("count", "read"), [(4, True), (5, False)])
def test_weights_above_the_most_are_not_read(count: int, read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_data, "MAX_READ_FLOATS", 4)
    ctx: Any = None
    data = tensor_data.TensorReader(ctx, None, "m.onnx")
    proto = helper.make_tensor("w", TensorProto.FLOAT, [count], [1.0] * count)
    assert (data.load(proto, (count,), "FLOAT") is not None) is read


@pytest.mark.parametrize("at", [0, 1])
def test_one_hot_takes_no_uint8(at: int) -> None:
    kinds = [TensorProto.INT32, TensorProto.FLOAT]
    kinds[at] = TensorProto.UINT8
    proto = model(
        [helper.make_node("OneHot", ["x", "d", "v"], ["y"], name="n")],
        [value("x", [4], kinds[0]), value("v", [2], kinds[1])],
        ["y"],
        [constant("d", np.int32(3))],
    )
    with pytest.raises(ModelError, match="UINT8|uint8|type"):
        load_onnx(proto, trt=(10, 3))


def test_top_k_without_k_is_refused_and_with_it_says_where_k_came_from() -> None:
    def made(*names: str) -> Any:
        node = helper.make_node("TopK", ["x", *names], ["y", "i"], name="n", axis=1)
        return model([node], [value("x", [1, 8, 4, 4])], ["y"], [ints("k", 3)])

    (layer,) = (each for each in load_onnx(made("k"), trt=(10, 3)).layers if each.type == "TOPK")
    assert (layer.params["k"], layer.params["k_from_tensor"]) == (3, True)
    with pytest.raises(ModelError, match="Expects two input tensors"):
        load_onnx(made(), trt=(10, 3))


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
def test_the_scales_of_a_resize_stand_where_its_operator_set_puts_them(opset: int) -> None:
    """Second up to 10, third from 11 on, after the region of interest."""
    given = [constant("roi", np.zeros(0, np.float32))] if opset >= 11 else []
    scales = constant("scales", np.array([1, 1, 2, 3], np.float32))
    assert output_dims(one("Resize", {"mode": "nearest"}, initializers=[*given, scales], opset=opset)) == {"y": (1, 8, 32, 48)}


@pytest.mark.parametrize(("indices", "taken"), [([0], [7]), ([2, 0], [9, 7]), ([3], None), ([-1], None), ([0, 3], None)])
def test_an_index_beyond_a_vector_of_sizes_is_refused(indices: List[int], taken: Any) -> None:
    ctx: Any = None
    at = shape_tensor.ShapeTensor(list(indices), True, 1, len(indices))
    sizes = shape_tensor.ShapeTensor([7, 8, 9], True, 1, 3)
    if taken is None:
        with pytest.raises(Refused, match="gather index out of range"):
            shape_tensor.gather(ctx, sizes, at)
    else:
        assert shape_tensor.gather(ctx, sizes, at).values == taken


def test_an_annotated_model_is_the_same_model_with_its_notes() -> None:
    proto = one("Relu")
    data = b"".join(annotated(proto.SerializeToString(), {"target": "orin"}, [{"device": "DLA0", "why": "\udcff"}]))
    read = onnx.ModelProto.FromString(data)
    assert {p.key: p.value for p in read.metadata_props} == {f"{PREFIX}target": "orin"}
    assert {p.key: p.value for p in read.graph.node[0].metadata_props} == {f"{PREFIX}device": "DLA0", f"{PREFIX}why": "?"}
    # Written again, the old notes go.
    again = onnx.ModelProto.FromString(b"".join(annotated(data, {}, [{}])))
    assert again == proto


def test_what_was_read_of_a_model_is_not_changed_afterwards() -> None:
    assert changeable("importers") == {"OnnxFile", "Window"}
