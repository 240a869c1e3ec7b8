"""Axis of the output channels of each operator's weight, against the shape of the operator's result."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest
from onnx import helper

from edgedla.quantization.weights import channel_axis, per_channel_absmax


@pytest.mark.parametrize(
    ("op", "attributes", "dims", "axis"),
    [
        ("Conv", {}, (8, 3, 5, 5), 0),
        ("ConvTranspose", {}, (3, 8, 5, 5), 1),
        # Gemm is x @ w: its columns are the output; transB stores them as rows.
        ("Gemm", {}, (3, 8), 1),
        ("Gemm", {"transB": 0}, (3, 8), 1),
        ("Gemm", {"transB": 1}, (8, 3), 0),
        ("Gemm", {"transA": 1}, (3, 8), 1),
        ("MatMul", {}, (3, 8), 1),
        ("MatMul", {}, (2, 3, 8), 2),
    ],
)
def test_the_channel_axis_of_weights_is_that_of_the_output(
    op: str, attributes: Dict[str, Any], dims: Tuple[int, ...], axis: int
) -> None:
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    assert channel_axis(node, 1, len(dims)) == axis
    assert per_channel_absmax(np.ones(dims, np.float32), axis).shape == (8,)


@pytest.mark.parametrize(
    ("op", "slot", "rank"), [("Conv", 0, 4), ("Conv", 2, 1), ("Gemm", 2, 2), ("Add", 1, 4), ("MatMul", 1, 1)]
)
def test_operands_other_than_weights_have_no_channel_axis(op: str, slot: int, rank: int) -> None:
    assert channel_axis(helper.make_node(op, ["x", "w", "b"], ["y"]), slot, rank) is None


def test_per_channel_ranges_are_computed_along_the_axis() -> None:
    w = np.array([[1.0, -4.0], [-2.0, 3.0]], np.float32)
    assert per_channel_absmax(w, 0).tolist() == [4.0, 3.0]
    assert per_channel_absmax(w, 1).tolist() == [2.0, 4.0]
