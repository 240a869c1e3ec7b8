"""For a model that TensorRT's parser refuses, the error says what would make the parser accept it."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from tests.models import node, onnx_model

IMAGE = (1, 4, 8, 8)
ONE, ZERO, MIDDLE = np.float32(0.1), np.int8(0), np.uint8(128)


def with_node(operator: str, inputs: str, constants: Dict[str, Any], opset: int = 17, **attributes: Any) -> Any:
    return onnx_model([node(operator, inputs, "y", name="n", **attributes)], {"x": IMAGE}, {"y": None}, constants, opset=opset)


CHANNELS = {name: np.ones(4, np.float32) for name in ("s", "b", "m", "v")}


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        (with_node("BatchNormalization", "x s b m v", CHANNELS, training_mode=1), "model.eval() in PyTorch; of one that"),
        (with_node("Dropout", "x r t", {"r": np.float32(0.5), "t": np.bool_(True)}), "model.eval() in PyTorch"),
        (with_node("QuantizeLinear", "x s z", {"s": ONE, "z": MIDDLE}), "quantise symmetrically: ActivationSymmetric"),
        (
            with_node("Resize", "x  s", {"s": np.array([1, 1, 0.5, 0.5], np.float32)}, 18, antialias=1, mode="linear"),
            "leave antialias out",
        ),
        (
            with_node("QLinearMatMul", "x s z w s z s z", {"s": ONE, "z": ZERO, "w": np.ones((8, 8), np.int8)}),
            "with Q/DQ nodes: quant_format=QuantFormat.QDQ in ONNX Runtime",
        ),
        (with_node("DynamicQuantizeLinear", "x", {}), "before dynamic quantisation"),
        (with_node("SoftmaxCrossEntropyLoss", "x l", {"l": np.zeros((1, 8, 8), np.int64)}), "without its loss"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.graph.node[0].op_type,
)
def test_a_parser_refusal_has_a_hint(model: Any, hint: str) -> None:
    with pytest.raises(ModelError, match="TensorRT's ONNX parser refuses the model") as caught:
        load_onnx(model, trt="10.3")
    assert hint in str(caught.value.hint)
    assert str(caught.value.hint).endswith("as seen in the parser of TensorRT 10.3")
