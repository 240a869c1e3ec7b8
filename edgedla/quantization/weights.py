"""Weights as the DLA quantises them: the axis of the output channels, and the range of each channel."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

#: Operators whose weight the DLA holds in INT8, one scale per output channel: operator -> axis of the output channels.
INT8_WEIGHT_AXIS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 0, "MatMul": 1}


def channel_axis(node: Any, slot: int, rank: int) -> Optional[int]:
    """Output channel axis of the constant that an ONNX node reads as input `slot`; None if it is not a weight."""
    if slot != 1 or rank < 2 or node.op_type not in INT8_WEIGHT_AXIS:
        return None
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    if node.op_type == "MatMul":
        return rank - 1
    return INT8_WEIGHT_AXIS[node.op_type]


def per_channel_absmax(values: np.ndarray, axis: int) -> np.ndarray:
    """max |w| of each slice along `axis`: (channels,), in the type of `values`."""
    moved = np.moveaxis(np.abs(values), axis, 0)
    result: np.ndarray = moved.reshape(len(moved), -1).max(axis=1)
    return result
