"""Arithmetic of the predicates at values that distinguish each of its terms."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import pytest

from edgedla.graph.kinds.convolution import Convolution
from edgedla.graph.kinds.elementwise import Elementwise
from edgedla.graph.kinds.pooling import Pooling
from edgedla.rules.apply import element_bytes_of
from edgedla.rules.predicates import conv_buffer_fits, operand_dims_fit, padding_below_kernel
from edgedla.targets import platform_for


def banks(element_bytes: int = 2, kernels: int = 1, **conv: Any) -> Tuple[int, int]:
    """(banks of weights, banks of data) of a convolution, with one entry in a bank."""
    failure = conv_buffer_fits(Convolution(**conv), element_bytes, max_banks=-1, bank_entries=1, kernels=kernels)
    assert failure is not None
    return failure["weight_banks"], failure["data_banks"]


WIDE: Dict[str, Any] = {"in_dims": (1, 64, 8, 16), "kernel": (3, 3), "groups": 1, "dilation": (1, 1)}


@pytest.mark.parametrize(
    ("change", "element_bytes", "kernels", "expected"),
    [
        # ceil(64 * 9 * 2 / 128) weights; ceil(64 * 2 / 32) * 16 / 4 = 16 entries a row, three rows.
        ({}, 2, 1, (9, 48)),
        ({}, 1, 1, (5, 24)),
        # Kernels hold all channels whatever their group, but no more than all weights of the layer.
        ({"groups": 2, "out_channels": 64}, 2, 1, (9, 48)),
        ({"groups": 2, "out_channels": 64}, 2, 16, (144, 48)),
        ({"groups": 16, "out_channels": 64}, 2, 16, (36, 48)),
        ({"groups": 64, "out_channels": 64}, 2, 16, (9, 48)),
        # Only the vertical dilation makes the window taller.
        ({"dilation": (2, 1)}, 2, 1, (9, 80)),
        ({"dilation": (1, 2)}, 2, 1, (9, 48)),
        ({"kernel": (5, 3)}, 2, 1, (15, 80)),
        ({"kernel": (3, 5)}, 2, 1, (15, 48)),
        # A kernel group: 16 in FP16, twice as many in INT8.
        ({}, 2, 16, (144, 48)),
        ({}, 1, 16, (144, 24)),
        ({"in_dims": (1, 17, 8, 16)}, 2, 1, (3, 24)),
    ],
)
def test_convolution_banks_at_their_boundaries(
    change: Dict[str, Any], element_bytes: int, kernels: int, expected: Tuple[int, int]
) -> None:
    assert banks(element_bytes, kernels, **{**WIDE, **change}) == expected


@pytest.mark.parametrize(
    ("large", "small", "forms"),
    [
        ((2, 8, 4, 4), (2, 8, 1, 1), {"NC11"}),
        ((2, 8, 4, 4), (1, 8, 1, 1), set()),
        ((2, 8, 4, 4), (2, 1, 1, 1), {"N111"}),
        ((2, 8, 4, 4), (1, 1, 1, 1), {"N111"}),
        ((2, 8, 4, 4), (2, 1, 4, 4), set()),
        # Leading ones where the ranks differ: one value per channel of a 3-D tensor.
        ((8, 4, 4), (8, 1, 1), {"NC11"}),
        ((8, 4, 4), (1,), {"N111"}),
        ((1, 8, 4, 4), (8, 1, 1), {"NC11"}),
        ((2, 8, 4, 4), (8, 1, 1), set()),
        ((8, 4, 4), (4,), set()),
        # All dims before C, H and W are batch.
        ((3, 2, 8, 4, 4), (3, 2, 1, 1, 1), {"N111"}),
        ((3, 2, 8, 4, 4), (3, 1, 1, 1, 1), set()),
        ((3, 2, 8, 4, 4), (3, 2, 8, 1, 1), {"NC11"}),
        # Two dims have no channel axis of their own.
        ((8, 4), (1, 4), set()),
        ((8, 4), (8, 1), set()),
        ((8, 4), (1, 1), {"N111"}),
    ],
)
def test_broadcast_forms_of_an_operand_are_recognised(large: Tuple[int, ...], small: Tuple[int, ...], forms: set) -> None:
    for a, b in ((large, small), (small, large)):
        kind = Elementwise(a_dims=a, b_dims=b)
        assert {f for f in ("N111", "NC11") if operand_dims_fit(kind, 2, [f]) is None} == forms
    assert operand_dims_fit(Elementwise(a_dims=large, b_dims=large), 2, []) is None


@pytest.mark.parametrize(
    ("trt", "dtype", "precision", "expected"),
    [
        ("10.3", "FLOAT", "fp16", 2),
        ("10.3", "FLOAT", "int8", 1),
        ("11.4.1", "INT8", "fp16", 1),
        ("11.4.1", "HALF", "int8", 2),
        ("11.4.1", "FLOAT", "int8", 2),
    ],
)
def test_element_bytes_follow_the_tensor_type_from_tensorrt_11_on(trt: str, dtype: str, precision: str, expected: int) -> None:
    platform = platform_for("agx-orin-64gb", trt=trt)
    assert element_bytes_of(Convolution(in_dtype=dtype), platform, precision) == expected


@pytest.mark.parametrize(("padding", "fits"), [(2, True), (3, False)])
def test_padding_below_kernel_without_dilation_at_its_boundary(padding: int, fits: bool) -> None:
    pooling = Pooling(window=(3, 3), pre_padding=(0, 0), post_padding=(padding, 0))
    failure = padding_below_kernel(pooling, 2, dilated=True)
    assert failure == (None if fits else {"padding": 3, "extent": 3})
