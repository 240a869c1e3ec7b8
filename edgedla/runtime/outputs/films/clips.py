"""Clips of events: the seconds before, the event itself and the seconds after, as a video of annotated pictures."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import functools
import logging
import os
import queue
import threading
import time
from pathlib import Path
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple, Union

import numpy as np

from edgedla.errors import EdgedlaError, RunError, described
from edgedla.io.files import make_folder, require_room, write_atomic, writing
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import draw, draw_scene
from edgedla.runtime.outputs.event_zone import Document
from edgedla.runtime.outputs.films.clip_config import ClipConfig, check_clips
from edgedla.runtime.outputs.films.left_films import BEST, CLIP, keep_left, of_clip, unfinished
from edgedla.runtime.outputs.films.mp4 import ENDS_S, to_mp4
from edgedla.runtime.outputs.films.newest import Newest
from edgedla.runtime.outputs.pictures import PicturesByClock, PictureThread
from edgedla.runtime.outputs.sinks import SPACE_EVERY, require_space
from edgedla.runtime.sources.opencv import import_cv2

log = logging.getLogger("edgedla.runtime.outputs.films.clips")
QUALITY = 85
#: Clips of one source that are recorded at a time: each is encoded separately.
MOST_AT_ONCE = 8
#: Seconds for the last clips to be encoded at the end of a run; what is not done by then stays an .avi.
CLOSE_S = 8.0
#: After so long without results, a source's thread and pictures are released.
SILENT_S = 60.0


class Clips:
    """Records all sources, each on its own thread. Disk errors are logged and reported, but do not end the pipeline."""

    def __init__(self, config: ClipConfig) -> None:
        check_clips(config)
        self._config = config
        self.done: queue.SimpleQueue[Document] = queue.SimpleQueue()
        self._films: Dict[str, _Film] = {}
        self._newest = Newest(config.keep)
        #: Encodes complete clips, one at a time; until when at the end. What waits for it is newer than what it made.
        self._encoding = concurrent.futures.ThreadPoolExecutor(1, "edgedla-mp4")
        self._waiting: Set[str] = set()
        self._until_s = float("inf")
        self._source_of: Dict[str, str] = {}
        require_room(make_folder(config.folder) / "clip.avi")
        with writing(config.folder):
            keep_left(Path(config.folder))

    def put(self, result: FrameResult) -> None:
        film = self._films.get(result.source)
        if film is not None and film.by_clock != by_clock(result):
            # Another source now has its name.
            self._films.pop(result.source).close()
            film = None
        if film is None:
            film = self._films[result.source] = _Film(result.source, self._config, self._complete, by_clock(result))
        film.put(result)
        for source in [s for s, f in self._films.items() if f.silent(film.last_s)]:
            # Its thread ends by itself: waiting for it would delay the other sources.
            self._films.pop(source).close(wait_s=0.0)

    def begin(self, name: str, document: Document, result: FrameResult) -> None:
        self._source_of[name] = result.source
        if not self._films[result.source].begin(_Clip(name, document, result)):
            why = f"{MOST_AT_ONCE} clips of this source are being recorded"
            names = {k: document[k] for k in ("event", "id", "source", "model") if k in document}
            self.done.put({**names, "state": "clip", "time": round(time.time(), 3), "clip": None, "why": why})

    def end(self, name: str) -> None:
        film = self._films.get(self._source_of.pop(name))
        if film is not None:
            film.end(name)

    def best(self, name: str, jpeg: bytes) -> str:
        path = Path(self._config.folder) / f"{name}{BEST}"
        try:
            require_space(str(path))
            return str(write_atomic(path, jpeg, follow=False))
        except (EdgedlaError, OSError) as e:
            log.error("the picture %s fails: %s", name, described(e))
            return ""

    def _complete(self, path: Optional[Path], document: Document) -> None:
        """Tells of a clip, once it is encoded."""
        if path is None:
            self.done.put(document)
        else:
            self._waiting.add(path.name)
            self._encoding.submit(self._encode, path, document)

    def _encode(self, path: Path, document: Document) -> None:
        self._waiting.discard(path.name)
        try:
            if self._config.format == "mp4":
                path = to_mp4(path, min(ENDS_S, self._until_s - time.monotonic()))
            self._newest.wrote(path)
            self._forget()
        finally:
            self.done.put({**document, "clip": str(path)})

    def _forget(self) -> None:
        """Removes the oldest clips with their pictures."""
        films = [p for p in Path(self._config.folder).iterdir() if CLIP.fullmatch(p.name) and p.name not in self._waiting]
        for old in self._newest.surplus(films):
            for path in of_clip(old):
                with contextlib.suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        self._until_s = time.monotonic() + CLOSE_S
        for film in self._films.values():
            film.close()
        self._encoding.shutdown()


class _Clip:
    def __init__(self, name: str, document: Document, result: FrameResult) -> None:
        self.name = name
        self.document = {k: document[k] for k in ("event", "id", "source", "model") if k in document}
        #: For the event's picture, drawn once on the recording thread.
        self.result: Optional[FrameResult] = result
        self.began_s, self.ended_s = result.frame.seen_s, float("inf")
        self.picture = ""
        self.writer: Any = None
        self.partial, self.held = Path(), -1
        self.size_wh: Tuple[int, int] = (0, 0)
        self.first_s = 0.0
        #: Pictures written, and their number at the last check of disk space.
        self.count = self.looked = 0
        self.last: Optional[np.ndarray] = None
        self.why = ""


def by_clock(result: FrameResult) -> bool:
    """True if the source is a video: its clock is not the real time."""
    return result.frame.clock_s not in (None, result.frame.captured_s)


class _Film:
    """The pictures of one source (the newest in memory as JPEG), and the clips being written.

    Args:
        by_clock: the source is a video, and its clips use the video's own seconds.
    """

    def __init__(
        self, source: str, config: ClipConfig, complete: Callable[[Optional[Path], Document], None], by_clock: bool
    ) -> None:
        self._config, self._complete = config, complete
        self._before: Deque[Tuple[float, bytes]] = collections.deque()
        self._lock = threading.Lock()
        self._clips: List[_Clip] = []
        self.last_s = time.monotonic()
        self.by_clock, self._seen_s = by_clock, 0.0
        name = f"edgedla-clips-{source}"
        self.pictures: Union[PicturesByClock, PictureThread] = (
            PicturesByClock(name, config.rate, config.width, self._picture, self._is_used)
            if by_clock
            else PictureThread(name, config.rate, config.width, self._picture, self._finish_due, self._is_used)
        )

    def put(self, result: FrameResult) -> None:
        self.last_s, self._seen_s = time.monotonic(), result.frame.seen_s
        self.pictures.put(result)
        if self.by_clock:
            self._finish_due()

    def _now_s(self) -> float:
        return self._seen_s if self.by_clock else time.monotonic()

    def silent(self, now_s: float) -> bool:
        """True if the source (removed or broken) gave no result for long and no clip is open."""
        return now_s - self.last_s >= SILENT_S and not self._now()

    def _is_used(self) -> bool:
        return bool(self._config.before_s or self._clips)

    def begin(self, clip: _Clip) -> bool:
        """False where so many are being recorded that one more would slow all of them down."""
        with self._lock:
            if len(self._clips) >= MOST_AT_ONCE:
                return False
            self._clips.append(clip)
            return True

    def end(self, name: str) -> None:
        with self._lock:
            for clip in self._clips:
                if clip.name == name:
                    clip.ended_s = self._now_s()

    def _now(self) -> List[_Clip]:
        with self._lock:
            return list(self._clips)

    def _picture(self, image: np.ndarray, at_s: float) -> None:
        cv2 = import_cv2()
        for clip in self._now():
            if clip.writer is None:
                _attempt(clip, functools.partial(self._open, clip, image))
            if clip.looked <= clip.count:
                clip.looked = clip.count + SPACE_EVERY
                _attempt(clip, functools.partial(require_space, str(clip.partial)))
            _attempt(clip, functools.partial(_add, clip, image, at_s, self._config.rate))
        good, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        if good and self._config.before_s:
            self._before.append((at_s, data.tobytes()))
        while self._before and at_s - self._before[0][0] > self._config.before_s:
            self._before.popleft()

    def _open(self, clip: _Clip, image: np.ndarray) -> None:
        """Writes the event's picture, and starts the video with the seconds before."""
        cv2 = import_cv2()
        folder, stem = Path(self._config.folder), clip.name
        require_space(str(folder / stem))
        if clip.result is not None:
            good, data = cv2.imencode(".jpg", draw(clip.result), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
            clip.picture = str(write_atomic(folder / f"{stem}.jpg", data.tobytes() if good else b"", follow=False))
            clip.result = None
        clip.size_wh = (image.shape[1], image.shape[0])
        clip.partial, clip.held = unfinished(folder, stem)
        clip.writer = cv2.VideoWriter(str(clip.partial), cv2.VideoWriter_fourcc(*"MJPG"), self._config.rate, clip.size_wh)
        if not clip.writer.isOpened():
            raise RunError("OpenCV cannot write this video", where=str(folder / f"{stem}.avi"))
        for at_s, data in self._before:
            _add(clip, cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), at_s, self._config.rate)

    def _show_event(self, clip: _Clip) -> None:
        """Of a clip that ends before a picture came behind its event's: that one, and the seconds before."""
        assert clip.result is not None
        image = draw_scene([clip.result], width=self._config.width)
        self._open(clip, image)
        _add(clip, image, clip.began_s, self._config.rate)

    def _finish_due(self, now: Optional[float] = None) -> None:
        now = self._now_s() if now is None else now
        for clip in self._now():
            end_s = min(clip.ended_s + self._config.after_s, clip.began_s + self._config.most_s)
            if now >= end_s:
                self._finish(clip)

    def _finish(self, clip: _Clip) -> None:
        with self._lock:
            # If the recording thread does not end in time, it and the closing thread may both get here.
            if clip not in self._clips:
                return
            self._clips.remove(clip)
        path = Path(self._config.folder) / f"{clip.name}.avi"
        if clip.writer is None:
            _attempt(clip, functools.partial(self._show_event, clip))
        if clip.writer is not None:
            clip.writer.release()
        _attempt(clip, functools.partial(_settle, clip.partial, path))
        if clip.why:
            with contextlib.suppress(OSError):
                clip.partial.unlink()
        if clip.held >= 0:
            os.close(clip.held)
        document = {**clip.document, "state": "clip", "time": round(time.time(), 3), "picture": clip.picture or None}
        if clip.why:
            document.update(clip=None, why=clip.why)
        else:
            document.update(clip=str(path), seconds=round(clip.count / self._config.rate, 3))
        self._complete(None if clip.why else path, document)

    def close(self, wait_s: float = 5.0) -> None:
        """Finishes every clip with the pictures so far."""
        self.pictures.close(wait_s)
        self._finish_due(float("inf"))


def _attempt(clip: _Clip, do: Callable[[], object]) -> None:
    """Calls it, unless the clip has failed before; a failure concerns only this clip."""
    if clip.why:
        return
    try:
        do()
    except Exception as e:
        clip.why = e.what if isinstance(e, EdgedlaError) else described(e)
        log.error("the clip %s fails: %s", clip.name, clip.why)


def _settle(partial: Path, path: Path) -> None:
    """Renames a complete video; raises if it is empty, because OpenCV reports nothing, not even a full disk."""
    if not partial.is_file() or not partial.stat().st_size:
        require_space(str(path))
        raise RunError("OpenCV wrote nothing, and does not say why", where=str(path))
    with open(partial, "rb") as f:
        os.fsync(f.fileno())
    if path.is_file() and not path.is_symlink():
        raise RunError("a clip of this name is there", where=str(path))
    os.replace(partial, path)


def _add(clip: _Clip, image: np.ndarray, at_s: float, rate: float) -> None:
    """Writes the picture as often as its time requires: videos have a constant rate, cameras do not."""
    if image.shape[1::-1] != clip.size_wh:
        image = import_cv2().resize(image, clip.size_wh)
    if clip.last is None:
        clip.first_s = at_s
    due = int((at_s - clip.first_s) * rate + 0.5) + 1
    for _ in range(due - clip.count - 1):
        clip.writer.write(clip.last)
    if due > clip.count or clip.last is None:
        clip.writer.write(image)
    clip.count, clip.last = max(due, clip.count), image
