"""synthetic://: generated frames, for tests and demos without a camera."""

from __future__ import annotations

import random
from typing import Optional, Tuple

import numpy as np

from edgedla.errors import UsageError
from edgedla.runtime.sources.base import Pace
from edgedla.runtime.sources.uri import SourceUri

PATTERNS = ("shapes", "noise", "counter")
#: A multiple of the 4 bytes that the generator gives at a time, so that drawing in parts gives the same numbers.
_NOISE_BYTES = 1 << 16


class SyntheticSource:
    """Moving squares, noise, or a counter written into the pixels; paced to `rate` if one is given.

    `counter`: the first three bytes of a frame hold its number (little endian), so that a test can tell frames apart.
    """

    def __init__(self, uri: SourceUri) -> None:
        if uri.pattern not in PATTERNS:
            raise UsageError(f"unknown pattern {uri.pattern!r}", where=uri.text, allowed=", ".join(PATTERNS))
        self.uri, self.pixels, self.rate = uri.text, "bgr", uri.rate
        # With a rate it is like a camera: it does not wait for a slow reader.
        self.live, self.recorded = uri.rate > 0, False
        self._spec = uri
        self._count, self._pace = 0, Pace(uri.rate)

    def open(self) -> Tuple[int, int]:
        u = self._spec
        self._hw = (u.height or 480, u.width or 640)
        self._count = 0
        self._pace.start()
        # Python's generator: NumPy's may change with its release, and takes long to import.
        rng = random.Random(u.seed)
        h, w = self._hw
        self._base = np.empty((h, w, 3), np.uint8)
        # In parts: drawn at once, the number, its bytes and the image would take three times the memory.
        flat = self._base.reshape(-1)
        for begin in range(0, flat.size, _NOISE_BYTES):
            part = flat[begin : begin + _NOISE_BYTES]
            part[:] = np.frombuffer(rng.getrandbits(8 * part.size).to_bytes(part.size, "little"), np.uint8)
        self._base >>= 1
        self._base += np.uint8(56)
        self._squares = [_square(rng, h, w) for _ in range(6)]
        return self._hw

    def read(self) -> Optional[np.ndarray]:
        u = self._spec
        if u.frames and self._count >= u.frames:
            return None
        self._pace.wait()
        n, (h, w) = self._count, self._hw
        self._count += 1
        if u.pattern == "noise":
            image = np.roll(self._base, n, axis=1)
        else:
            # The image is not needed after the last frame, which therefore uses it without a copy.
            image = self._base if self._count == u.frames else self._base.copy()
        if u.pattern == "shapes":
            side = max(4, min(h, w) // 8)
            for at, speed, colour in self._squares:
                x, y = ((a + s * n) % size for a, s, size in zip(at, speed, (w, h)))
                image[y : y + side, x : x + side] = colour
        if u.pattern == "counter":
            image[0, 0] = (n & 255, (n >> 8) & 255, (n >> 16) & 255)
        return image

    def close(self) -> None:
        self._count = 0


def _square(rng: random.Random, h: int, w: int) -> Tuple[Tuple[int, int], Tuple[int, int], Tuple[int, int, int]]:
    """(start (x, y), movement per frame, colour) of a square."""
    at, speed = (rng.randrange(w), rng.randrange(h)), (rng.randint(-9, 9), rng.randint(-9, 9))
    return at, speed, (rng.randrange(256), rng.randrange(256), rng.randrange(256))
