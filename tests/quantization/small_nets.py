"""Small networks and feeds for the tests of this folder."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from edgedla.quantization.samples import Samples
from tests.models import onnx_model

SHAPE = (1, 3, 4, 4)


def net(
    nodes: Sequence[Any],
    weights: Mapping[str, np.ndarray],
    outputs: Sequence[str] = ("y",),
    shape: Sequence[Any] = SHAPE,
    opset: int = 17,
) -> Any:
    return onnx_model(nodes, {"x": list(shape)}, {name: list("abcd") for name in outputs}, weights, opset=opset)


def feeds(*values: np.ndarray) -> Samples:
    return Samples(tuple({"x": v.astype(np.float32)} for v in values), False, "test")
