"""Layouts: sizes from the documents, strides from TensorRT's verbose log, and legal inputs."""

from __future__ import annotations

import pytest

from edgedla.errors import UsageError
from edgedla.formats.layout import layout
from edgedla.formats.tensor_format import IoFormat, TensorFormat, parse_format, parse_io_format, parse_io_formats

F = TensorFormat


@pytest.mark.parametrize(
    ("format", "dtype", "dims", "chip", "row_bytes"),
    [
        (F.DLA_HWC4, "INT8", (1, 3, 1080, 1920), "orin", 7680),
        (F.DLA_HWC4, "INT8", (1, 3, 8, 225), "xavier", 928),
        (F.DLA_HWC4, "INT8", (1, 3, 8, 225), "orin", 960),
        (F.DLA_HWC4, "HALF", (1, 4, 8, 225), "xavier", 1824),
        (F.DLA_HWC4, "INT8", (1, 1, 8, 33), "xavier", 64),
        (F.DLA_HWC4, "INT8", (1, 1, 8, 33), "orin", 64),
        (F.DLA_HWC4, "INT8", (1, 1, 8, 65), "xavier", 96),
        (F.DLA_HWC4, "INT8", (1, 1, 8, 65), "orin", 128),
        (F.DLA_LINEAR, "HALF", (1, 3, 8, 225), "orin", 512),
        (F.DLA_LINEAR, "HALF", (1, 3, 8, 225), "xavier", 512),
        (F.DLA_LINEAR, "INT8", (1, 3, 8, 225), "xavier", 256),
        (F.LINEAR, "HALF", (1, 3, 8, 225), None, 450),
        (F.CHW16, "HALF", (1, 3, 8, 225), None, 7200),
        (F.CHW32, "INT8", (1, 3, 8, 225), None, 7200),
    ],
)
def test_row_bytes_follow_the_documented_formulas(format, dtype, dims, chip, row_bytes):
    assert layout(format, dtype, dims, chip=chip).row_bytes == row_bytes


@pytest.mark.parametrize(
    ("format", "dims", "strides", "group"),
    [
        # Verbose build log of TensorRT 10.3 on AGX Orin (ResNet-50, INT8): "Autotuning format combination".
        (F.DLA_LINEAR, (1, 3, 224, 224), (172032, 57344, 256, 1), 1),
        (F.DLA_LINEAR, (1, 2048, 7, 7), (917504, 448, 64, 1), 1),
        (F.DLA_LINEAR, (1, 2048, 1, 1), (131072, 64, 64, 1), 1),
        (F.DLA_HWC4, (1, 3, 224, 224), (50176, 1, 224, 1), 4),
        (F.CHW32, (1, 3, 224, 224), (50176, 50176, 224, 1), 32),
        (F.CHW32, (1, 2048, 7, 7), (3136, 49, 7, 1), 32),
        (F.CHW32, (1, 1000, 1, 1), (32, 1, 1, 1), 32),
        (F.LINEAR, (1, 3, 224, 224), (150528, 50176, 224, 1), 1),
    ],
)
def test_strides_are_those_that_tensorrt_prints(format, dims, strides, group):
    found = layout(format, "INT8", dims, chip="orin")
    assert (found.strides_nchw, found.vector) == (strides, group)


def test_size_is_that_of_the_padded_array():
    assert layout(F.CHW32, "INT8", (2, 33, 5, 7)).size_bytes == 2 * 2 * 5 * 7 * 32
    assert layout(F.DLA_HWC4, "HALF", (2, 3, 5, 7), chip="orin").size_bytes == 2 * 5 * 8 * 4 * 2
    assert layout(F.CHW16, "HALF", (3, 1, 2)).size_bytes == 1 * 1 * 2 * 16 * 2


def test_chw4_rows_are_aligned_only_where_the_dla_reads_the_buffer_itself():
    with_fallback = layout(F.CHW4, "INT8", (1, 3, 8, 225), chip="orin")
    alone = layout(F.CHW4, "INT8", (1, 3, 8, 225), chip="orin", gpu_fallback=False)
    assert (with_fallback.row_bytes, alone.row_bytes) == (900, 960)


def test_byte_strides_step_over_padding():
    assert layout(F.DLA_HWC4, "INT8", (2, 3, 5, 225), chip="orin").stride_bytes_nchw == (960 * 5, 1, 960, 4)
    assert layout(F.CHW16, "HALF", (2, 33, 5, 7)).stride_bytes_nchw == (3 * 5 * 7 * 32, 5 * 7 * 32, 7 * 32, 32)


def test_leading_dims_multiply_into_the_batch():
    assert layout(F.CHW32, "INT8", (2, 3, 4, 5, 6)).nchw == (6, 4, 5, 6)


@pytest.mark.parametrize(
    ("format", "dtype", "dims", "chip", "reason"),
    [
        (F.DLA_HWC4, "INT8", (1, 2, 4, 4), "orin", "channels"),
        (F.DLA_HWC4, "INT8", (1, 3, 4, 4), None, "chip"),
        (F.DLA_HWC4, "INT8", (1, 3, 4, 4), "thor", "chip"),
        (F.CHW32, "INT8", (1, -1, 4, 4), "orin", "positive"),
        (F.CHW32, "INT8", (1, 0, 4, 4), "orin", "positive"),
        (F.DLA_LINEAR, "INT8", (4, 4), "orin", "three dims"),
        (F.LINEAR, "INT4", (4, 4), "orin", "whole bytes"),
        (TensorFormat.LINEAR, "HALF", (1, 1.5, 2, 2), None, "whole numbers"),
        (TensorFormat.LINEAR, "HALF", (1, "3", 2, 2), None, "whole numbers"),
    ],
)
def test_layout_refuses_invalid_shapes_and_types(format, dtype, dims, chip, reason):
    with pytest.raises(UsageError, match=reason):
        layout(format, dtype, dims, chip=chip)


@pytest.mark.parametrize("format", list(F))
def test_every_spelling_reads_back(format):
    assert parse_format(format.spelling) is format
    assert parse_format(format.value) is format
    assert parse_format("k" + format.value) is format


def test_trtexec_drops_the_type_prefix_from_11():
    io = IoFormat(F.DLA_HWC4, "INT8")
    assert (io.trtexec((10, 16)), io.trtexec((11, 4, 1))) == ("int8:dla_hwc4", "dla_hwc4")
    assert parse_io_format("int8:dla_hwc4") == io
    assert parse_io_format("dla_hwc4", dtype="INT8") == io
    assert parse_io_formats("fp16:chw16,int8:chw32") == (IoFormat(F.CHW16, "HALF"), IoFormat(F.CHW32, "INT8"))


@pytest.mark.parametrize("text", ["fp16:nhwc", "half:chw16", "", "fp16:"])
def test_unknown_spellings_are_refused(text):
    with pytest.raises(UsageError, match="unknown"):
        parse_io_format(text)
