"""Channel planes to interleaved pixels and back, by OpenCV's vectorised code if installed, else by NumPy.

NumPy copies single elements, which for bytes takes three to nine times as long as a plain copy; OpenCV takes one to two.
The results are identical. OpenCV is optional here and only imported for large buffers.
"""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

#: Below this many bytes NumPy is fast enough, and OpenCV is not worth importing.
WORTH_BYTES = 16 * 1024

_WORDS: Dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.int32}
_cv2: Any = None


def transpose(source: np.ndarray, target: np.ndarray) -> None:
    """target[j, i] = source[i, j] for two matrices of the same element type."""
    cv2 = _worth(source)
    if cv2 and source.flags.c_contiguous and target.flags.c_contiguous:
        word = _WORDS[source.dtype.itemsize]
        result = target.view(word)
        if np.shares_memory(cv2.transpose(source.view(word), result), result):
            return
    np.copyto(target, source.T)


def merge_four(planes: np.ndarray, pixels: np.ndarray) -> bool:
    """pixels[y, x, c] = planes[c, y, x], zero for missing channels; False if too small to be worth it, or impossible.

    Args:
        planes: (count, H, W), count at most 4, each plane contiguous. pixels: (H, W, 4) of the same element type.
    """
    cv2 = _worth(planes)
    if not cv2 or not pixels.flags.c_contiguous or not all(p.flags.c_contiguous for p in planes):
        return False
    word = _WORDS[planes.dtype.itemsize]
    parts = [p.view(word) for p in planes]
    parts += [np.zeros(planes.shape[1:], word)] * (4 - len(parts))
    result = pixels.view(word)
    return bool(np.shares_memory(cv2.merge(parts, result), result))


def split_four(pixels: np.ndarray, planes: np.ndarray) -> bool:
    """planes[c, y, x] = pixels[y, x, c] for the channels of `planes`; False if too small to be worth it, or impossible."""
    cv2 = _worth(pixels)
    if not cv2 or not pixels.flags.c_contiguous or not all(p.flags.c_contiguous for p in planes):
        return False
    word = _WORDS[planes.dtype.itemsize]
    parts = [p.view(word) for p in planes]
    parts += [np.empty(planes.shape[1:], word) for _ in range(4 - len(parts))]
    made = cv2.split(pixels.view(word), parts)
    return all(np.shares_memory(m, p) for m, p in zip(made, parts))


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
