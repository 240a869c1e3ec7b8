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
    """Moving circles, squares and triangles on a plain ground, noise, or a counter written into the pixels; paced to `rate` if given.

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
        if u.pattern == "shapes":
            # Two slopes a colour under weak noise, which the example's detector tells from its shapes. No sum is above 255.
            self._base >>= 3
            for colour in range(3):
                down, right = (np.linspace(rng.randrange(8, 80), rng.randrange(8, 80), n).astype(np.uint8) for n in (h, w))
                self._base[..., colour] += down[:, None]
                self._base[..., colour] += right[None, :]
            self._shapes = [_shape(rng, h, w, kind) for kind in (0, 1, 2)]
        else:
            self._base >>= 1
            self._base += np.uint8(56)
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
            for i, (mask, at, speed, colour) in enumerate(self._shapes):
                side = len(mask)
                # To and fro, each in a third of the picture: a shape is always whole, and none covers another one.
                x, y = (_to_and_fro(a + v * n, max(1, size - side)) for a, v, size in zip(at, speed, (w // 3, h)))
                x += i * (w // 3)
                part = image[y : y + side, x : x + side]
                part[mask[: part.shape[0], : part.shape[1]]] = colour
        if u.pattern == "counter":
            image[0, 0] = (n & 255, (n >> 8) & 255, (n >> 16) & 255)
        return image

    def close(self) -> None:
        self._count = 0


Shape = Tuple[np.ndarray, Tuple[int, int], Tuple[int, int], Tuple[int, int, int]]


def _shape(rng: random.Random, h: int, w: int, kind: int) -> Shape:
    """(mask of its pixels, start (x, y), movement per frame, colour) of a circle, a square or a triangle; bright, the ground is not."""
    side = min(h, max(1, w // 3), max(4, min(h, w) * rng.randint(15, 25) // 100))
    y, x = np.mgrid[0:side, 0:side] - (side - 1) / 2
    masks = (np.hypot(x, y) <= side / 2, np.ones((side, side), bool), 2 * np.abs(x) <= y + side / 2)
    at, speed = (rng.randrange(w), rng.randrange(h)), (rng.randint(-9, 9), rng.randint(-9, 9))
    colour = [rng.randrange(64), rng.randrange(256), rng.randrange(208, 256)]
    rng.shuffle(colour)
    return masks[kind], at, speed, (colour[0], colour[1], colour[2])


def _to_and_fro(way: int, length: int) -> int:
    return length - abs(way % (2 * length) - length)
