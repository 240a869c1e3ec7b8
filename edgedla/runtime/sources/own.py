"""Frames of the user's: `module:function` or `FILE.py:function`, which yields them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Iterator, Optional, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, RunError, described, own_code
from edgedla.preprocess.yuv import frame_hw_of
from edgedla.processes.python_files import function_of
from edgedla.runtime.sources.base import check_image
from edgedla.runtime.sources.uri import SourceUri


class OwnSource:
    """Calls the function with the source's options (`rate`, `width`, `height`) and reads what it yields: a frame, or (frame,
    seconds since 1970 when it was captured). A frame is a uint8 array, (h, w, 3) in BGR, unless the function has an attribute
    `pixels`: rgb, or a kind of NV12 (nv12, nv12-full, nv12-709, nv12-709-full).

    Attributes:
        stamp_s: when the last frame was captured, if the function says so.
    """

    def __init__(self, uri: SourceUri) -> None:
        self._spec, self._function = uri, function_of(uri.place, "source")
        self.uri, self.rate, self.recorded = uri.text, uri.rate, False
        #: A function with `live = False` waits until its frame is taken; else the newest frame is taken.
        self.live: bool = getattr(self._function, "live", True)
        self.pixels: str = getattr(self._function, "pixels", "bgr")
        self.stamp_s: Optional[float] = None
        self._frames: Optional[Iterator[Any]] = None
        self._ahead: Any = None
        self._left = uri.frames or -1

    def open(self) -> Tuple[int, int]:
        given = {"rate": self._spec.rate, "width": self._spec.width, "height": self._spec.height}
        with own_code(self._failed):
            takes = inspect.signature(self._function).parameters
            frames = self._function(**{name: value for name, value in given.items() if name in takes})
        if not isinstance(frames, Iterable):
            raise RunError(f"it returned {type(frames).__name__}", where=self.uri, allowed="a generator of frames")
        self._frames = iter(frames)
        self._ahead = self._next()
        if self._ahead is None:
            raise RunError("it yields no frame", where=self.uri)
        return frame_hw_of(self._ahead, self.pixels)

    def _failed(self, error: BaseException) -> EdgedlaError:
        return RunError(f"the source fails: {described(error)}", where=self.uri)

    def _next(self) -> Optional[np.ndarray]:
        assert self._frames is not None
        with own_code(self._failed):
            item = next(self._frames, None)
        image, self.stamp_s = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
        if image is not None:
            check_image(image, self.pixels, self.uri)
        return image

    def read(self) -> Optional[np.ndarray]:
        if self._left == 0 or self._frames is None:
            return None
        ahead, self._ahead = self._ahead, None
        self._left -= 1
        return ahead if ahead is not None else self._next()

    def close(self) -> None:
        frames, self._frames = self._frames, None
        close = getattr(frames, "close", None)
        if close is not None:
            close()
