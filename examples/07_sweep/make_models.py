"""Writes zoo/: eight small networks of different activations, and one more with --more. Weights are ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "Elu", "Erf", "LeakyRelu", "Softplus", "HardSigmoid")


def network(activation: str, channels: int = 16) -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones((channels, channels, 3, 3), np.float32), "w")
    shape = [1, channels, 32, 32]
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node(activation, ["c"], ["y"], name=activation.lower()),
        ],
        activation,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


zoo = Path("zoo")
zoo.mkdir(exist_ok=True)
for activation in (*ACTIVATIONS, *(("Selu",) if "--more" in sys.argv else ())):
    onnx.save(network(activation), str(zoo / f"conv_{activation.lower()}.onnx"))
