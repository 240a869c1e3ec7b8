"""NCHW NumPy arrays to and from the bytes of a tensor format, with quantisation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, Optional, Tuple, Union

import numpy as np

from edgedla.errors import UsageError
from edgedla.formats.interleave import CACHED_BYTES, merge_four, parts_of_rows, split_four, spread, transpose
from edgedla.formats.layout import Layout

Buffer = Union[bytes, bytearray, memoryview, np.ndarray]
#: Scale of a tensor, or an array of scales that broadcasts against it, for example one per channel.
Scale = Union[float, np.ndarray]

NUMPY_TYPE: Dict[str, type] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}

#: NumPy interleaves single elements, but without the GIL, so threads help if cores are idle.
MAX_THREADS = 8
PARTS_OF_A_THREAD = 4

#: For groups of fewer channels, one strided copy per channel is faster than one transposed copy of the group.
TRANSPOSE_FROM_CHANNELS = 8

_pool: Tuple[int, Optional[ThreadPoolExecutor]] = (0, None)


def quantize(values: np.ndarray, scale: Scale) -> np.ndarray:
    """FP32 or FP16 values to INT8 as the DLA does it: q = clamp(round_half_away(values / scale), -128, 127).

    The DLA rounds halves away from zero (developer guide 8.6.1, quantization table), unlike NumPy and PyTorch,
    which round them to even. NaN becomes 0; infinities saturate.

    Raises:
        UsageError: the scale is not a positive finite number.
    """
    _check_scale(scale)
    # One contiguous FP32 working copy; every further step is in place.
    with np.errstate(over="ignore"):
        work = np.divide(values, np.asarray(scale, np.float32), dtype=np.float32)
    np.clip(work, -128.0, 127.0, out=work)
    # Adding 0.5 would carry 0.49999997 up to 1.0 in FP32; the FP32 number before 0.5 is exact for every |x| < 2**22. It gets its
    # sign by its bits: np.copysign takes as long as all the rest.
    half = work.view(np.uint32) & np.uint32(0x80000000)
    half |= np.float32(0.49999997).view(np.uint32)
    work += half.view(np.float32)
    if work.size and np.isnan(work.min()):
        np.nan_to_num(work, copy=False, nan=0.0)
    return work.astype(np.int8)


def dequantize(values: np.ndarray, scale: Scale) -> np.ndarray:
    """INT8 to FP32: values * scale."""
    _check_scale(scale)
    return np.multiply(values, np.asarray(scale, np.float32), dtype=np.float32)


def pack(
    array: np.ndarray,
    layout: Layout,
    *,
    scale: Optional[float] = None,
    out: Optional[np.ndarray] = None,
    threads: int = 1,
    top: Optional[int] = None,
) -> np.ndarray:
    """The buffer of a tensor: a C-contiguous array of `layout.storage_shape`; `.tobytes()` gives its bytes.

    Padding, in rows and in unused channels, is zero.

    Args:
        array: the tensor in NCHW order, of `layout.dims`. Any strides: an HWC image viewed as CHW is read in place.
        scale: real value of one INT8 step; required to pack floats as INT8.
        out: a buffer of `layout.size_bytes` to write to (a pinned or mapped one), instead of a new array.
        threads: number of copying threads. More than one helps for large tensors of many channels on idle cores; on busy
            cores, waiting for a thread makes the call slower than a single thread.
        top: the array has fewer rows than the layout, of which the first goes to this row; the other rows stay as they are.

    Raises:
        UsageError: shape, type, scale or buffer do not fit the layout.
    """
    n, c, h, w = layout.nchw
    dims = layout.dims
    if top is not None and array.ndim == len(dims) > 1 and top + array.shape[-2] <= h:
        h = array.shape[-2]
        dims = (*dims[:-2], h, dims[-1])
    if tuple(array.shape) != dims:
        raise UsageError(f"the array has shape {list(array.shape)}, the layout holds {list(dims)}")
    dtype = np.dtype(_numpy_type(layout))
    values = _convert(array, dtype, scale).reshape((n, c, h, w))
    whole_store = np.empty(layout.storage_shape, dtype) if out is None else _storage(out, layout, writable=True)
    taken = slice(top, None if top is None else top + h)
    store = whole_store[:, :, taken]
    padded = layout.row_vectors > w
    if padded and layout.vector == 1 and top is None and values.flags.c_contiguous:
        parts_of_rows(whole_store[..., 0], 0, w)[...] = parts_of_rows(values, 0, w)
        padding = parts_of_rows(whole_store[..., 0], w, layout.row_vectors)
        padding[...] = np.zeros(1, padding.dtype)
        return whole_store
    if padded:
        store[:, :, :, w:] = 0
    if layout.vector == 1:
        np.copyto(store[:, :, :, :w, 0], values)
        return whole_store
    # The view is taken before slicing: NumPy before 1.23 changes the item size of whole arrays only.
    words = whole_store.view("<u4")[:, :, taken, :, 0] if layout.vector == 4 and dtype == np.int8 else None

    # Groups of many channels are matrices (channels x pixels) to be transposed, if rows have no padding.
    matrices = layout.row_vectors == w and layout.vector >= TRANSPOSE_FROM_CHANNELS
    four = layout.row_vectors == w and layout.vector == 4

    def rows(begin: int, end: int) -> None:
        for group in range(layout.groups):
            first = group * layout.vector
            part = values[:, first : min(c, first + layout.vector), begin:end]
            if four and merge_four(part, store[:, group, begin:end]):
                continue
            if words is not None:
                _four_bytes(part, words[:, group, begin:end, :w])
                continue
            pixels = store[:, group].reshape(n, h * w, layout.vector) if matrices and end - begin == h else None
            if pixels is not None and _by_matrices(part, pixels, c >= TRANSPOSE_FROM_CHANNELS):
                continue
            target = store[:, group, begin:end, :w]
            count = part.shape[1]
            if count < TRANSPOSE_FROM_CHANNELS:
                # Some rows at a time: their zeros are still in the cache when the channels come.
                step = max(1, CACHED_BYTES // layout.row_bytes // layout.nchw[0])
                for row in range(0, end - begin, step):
                    some = target[:, row : row + step]
                    some[...] = 0
                    for channel in range(count):
                        np.copyto(some[..., channel], part[:, channel, row : row + step])
            else:
                np.copyto(target[..., :count], part.transpose(0, 2, 3, 1))
                target[..., count:] = 0

    _share(rows, h, threads)
    return whole_store


def planes_of(layout: Layout, out: Optional[np.ndarray] = None) -> Tuple[np.ndarray, np.ndarray]:
    """(buffer, its first image as (C, H, W)) for writing an image in place; one group must hold all channels. Padding is zero.

    Raises:
        UsageError: the buffer does not fit the layout.
    """
    c, _, w = layout.nchw[1:]
    store = np.empty(layout.storage_shape, _numpy_type(layout)) if out is None else _storage(out, layout, writable=True)
    if layout.row_vectors > w or layout.vector > 1:
        store[...] = 0
    image = store[0]
    return store, image[:, :, :w, 0] if layout.vector == 1 else image[0, :, :w, :c].transpose(2, 0, 1)


def unpack(buffer: Buffer, layout: Layout, *, scale: Optional[float] = None, threads: int = 1) -> np.ndarray:
    """The tensor in NCHW order, of `layout.dims`; padding is dropped.

    Args:
        buffer: `layout.size_bytes` bytes, or an array of that many.
        scale: with it INT8 comes back as FP32 values; without it as INT8.
        threads: as for `pack`.

    Raises:
        UsageError: the buffer has another size, or the scale is given for a type that has none.
    """
    if scale is not None and layout.dtype != "INT8":
        raise UsageError(f"a scale belongs to INT8, the layout holds {layout.dtype}")
    store = _storage(buffer, layout, writable=False)
    _, c, h, w = layout.nchw
    if layout.vector == 1:
        values = np.empty(layout.dims, store.dtype)
        if layout.row_vectors > w:
            parts_of_rows(values, 0, w)[...] = parts_of_rows(store[..., 0], 0, w)
        else:
            np.copyto(values, store.reshape(layout.dims))
        return values if scale is None else dequantize(values, scale)
    values = np.empty(layout.nchw, store.dtype)
    four = layout.row_vectors == w and layout.vector == 4

    def rows(begin: int, end: int) -> None:
        for group in range(layout.groups):
            first = group * layout.vector
            part = values[:, first : min(c, first + layout.vector), begin:end]
            if four and split_four(store[:, group, begin:end], part):
                continue
            if layout.row_vectors == w and end - begin == h and part.shape[1] == layout.vector:
                for n in range(layout.nchw[0]):
                    transpose(store[n, group].reshape(h * w, layout.vector), part[n].reshape(layout.vector, h * w))
                continue
            # Some rows at a time: a channel finds them in the cache where the one before it has been.
            step = max(1, CACHED_BYTES // layout.row_bytes // layout.nchw[0])
            for row in range(0, end - begin, step):
                some = store[:, group, begin + row : min(begin + row + step, end), :w, : part.shape[1]]
                np.copyto(part[:, :, row : row + step], some.transpose(0, 3, 1, 2))

    _share(rows, h, threads)
    values = values.reshape(layout.dims)
    return values if scale is None else dequantize(values, scale)


def _convert(array: np.ndarray, dtype: np.dtype, scale: Optional[float]) -> np.ndarray:
    if array.dtype == dtype:
        return array
    if dtype == np.int8:
        if array.dtype.kind != "f":
            raise UsageError(f"{array.dtype} values cannot become INT8 without loss", allowed="INT8, FP32 or FP16")
        if scale is None:
            raise UsageError("floats become INT8 by a scale, and none is given", hint="pass scale=, or INT8 values")
        return quantize(array, scale)
    if dtype.kind == "f" and array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # FP16 has no larger value than 65504; beyond it lies infinity
            return array.astype(dtype)
    raise UsageError(f"{array.dtype} values do not fit {dtype}", hint="convert the array first")


def _by_matrices(part: np.ndarray, pixels: np.ndarray, many: bool) -> bool:
    """Channel planes (N, count, H, W) to pixels (N, H * W, channels), missing channels zero; False if single planes are to be copied.

    Args:
        many: without OpenCV too.
    """
    count, channels = part.shape[1], pixels.shape[2]
    if count < channels and spread(part, pixels):
        return True
    if count < channels and not many:
        return False
    for planes, target in zip(part, pixels):
        every = planes.reshape(count, -1)
        if count < channels:
            every = np.zeros((channels, len(target)), part.dtype)
            every[:count] = planes.reshape(count, -1)
        transpose(every, target)
    return True


def _storage(buffer: Buffer, layout: Layout, writable: bool) -> np.ndarray:
    flat = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    if flat.nbytes != layout.size_bytes:
        takes = f"{layout.format} of {list(layout.dims)} takes {layout.size_bytes}"
        raise UsageError(f"the buffer holds {flat.nbytes} bytes, {takes}")
    if not flat.flags.c_contiguous or (writable and not flat.flags.writeable):
        raise UsageError("the buffer is not contiguous" + (" or not writable" if writable else ""))
    return flat.reshape(-1).view(np.uint8).view(_numpy_type(layout)).reshape(layout.storage_shape)


def _four_bytes(part: np.ndarray, pixels: np.ndarray) -> None:
    """Up to four INT8 planes (N, channels, H, W) to 32-bit pixels (N, H, W), vectorised, unlike copies of single bytes.

    pixel = c0 | c1 << 8 | c2 << 16 | c3 << 24, stored little-endian.
    """
    planes = part.view(np.uint8)
    np.copyto(pixels, planes[:, part.shape[1] - 1])
    for channel in range(part.shape[1] - 2, -1, -1):
        np.left_shift(pixels, 8, out=pixels)
        np.bitwise_or(pixels, planes[:, channel], out=pixels)


def _numpy_type(layout: Layout) -> type:
    try:
        return NUMPY_TYPE[layout.dtype]
    except KeyError:
        raise UsageError(f"NumPy has no type for {layout.dtype}", allowed=", ".join(sorted(NUMPY_TYPE)))


def _check_scale(scale: Scale) -> None:
    if not np.all(np.isfinite(scale) & (np.asarray(scale) > 0)):
        raise UsageError(f"scale {scale!r} is not a positive finite number")


def _share(work: Callable[[int, int], None], rows: int, threads: int) -> None:
    threads = max(1, min(threads, rows, MAX_THREADS))
    if threads == 1:
        work(0, rows)
        return
    # More parts than threads, taken one after the other: a thread that the system does not run delays one part only.
    parts = min(rows, threads * PARTS_OF_A_THREAD)
    edges = [rows * i // parts for i in range(parts + 1)]
    parts_left = list(zip(edges, edges[1:]))

    def drain() -> None:
        while True:
            try:
                begin, end = parts_left.pop()
            except IndexError:
                return
            work(begin, end)

    helpers = [_executor().submit(drain) for _ in range(threads - 1)]
    drain()
    for helper in helpers:
        if not helper.cancel():  # a cancelled helper has not started, so it has nothing to finish
            helper.result()


def _executor() -> ThreadPoolExecutor:
    """One pool per process. A forked child lacks the parent's threads, so it makes its own pool."""
    global _pool
    if _pool[1] is None or _pool[0] != os.getpid():
        _pool = (os.getpid(), ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="edgedla-pack"))
    assert _pool[1] is not None
    return _pool[1]
