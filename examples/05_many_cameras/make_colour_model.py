"""Writes colour.onnx: which of red, green and blue a picture of 32x32 holds most of. Its weights follow from the task.

python make_colour_model.py OUT.onnx
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper


def main() -> None:
    # The mean of each channel by two poolings that the DLA takes (windows up to 8), then one against the mean of the others.
    weights = (1.5 * np.eye(3) - 0.5).astype(np.float32).reshape(3, 3, 1, 1) * 20
    nodes = [
        helper.make_node("AveragePool", ["image"], ["p1"], name="pool1", kernel_shape=[8, 8], strides=[8, 8]),
        helper.make_node("AveragePool", ["p1"], ["p2"], name="pool2", kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Conv", ["p2", "w"], ["scores"], name="compare"),
    ]
    values = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("image", [1, 3, 32, 32]), ("scores", [1, 3, 1, 1]))
    ]
    graph = helper.make_graph(nodes, "colour", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
