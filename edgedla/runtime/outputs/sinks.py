"""Outputs of results: JSON lines, annotated images, an annotated video, a callback."""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import math
import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Protocol, Sequence, Tuple

from edgedla.errors import RunError, UsageError
from edgedla.io.files import make_folder, open_partial, require_room, writing
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import draw
from edgedla.runtime.outputs.films.newest import age_ns
from edgedla.runtime.outputs.own_lines import RESULTS, ends_in_a_line, remove_beyond, require_ours
from edgedla.runtime.outputs.shared_file import held_by_another, is_at
from edgedla.runtime.outputs.timing import Timing
from edgedla.runtime.sources.base import MOST_RATE
from edgedla.runtime.sources.opencv import import_cv2

log = logging.getLogger("edgedla.runtime.outputs.sinks")


class Sink(Protocol):
    def write(self, result: FrameResult) -> None:
        """Takes one result. Raises RunError if it cannot be stored."""
        ...

    def close(self) -> None: ...


class JsonLines:
    """One JSON object per line, written at once: no buffer of ours is lost if the process dies.

    If the disk fills up within a line, no partial line remains.

    Args:
        rotate_mb: a line that would make the file larger than this (MB of 10^6 bytes) starts a new file; the full one becomes
            PATH.1, the one before it PATH.2, and so on. 0: no limit.
        keep: number of full files to keep; older ones are removed.
        kinds: keys of lines that an existing file may contain (own_lines.py).

    Raises:
        UsageError: the file, or one that would be renamed or replaced, is not ours.
    """

    def __init__(self, path: str, rotate_mb: float = 0.0, keep: int = 5, kinds: Sequence[Tuple[str, ...]] = RESULTS) -> None:
        self.path, self._most_bytes, self._keep, self._kinds = path, int(rotate_mb * 1e6), keep, kinds
        self._fd, self._regular = -1, False
        with writing(path):
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            for n in range(keep + 1 if self._most_bytes else 1):
                require_ours(f"{path}.{n}" if n else path, kinds)
            self._open()

    def _open(self) -> None:
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._regular = os.path.isfile(self.path)
        if self._regular and not ends_in_a_line(self.path):
            os.write(self._fd, b"\n")

    def _rotate(self) -> None:
        """Renames full files up by one; a crash in between leaves each of them complete under some name.

        If another process that writes this file does so right now, or just has, nothing is renamed: the next line goes on in
        the full file, and the one after it finds the new one.
        """
        if held_by_another(self._fd) or not is_at(self.path, self._fd):
            return
        os.fsync(self._fd)
        fd, self._fd = self._fd, -1
        try:
            for n in range(self._keep, 1, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}.{n - 1}", f"{self.path}.{n}")
            if self._keep:
                os.replace(self.path, f"{self.path}.1")
            else:
                os.unlink(self.path)
        finally:
            # Only now may another process rotate.
            os.close(fd)
        remove_beyond(self.path, self._keep, self._kinds)
        self._open()

    def _status(self) -> os.stat_result:
        """Status of the open file, which is reopened if logrotate or another process has moved or removed it."""
        if not is_at(self.path, self._fd):
            require_ours(self.path, self._kinds)
            fd, self._fd = self._fd, -1
            os.close(fd)
            self._open()
        return os.fstat(self._fd)

    def write(self, result: FrameResult) -> None:
        self.write_document(result.to_dict())

    def write_document(self, document: object) -> None:
        data = (as_json(document) + "\n").encode()
        before = done = 0
        try:
            if self._fd < 0:
                # The last rotation failed midway.
                self._open()
            before = self._status().st_size if self._regular else 0
            if self._regular and self._most_bytes and before and before + len(data) > self._most_bytes:
                self._rotate()
                before = os.fstat(self._fd).st_size
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as e:
            if self._regular and done:
                os.ftruncate(self._fd, before)
            raise RunError(f"cannot write: {e.strerror}", where=self.path, hint="every line before this one is complete") from e

    write_event = write_document

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                if self._regular:
                    os.fsync(fd)
            except OSError as e:
                raise RunError(f"cannot write: {e.strerror}", where=self.path) from e
            finally:
                os.close(fd)


#: Made once, because json.dumps makes an encoder per call.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def as_json(document: object) -> str:
    """Compact JSON. NaN and infinity, which JSON lacks, become null."""
    try:
        return _encode(document)
    except ValueError:
        return _encode(_finite(document))


def _finite(value: object) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


class AnnotatedImages:
    """frame_000042.jpg for every `every`-th result.

    Args:
        limit: write only the first so many (0: no limit).
        keep: number of newest images to keep in the folder, including those of earlier runs (0: all).
    """

    def __init__(self, folder: str, every: int = 1, limit: int = 0, keep: int = 0) -> None:
        self._folder, self._every, self._limit, self._keep = Path(folder), max(1, every), limit, keep
        self._seen = self.written = 0
        with writing(folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            old = [p for p in self._folder.glob("frame_*.jpg") if keep]
            self._present = collections.deque(sorted(old, key=lambda p: (age_ns(p), p.name)))

    def write(self, result: FrameResult) -> None:
        self._seen += 1
        if (self._seen - 1) % self._every or (self._limit and self.written >= self._limit):
            return
        cv2 = import_cv2()
        ok, data = cv2.imencode(".jpg", draw(result))
        if not ok:
            raise RunError("OpenCV cannot encode the image", where=str(self._folder))
        path = self._folder / f"frame_{result.frame.index:06d}.jpg"
        partial = ""
        try:
            fd, partial = open_partial(str(self._folder), path.name)
            with open(fd, "wb") as file:
                file.write(data.tobytes())
            os.replace(partial, path)
        except OSError as e:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise RunError(f"cannot write: {e.strerror}", where=str(path)) from e
        self.written += 1
        if self._keep:
            self._forget(path)

    def _forget(self, newest: Path) -> None:
        # Frame numbers restart with every run, so an earlier run may have left this name.
        with contextlib.suppress(ValueError):
            self._present.remove(newest)
        self._present.append(newest)
        while len(self._present) > self._keep:
            with contextlib.suppress(OSError):
                self._present.popleft().unlink()

    def close(self) -> None:
        return None


#: OpenCV's video writer does not report a full disk, so free space is checked beforehand.
SPACE_BYTES = 32 << 20
SPACE_EVERY = 25


def require_space(path: str) -> None:
    """Raises RunError if the disk is too full to continue a video."""
    free = shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free
    if free < SPACE_BYTES:
        raise RunError(
            f"the disk is almost full ({free >> 20} MiB left)",
            where=path,
            hint=f"a video needs {SPACE_BYTES >> 20} MiB of free space; what was written before is kept",
        )


def claimed(path: str) -> int:
    """A descriptor that locks the video against other processes until it is closed: two would overwrite each other.

    Within the process nothing is locked: after a reload, another output may continue the video before the first is closed.

    Raises:
        RunError: another process writes it. OSError: it cannot be opened.
    """
    import fcntl

    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(fd)
        raise RunError(
            "another process is writing this video", where=path, hint="end it, or give the output another file"
        ) from None
    except OSError:
        # A file system without locks.
        pass
    return fd


class AnnotatedVideo:
    """A video file of annotated frames; the ending determines the codec (.mp4: mp4v, .avi: MJPG).

    It lasts as long as the scene: a dropped frame is replaced by a repetition of the one before. An .mp4 can only be played after
    `close`, an .avi even after a kill.
    """

    def __init__(self, path: str, rate: float = 25.0) -> None:
        # A video with thousands of frames per second would not play.
        self.path, self._rate = path, rate if 0 < rate <= MOST_RATE else 25.0
        self._timing = Timing(self._rate)
        self._last: Any = None
        self._late = False
        self._writer: Any = None
        self._size_wh: Tuple[int, int] = (0, 0)
        self._count, self._space_at, self._claim = 0, -1, -1
        folder = os.path.dirname(os.path.abspath(path))
        if not path.lower().endswith((".mp4", ".avi")):
            raise UsageError("edgedla writes no video of this kind", where=path, allowed=".mp4 or .avi")
        make_folder(folder)
        # OpenCV would report only at the first frame that it cannot write.
        require_room(path)
        if os.path.isfile(path):
            with writing(path):
                os.close(claimed(path))

    def write(self, result: FrameResult) -> None:
        missing = self._timing.missing(result.frame.clock_s)
        if missing is None:
            return
        cv2 = import_cv2()
        image = draw(result)
        if self._count // SPACE_EVERY != self._space_at:
            self._space_at = self._count // SPACE_EVERY
            require_space(self.path)
        if self._writer is None:
            code = "MJPG" if self.path.lower().endswith(".avi") else "mp4v"
            self._size_wh = image.shape[1::-1]
            with writing(self.path):
                self._claim = claimed(self.path)
            self._writer = cv2.VideoWriter(self.path, cv2.VideoWriter_fourcc(*code), self._rate, self._size_wh)
            if not self._writer.isOpened():
                self._writer = None
                raise RunError("OpenCV cannot write this video", where=self.path, hint="the codec may be missing: try .avi")
        if image.shape[1::-1] != self._size_wh:
            # The writer silently drops frames of another size.
            image = cv2.resize(image, self._size_wh)
        self._repeat(missing)
        self._writer.write(image)
        self._last = image
        self._timing.wrote(1)
        self._count += 1

    def _repeat(self, missing: int) -> None:
        """Repeats the last picture, for at most half of the time that it covers, because later frames are waiting."""
        until_s = time.monotonic() + self._timing.gap_s / 2
        for _ in range(missing):
            if time.monotonic() > until_s:
                if not self._late:
                    self._late = True
                    why = "this machine is too slow for %g frames per second, so the video plays too fast"
                    log.warning(f"%s: {why}; set a lower `max_rate` for the source", self.path, self._rate)
                return
            self._writer.write(self._last)
            self._timing.wrote(1)
            self._count += 1

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.release()
        claim, self._claim = self._claim, -1
        if claim >= 0:
            os.close(claim)
        if writer is None:
            return
        if not os.path.isfile(self.path) or not os.path.getsize(self.path):
            raise RunError("the video was not written", where=self.path)


class Callback:
    """Passes results to a function of the user."""

    def __init__(self, function: Callable[[FrameResult], object]) -> None:
        self._function = function

    def write(self, result: FrameResult) -> None:
        self._function(result)

    def close(self) -> None:
        return None
