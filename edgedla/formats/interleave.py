"""Channel planes to interleaved pixels and back by OpenCV's vectorised code if installed, else by NumPy; parts of rows as blocks.

NumPy copies single elements, which for bytes takes three to nine times as long as a plain copy; OpenCV takes one to two.
The results are identical. OpenCV is optional here and only imported for large buffers.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

#: Below this many bytes NumPy is fast enough, and OpenCV is not worth importing.
WORTH_BYTES = 16 * 1024

#: So much of a tensor stays in a core's cache between two steps.
CACHED_BYTES, CACHE_LINE = 512 << 10, 64

_WORDS: Dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.int32}
_cv2: Any = None


def transpose(source: np.ndarray, target: np.ndarray) -> None:
    """target[j, i] = source[i, j] for two matrices of the same element type."""
    cv2 = _worth(source)
    if cv2 and source.flags.c_contiguous and target.flags.c_contiguous:
        word = _WORDS[source.dtype.itemsize]
        result = target.view(word)
        if np.may_share_memory(cv2.transpose(source.view(word), result), result):
            return
    np.copyto(target, source.T)


def spread(planes: np.ndarray, pixels: np.ndarray) -> bool:
    """As `merge_four` for more channels, each image and pixels (N, H * W, channels) contiguous.

    Some pixels at a time: the zeros of the missing channels, most of what is written, are then read from the cache.
    """
    cv2 = _worth(planes[0])
    if not cv2 or not pixels[0].flags.c_contiguous or not planes[0].flags.c_contiguous:
        return False
    word, count, (_, size, channels) = _WORDS[planes.dtype.itemsize], planes.shape[1], pixels.shape
    step = CACHED_BYTES // pixels[0, :1].nbytes
    # Rows a power of two apart would share few lines of the cache.
    few = np.zeros((channels, step + CACHE_LINE // planes.dtype.itemsize), word)
    for source, target in zip(planes.view(word), pixels.view(word)):
        for first in range(0, size, step):
            some, result = source.reshape(count, size)[:, first : first + step], target[first : first + step]
            few[:count, : some.shape[1]] = some
            if not np.may_share_memory(cv2.transpose(few[:, : some.shape[1]], result), result):
                return False
    return True


def parts_of_rows(array: np.ndarray, begin: int, end: int) -> np.ndarray:
    """The elements from `begin` to `end` of each row (the last axis) of a contiguous array as one item, which NumPy copies whole."""
    length, each = array.shape[-1], array.itemsize
    return np.ndarray(array.size // length, np.dtype((np.void, (end - begin) * each)), array, begin * each, (length * each,))


def merge_four(planes: np.ndarray, pixels: np.ndarray) -> bool:
    """pixels[n, y, x, c] = planes[n, c, y, x], zero for missing channels; False if too small to be worth it, or impossible.

    Args:
        planes: (N, count, H, W), count at most 4, each plane contiguous. pixels: (N, H, W, 4) of the same element type.
    """
    cv2 = _worth(planes[0])
    if not cv2 or not pixels[0].flags.c_contiguous or not planes[0, 0].flags.c_contiguous:
        return False
    word = _WORDS[planes.dtype.itemsize]
    missing = [np.zeros(planes.shape[2:], word)] * (4 - planes.shape[1])
    pairs = zip(planes.view(word), pixels.view(word))
    return all(np.may_share_memory(cv2.merge([*parts, *missing], result), result) for parts, result in pairs)


def split_four(pixels: np.ndarray, planes: np.ndarray) -> bool:
    """planes[n, c, y, x] = pixels[n, y, x, c] for the channels of `planes`; False if too small to be worth it, or impossible."""
    cv2 = _worth(pixels[0])
    if not cv2 or not pixels[0].flags.c_contiguous or not planes[0, 0].flags.c_contiguous:
        return False
    word = _WORDS[planes.dtype.itemsize]
    others = [np.empty(planes.shape[2:], word) for _ in range(4 - planes.shape[1])]
    made = [(cv2.split(image, [*parts, *others]), parts) for image, parts in zip(pixels.view(word), planes.view(word))]
    return all(np.may_share_memory(m, part) for channels, parts in made for m, part in zip(channels, parts))


def _worth(array: np.ndarray) -> Any:
    return array.nbytes >= WORTH_BYTES and array.dtype.itemsize in _WORDS and opencv()


def opencv() -> Any:
    """OpenCV's module, or False."""
    global _cv2
    if _cv2 is None:
        try:
            import cv2

            _cv2 = cv2
        except Exception:
            # A broken installation may raise anything; NumPy gives the same result, only slower.
            _cv2 = False
    return _cv2
