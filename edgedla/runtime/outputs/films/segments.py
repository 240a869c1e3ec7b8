"""An annotated video in files of limited length or size, of which the newest are kept: months of it fit on a disk."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import time
from pathlib import Path
from typing import List, Optional

from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.films.newest import Newest
from edgedla.runtime.outputs.sinks import AnnotatedVideo

#: The size of the open file is checked every so many frames.
LOOK_EVERY = 25
#: The part of a file's name between the video's name and the ending.
_STAMP = re.compile(r"-\d{8}-\d{6}(-\d+)?")


class Segments:
    """v.avi becomes v-20260115-140231.avi and so on, named by the time of their first frame.

    A kill leaves all files but the last one complete; an .avi can be played even if it is the last one.

    Args:
        seconds: length of a file on the scene's clock; 0: unlimited. mb: its size in MB (10^6 bytes); 0: unlimited.
        keep: number of files to keep, including those of earlier runs; 0: all.
    """

    def __init__(self, path: str, rate: float, seconds: float, mb: float, keep: int = 0) -> None:
        self._stem, self._ending = os.path.splitext(path)
        self._rate, self._seconds, self._most_bytes, self._keep = rate, seconds, int(mb * 1e6), keep
        # Checks ending and folder before a camera is opened.
        AnnotatedVideo(path, rate)
        self._newest = Newest(keep)
        self._video: Optional[AnnotatedVideo] = None
        self._since_s = 0.0
        self._count = 0

    def write(self, result: FrameResult) -> None:
        if self._video is not None and self._full(result.frame.seen_s):
            self._finish()
        if self._video is None:
            self._video, self._since_s = AnnotatedVideo(self._name(result), self._rate), result.frame.seen_s
        self._video.write(result)
        self._count += 1

    def _full(self, seen_s: float) -> bool:
        assert self._video is not None
        if self._seconds and seen_s - self._since_s >= self._seconds:
            return True
        if not self._most_bytes or self._count % LOOK_EVERY:
            return False
        with contextlib.suppress(OSError):
            return os.path.getsize(self._video.path) >= self._most_bytes
        return False

    def _name(self, result: FrameResult) -> str:
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(result.frame.time_s))
        name, number = f"{self._stem}-{stamp}{self._ending}", 1
        # A broken link counts as existing: writing to it would create the file at its target.
        while os.path.lexists(name):
            number += 1
            name = f"{self._stem}-{stamp}-{number}{self._ending}"
        return name

    def _finish(self) -> None:
        if self._video is None:
            return
        video, self._video = self._video, None
        video.close()
        self._newest.wrote(Path(video.path))
        if self._keep:
            for old in self._newest.surplus(segments_of(self._stem, self._ending)):
                with contextlib.suppress(OSError):
                    old.unlink()

    def close(self) -> None:
        self._finish()


def segments_of(stem: str, ending: str) -> List[Path]:
    """The files of a video: of v.avi not those of v-2.avi, nor of a camera with a longer name (v-gate-2 beside v-gate)."""
    folder, name = os.path.split(stem)
    files = Path(folder or ".").glob(f"{glob.escape(name)}-[0-9]*{ending}")
    return [p for p in files if _STAMP.fullmatch(p.name[len(name) : -len(ending)])]
