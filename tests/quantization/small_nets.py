"""Small networks and feeds for the tests of this folder."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from edgedla.quantization.samples import Samples

SHAPE = (1, 3, 4, 4)


def net(
    nodes: Sequence[Any],
    weights: Mapping[str, np.ndarray],
    outputs: Sequence[str] = ("y",),
    shape: Sequence[Any] = SHAPE,
    opset: int = 17,
) -> Any:
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, list("abcd")) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def feeds(*values: np.ndarray) -> Samples:
    return Samples(tuple({"x": v.astype(np.float32)} for v in values), False, "test")
