"""Frames of another process in memory that both share: it copies each frame once, and here it is read where it lies."""

from __future__ import annotations

import collections
import contextlib
import mmap
import os
import weakref
from typing import Deque, Optional, Tuple

import numpy as np

from edgedla.formats.interleave import opencv
from edgedla.runtime.sources.gst_child import SLOTS

#: Slots that the other process may write to without asking: one is filled while another is taken.
AHEAD = 2


class Ring:
    """The receiving side. The other one writes the number of a filled slot to its pipe, and gets free ones from `grants_fd`.

    A slot is free again once no array sees it any more. Where others hold all slots, a frame is copied instead.

    Attributes:
        memory_fd, grants_fd: for the other process.
    """

    def __init__(self) -> None:
        self.memory_fd = os.memfd_create("edgedla-frames")
        self.grants_fd, self._grant_fd = os.pipe()
        self._free: Deque[int] = collections.deque(range(SLOTS))
        self._granted = 0
        self._memory: Optional[mmap.mmap] = None

    def grant(self) -> None:
        """Lets the other process write to AHEAD slots."""
        while self._granted < AHEAD and self._free:
            # It may have ended, which its other pipe tells.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._grant_fd, bytes([self._free.popleft()]))
            self._granted += 1

    def take(self, slot: int) -> np.ndarray:
        """The bytes of a filled slot."""
        if self._memory is None:
            self._memory = mmap.mmap(self.memory_fd, 0)
        self._granted -= 1
        size = len(self._memory) // SLOTS
        frame = np.frombuffer(self._memory, np.uint8, size, slot * size)
        if not self._free:
            frame = frame.copy()
            self._free.appendleft(slot)
        else:
            # Views of the frame hold this array, and not each other.
            weakref.finalize(frame, self._free.appendleft, slot).atexit = False
        self.grant()
        return frame

    def close(self) -> None:
        """Frames that somebody holds stay readable."""
        self._memory = None
        for fd in (self.memory_fd, self.grants_fd, self._grant_fd):
            os.close(fd)


def as_frame(data: np.ndarray, kind: str, hw: Tuple[int, int]) -> np.ndarray:
    """The frame, BGR or NV12, in GStreamer's bytes of a BGR, NV12 or I420 picture; I420 becomes NV12 in its place.

    Rows are padded to four bytes. An odd last row or column of NV12 is left out, for it has no colour of its own.
    """
    h, w = hw
    if kind == "BGR":
        row = -(-w * 3 // 4) * 4
        return data[: h * row].reshape(h, row)[:, : w * 3].reshape(h, w, 3)
    row, rows, half = -(-w // 4) * 4, h + h % 2, w // 2
    begin, even = rows * row, h // 2
    chroma = data[begin : begin + rows // 2 * row].reshape(rows // 2, row)
    if kind == "I420":
        short = -(-(w + w % 2) // 8) * 4
        u, v = data[begin : begin + rows * short].reshape(2, rows // 2, short)[:, :, :half]
        cv2 = opencv()
        both = cv2.merge([u, v]).view(np.uint16)[..., 0] if cv2 else (v.astype(np.uint16) << 8) | u
        chroma.view(np.uint16)[:, :half] = both
    if h % 2:
        frame = np.concatenate([data[: (h - 1) * row].reshape(h - 1, row), chroma[:even]])
    else:
        frame = data[: begin + rows // 2 * row].reshape(-1, row)
    return frame[:, : half * 2]
