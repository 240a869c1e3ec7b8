"""Interleaving with OpenCV and with NumPy gives the same bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.formats import TensorFormat, layout
from edgedla.formats import interleave as module
from edgedla.formats.interleave import WORTH_BYTES, transpose
from edgedla.formats.pack import pack, unpack


@contextlib.contextmanager
def using(opencv: bool):
    known, worth = module._cv2, module.WORTH_BYTES
    module._cv2, module.WORTH_BYTES = (None if opencv else False), 0
    try:
        yield
    finally:
        module._cv2, module.WORTH_BYTES = known, worth


@pytest.mark.parametrize("opencv", [True, False])
@given(st.integers(1, 40), st.integers(1, 60), st.sampled_from(["i1", "u1", "f2", "f4", "f8"]))
def test_every_type_and_size_is_transposed(opencv, rows, columns, kind):
    source = np.random.default_rng(0).integers(0, 100, (rows, columns)).astype(kind)
    target = np.zeros((columns, rows), kind)
    with using(opencv):
        transpose(source, target)
    assert np.array_equal(target, source.T)


def test_large_matrices_that_are_views_are_transposed_too():
    big = np.random.default_rng(1).integers(0, 255, (64, 2 * WORTH_BYTES), np.uint8)
    target = np.zeros((WORTH_BYTES, 32), np.uint8)
    transpose(big[::2, ::2], target)
    assert np.array_equal(target, big[::2, ::2].T)


@given(
    st.sampled_from(
        [
            ("INT8", TensorFormat.CHW32),
            ("HALF", TensorFormat.CHW16),
            ("INT8", TensorFormat.DLA_HWC4),
            ("HALF", TensorFormat.DLA_HWC4),
            ("INT8", TensorFormat.DLA_LINEAR),
            ("FLOAT", TensorFormat.DLA_LINEAR),
        ]
    ),
    st.integers(1, 2),
    st.integers(1, 70),
    st.integers(1, 9),
    st.integers(1, 40),
    st.booleans(),
)
def test_packing_with_and_without_opencv_gives_the_same_buffer(kind, n, c, h, w, from_hwc):
    dtype, fmt = kind
    c = (1, 3, 4)[c % 3] if fmt is TensorFormat.DLA_HWC4 else c
    lay = layout(fmt, dtype, (n, c, h, w), chip="orin")
    numbers = np.random.default_rng(c).integers(-100, 100, (n, h, w, c) if from_hwc else (n, c, h, w))
    array = numbers.astype(np.int8 if dtype == "INT8" else np.float16)
    array = array.transpose(0, 3, 1, 2) if from_hwc else array
    with using(True):
        one = pack(array, lay)
        back = unpack(one, lay)
    with using(False):
        other = pack(array, lay)
        again = unpack(other, lay)
    assert one.tobytes() == other.tobytes()
    assert np.array_equal(back, array)
    assert np.array_equal(again, array)
