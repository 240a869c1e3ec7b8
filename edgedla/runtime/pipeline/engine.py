"""One model made ready: frames in, results out, with the buffers of its batch between them."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.frames import Result
from edgedla.runtime.pipeline.pool import Pool

Prepare = Callable[..., Tuple[Mapping[str, np.ndarray], Geometry]]
#: (output buffers, how each image of the batch lies in its input) -> results of each image.
Decode = Callable[[Mapping[str, np.ndarray], Sequence[Geometry]], List[Sequence[Result]]]


class Engine:
    """Runners, preprocessing and decoding of one model.

    Args:
        prepare: makes, for a source's name, the function (image, out, pixel order) -> ({input name: buffer}, geometry). With `out` it
            writes there. Each source has one of its own: their frames have sizes of their own.
        batch: images that the runners take at once.
        image_bytes: size of one image of the input, for a batch.
        close: frees what preparing holds.
    """

    def __init__(
        self,
        pool: Pool,
        prepare: Callable[[str], Prepare],
        decode: Decode,
        batch: int = 1,
        image_bytes: int = 0,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self.pool, self.decode, self.batch = pool, decode, batch
        self._prepare, self._image_bytes, self._close = prepare, image_bytes, close
        self._preparers: Dict[str, Prepare] = {}
        # One buffer per inference under way, one that is being filled, one to spare; a runner reads its own until it is done.
        self._buffers = [np.zeros(batch * image_bytes, np.uint8) for _ in range(pool.capacity + 2 if batch > 1 else 0)]
        self._turn = 0

    def prepare(self, images: Sequence[Tuple[str, np.ndarray, str]]) -> Tuple[Mapping[str, np.ndarray], List[Geometry]]:
        """Input buffers of up to `batch` images of any sources; what is missing to a full batch is zero.

        Args:
            images: (source, image, its pixel order).
        """
        if self.batch == 1:
            source, image, pixels = images[0]
            inputs, geometry = self._preparer(source)(image, None, pixels)
            return inputs, [geometry]
        buffer = self._buffers[self._turn]
        self._turn = (self._turn + 1) % len(self._buffers)
        geometries, name, size = [], "", self._image_bytes
        for i, (source, image, pixels) in enumerate(images):
            inputs, geometry = self._preparer(source)(image, buffer[i * size : (i + 1) * size], pixels)
            name = next(iter(inputs))
            geometries.append(geometry)
        buffer[len(images) * size :] = 0
        return {name: buffer}, geometries

    def _preparer(self, source: str) -> Prepare:
        if source not in self._preparers:
            self._preparers[source] = self._prepare(source)
        return self._preparers[source]

    def close(self) -> None:
        """Ends the runners, then frees what they read."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._close)
            stack.callback(self.pool.close)
