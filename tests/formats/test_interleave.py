"""Interleaving with OpenCV and with NumPy gives the same bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.formats import TensorFormat, layout
from edgedla.formats import interleave as module
from edgedla.formats import pack as packing
from edgedla.formats.interleave import WORTH_BYTES, parts_of_rows, transpose
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


@pytest.mark.parametrize("kind", ["<f2", "<f4", "i1"])
def test_parts_of_rows_are_moved_bit_by_bit(kind):
    source = np.random.default_rng(2).integers(0, 256, (6, 5 * np.dtype(kind).itemsize), np.uint8).view(kind)
    target = np.zeros((2, 3, 9), kind)
    parts_of_rows(target, 2, 7)[...] = parts_of_rows(source, 0, 5)
    assert target[..., 2:7].tobytes() == source.tobytes()
    assert not target[..., :2].any()
    assert not target[..., 7:].any()


@pytest.mark.parametrize("cached_bytes", [1, 200, 1 << 20])
@pytest.mark.parametrize("opencv", [True, False])
def test_what_stays_in_the_cache_changes_no_byte(opencv, cached_bytes, monkeypatch):
    where = layout(TensorFormat.CHW16, "HALF", (2, 19, 7, 5))
    values = np.random.default_rng(3).standard_normal(where.dims).astype(np.float16)
    values[0, 18, 6, 4], values[1, 0, 0, 0] = -0.0, np.nan
    monkeypatch.setattr(packing, "CACHED_BYTES", cached_bytes)
    with using(opencv):
        assert unpack(pack(values, where), where).tobytes() == values.tobytes()
