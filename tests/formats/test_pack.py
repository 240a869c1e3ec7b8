"""Packing: layout against an index-by-index reference, round trips, rounding and saturation, padding."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.errors import UsageError
from edgedla.formats.layout import layout
from edgedla.formats.pack import dequantize, pack, quantize, unpack
from edgedla.formats.tensor_format import TensorFormat
from tests.amounts import examples

F = TensorFormat


def reference_offset(format, dims, chip, element_bytes, n, c, h, w):
    """Byte offset of one element and the buffer's size, from the formulas of NvInfer.h, written without the library."""
    big_n, big_c, big_h, big_w = dims
    if format is F.LINEAR:
        return (((n * big_c + c) * big_h + h) * big_w + w) * element_bytes, big_n * big_c * big_h * big_w * element_bytes
    if format is F.DLA_LINEAR:
        row = -(-big_w * element_bytes // 64) * 64
        return ((n * big_c + c) * big_h + h) * row + w * element_bytes, big_n * big_c * big_h * row
    if format is F.DLA_HWC4:
        per_pixel = (1 if big_c == 1 else 4) * element_bytes
        align = 32 if chip == "xavier" else 64
        row = -(-big_w * per_pixel // align) * align
        return (n * big_h + h) * row + w * per_pixel + c * element_bytes, big_n * big_h * row
    v = {F.CHW4: 4, F.CHW16: 16, F.CHW32: 32}[format]
    groups = (big_c + v - 1) // v
    at = ((((n * groups + c // v) * big_h + h) * big_w + w) * v + c % v) * element_bytes
    return at, big_n * groups * big_h * big_w * v * element_bytes


@st.composite
def cases(draw):
    format = draw(st.sampled_from(list(F)))
    channels = st.sampled_from([1, 3, 4]) if format is F.DLA_HWC4 else st.integers(1, 70)
    dims = (draw(st.integers(1, 3)), draw(channels), draw(st.integers(1, 5)), draw(st.integers(1, 40)))
    return format, draw(st.sampled_from(["HALF", "INT8"])), dims, draw(st.sampled_from(["xavier", "orin"]))


@settings(max_examples=examples(120), deadline=None)
@given(cases(), st.integers(1, 3))
def test_pack_puts_every_element_where_the_reference_says_and_zeroes_the_rest(case, threads):
    format, dtype, dims, chip = case
    each = 2 if dtype == "HALF" else 1
    rng = np.random.default_rng(sum(dims))
    values = rng.integers(1, 100, dims).astype(np.float16 if dtype == "HALF" else np.int8)
    where = layout(format, dtype, dims, chip=chip)
    expected = bytearray(reference_offset(format, dims, chip, each, 0, 0, 0, 0)[1])
    for index in np.ndindex(*dims):
        at, _ = reference_offset(format, dims, chip, each, *index)
        expected[at : at + each] = values[index].tobytes()
    packed = pack(values, where, threads=threads)
    assert packed.tobytes() == bytes(expected)
    assert where.size_bytes == len(expected)
    dirty = np.full(where.size_bytes, 0xA5, np.uint8)
    pack(values, where, out=dirty, threads=threads)
    assert dirty.tobytes() == bytes(expected)
    np.testing.assert_array_equal(unpack(bytes(expected), where, threads=threads), values)


def test_large_tensors_shared_between_threads_round_trip():
    values = np.arange(64 * 160 * 161).reshape(1, 64, 160, 161).astype(np.int8)
    where = layout(F.CHW32, "INT8", values.shape)
    assert where.size_bytes > 1024 * 1024
    np.testing.assert_array_equal(pack(values, where, threads=4), pack(values, where))
    np.testing.assert_array_equal(unpack(pack(values, where), where, threads=4), values)


@pytest.mark.parametrize("format", [F.LINEAR, F.CHW32])
def test_unpacked_values_do_not_share_memory_with_the_buffer(format):
    where = layout(format, "INT8", (1, 32, 2, 2))
    store = pack(np.ones(where.dims, np.int8), where)
    values = unpack(store, where)
    store[...] = 7
    assert (values == 1).all()


def test_views_of_other_strides_are_read_in_place():
    image_hwc = np.random.default_rng(0).integers(-128, 128, (6, 9, 3)).astype(np.int8)
    chw = image_hwc.transpose(2, 0, 1)[None]
    where = layout(F.DLA_HWC4, "INT8", chw.shape, chip="orin")
    np.testing.assert_array_equal(pack(chw, where), pack(np.ascontiguousarray(chw), where))


def round_half_away(x: Fraction) -> int:
    whole = abs(x.numerator) * 2 + x.denominator
    magnitude = whole // (2 * x.denominator)
    return magnitude if x >= 0 else -magnitude


def test_ties_round_away_from_zero_and_their_neighbours_do_not():
    ties = np.arange(-140, 140, dtype=np.float32) + np.float32(0.5)
    around = np.concatenate([ties, np.nextafter(ties, np.float32(1e9)), np.nextafter(ties, np.float32(-1e9))])
    expected = [min(127, max(-128, round_half_away(Fraction(float(x))))) for x in around]
    assert quantize(around, 1.0).tolist() == expected
    assert quantize(np.array([0.5, 1.5, 2.5, -0.5, -2.5]), 1.0).tolist() == [1, 2, 3, -1, -3]


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(-1e6, 1e6, width=32), st.floats(2.0**-12, 1024.0, width=32))
def test_quantize_is_the_exact_rounding_of_the_fp32_quotient(value, scale):
    quotient = np.float32(value) / np.float32(scale)
    expected = min(127, max(-128, round_half_away(Fraction(float(quotient)))))
    assert quantize(np.array([value], np.float32), scale).tolist() == [expected]


def test_quantize_saturates_and_nan_is_zero():
    values = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0], np.float32)
    assert quantize(values, 0.1).tolist() == [127, -128, 0, 127, -128, 0]


def test_scale_round_trip_is_within_half_a_step():
    rng = np.random.default_rng(1)
    values = rng.uniform(-4, 4, (1, 40, 3, 5)).astype(np.float32)
    scale = 4 / 127
    where = layout(F.CHW32, "INT8", values.shape)
    back = unpack(pack(values, where, scale=scale), where, scale=scale)
    assert back.dtype == np.float32
    assert np.abs(back - values).max() <= scale / 2 * 1.0001


def test_dequantize_is_a_product():
    assert dequantize(np.array([-128, 3], np.int8), 0.5).tolist() == [-64.0, 1.5]


def test_fp32_to_fp16_overflows_to_infinity_without_a_warning():
    where = layout(F.CHW16, "HALF", (1, 1, 1, 2))
    assert unpack(pack(np.array([[[[1e6, 1.0]]]], np.float32), where), where).tolist() == [[[[np.inf, 1.0]]]]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_no_scale_is_refused(scale):
    with pytest.raises(UsageError, match="scale"):
        quantize(np.zeros(1, np.float32), scale)


def test_pack_refuses_wrong_shapes_types_and_missing_scales():
    where = layout(F.CHW32, "INT8", (1, 3, 4, 5))
    with pytest.raises(UsageError, match="shape"):
        pack(np.zeros((1, 3, 4, 6), np.int8), where)
    with pytest.raises(UsageError, match="scale"):
        pack(np.zeros((1, 3, 4, 5), np.float32), where)
    with pytest.raises(UsageError, match="without loss"):
        pack(np.zeros((1, 3, 4, 5), np.int32), where, scale=1.0)
    with pytest.raises(UsageError, match="bytes"):
        unpack(b"123", where)
    with pytest.raises(UsageError, match="bytes"):
        pack(np.zeros((1, 3, 4, 5), np.int8), where, out=np.zeros(3, np.uint8))
    with pytest.raises(UsageError, match="writable"):
        pack(np.zeros((1, 3, 4, 5), np.int8), where, out=np.frombuffer(bytes(where.size_bytes), np.uint8))
    with pytest.raises(UsageError, match="belongs to INT8"):
        unpack(bytes(640), layout(F.CHW16, "HALF", (1, 3, 4, 5)), scale=1.0)


FORK = """
import os
import numpy as np
from edgedla.formats.layout import layout
from edgedla.formats.pack import pack
from edgedla.formats.tensor_format import TensorFormat

values = np.zeros((1, 64, 160, 160), np.int8)
where = layout(TensorFormat.CHW32, "INT8", values.shape)
pack(values, where, threads=2)
child = os.fork()
if child == 0:  # the parent's pool exists here without its threads
    pack(values, where, threads=2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_child_packs_with_its_own_threads():
    # A process of its own: this one has the threads of other tests, and a fork of it may hang or die by them.
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


@pytest.mark.parametrize("dtype", ["FLOAT", "HALF", "INT8"])
@pytest.mark.parametrize("format", [F.LINEAR, F.DLA_LINEAR, F.DLA_HWC4, F.CHW4, F.CHW16, F.CHW32])
@pytest.mark.parametrize("width", [5, 64])
def test_some_rows_leave_the_others_as_they_are(format, dtype, width):
    held = layout(format, dtype, (1, 3, 7, width), chip="orin")
    array = np.random.default_rng(0).integers(-100, 100, held.dims).astype(unpack(bytes(held.size_bytes), held).dtype)
    whole = pack(array, held)
    out = np.full(held.size_bytes, 77, np.uint8)
    some = pack(array[:, :, 2:5], held, out=out, top=2)
    assert np.shares_memory(some, out)
    assert np.array_equal(some[:, :, 2:5], whole[:, :, 2:5])
    others = np.delete(some, slice(2, 5), axis=2)
    assert set(others.view(np.uint8).ravel().tolist()) == {77}
    with pytest.raises(UsageError, match="shape"):
        pack(array[:, :, 2:5], held, out=out, top=5)
