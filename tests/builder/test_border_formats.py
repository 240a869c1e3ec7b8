"""The format and type of a tensor between two stages, by its writer and its readers."""

from __future__ import annotations

from typing import List

import pytest

from edgedla.builder.chain.border_formats import _format
from edgedla.formats import parse_io_formats


def io(text: str) -> object:
    return parse_io_formats(text)[0]


@pytest.mark.parametrize(
    ("linear", "rank", "ends", "typed", "scaled", "expected"),
    [
        ("fp32:chw", 4, [["fp16"], ["fp16"]], False, False, "fp16:chw16"),
        ("fp16:chw", 4, [["fp16"], ["fp16"]], False, False, "fp16:chw16"),
        ("fp16:chw", 4, [["int8"], ["int8"]], False, True, "int8:chw32"),
        ("fp16:chw", 4, [["int8"], ["int8"]], False, False, "fp16:chw16"),
        # Written in FP16: INT8 only where every reader takes it so.
        ("fp32:chw", 4, [["fp16"], ["int8"], ["int8"]], False, True, "int8:chw32"),
        ("fp32:chw", 4, [["fp16"], ["int8"], ["fp16"]], False, True, "fp16:chw16"),
        ("fp32:chw", 4, [["gpu"], ["gpu"]], False, True, "fp32:chw"),
        ("fp32:chw", 3, [["fp16"], ["fp16"]], False, False, "fp32:chw"),
        # Types that the DLA does not compute in keep the model's.
        ("int32:chw", 4, [["fp16"], ["gpu"]], False, False, "int32:chw"),
        ("int8:chw", 4, [["fp16"], ["gpu"]], False, False, "int8:chw32"),
        ("fp16:chw", 4, [["fp16"], ["fp16"]], True, False, "fp16:chw16"),
        ("fp16:chw", 4, [["fp16"], ["gpu"]], True, False, "fp16:chw"),
    ],
)
def test_border_formats_follow_type_scale_and_neighbours(
    linear: str, rank: int, ends: List[List[str]], typed: bool, scaled: bool, expected: str
) -> None:
    assert _format(io(linear), rank, ends, typed, scaled) == io(expected)
