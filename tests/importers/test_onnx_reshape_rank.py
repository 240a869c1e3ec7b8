"""A Reshape whose target shape is too long to fold: refused by its length, not after taking the memory."""

from __future__ import annotations

import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from tests.models import onnx_model  # noqa: E402


@pytest.mark.parametrize("trt", [(8, 6), (10, 3)])
def test_a_shape_of_2_to_the_41_entries_is_refused(trt: tuple) -> None:
    doublings = [helper.make_node("Concat", [f"a{i}", f"a{i}"], [f"a{i + 1}"], axis=0) for i in range(40)]
    model = onnx_model(
        [*doublings, helper.make_node("Reshape", ["x", "a40"], ["y"])],
        {"x": (1, 8, 4, 4)},
        {"y": None},
        [helper.make_tensor("a0", TensorProto.INT64, [2], [1, 1])],
        opset=17,
    )
    with pytest.raises(ModelError, match=f"{2**41} dimensions, TensorRT allows 8"):
        load_onnx(model.SerializeToString(), trt=trt)
