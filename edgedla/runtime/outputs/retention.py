"""Removes the oldest files that a pipeline wrote: by age, by their size together, and until the disk has enough free space."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from edgedla.errors import described
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.films.left_films import CLIP, of_clip
from edgedla.runtime.outputs.films.newest import age_ns
from edgedla.runtime.outputs.films.segments import segments_of
from edgedla.runtime.outputs.mqtt_config import ONLY

log = logging.getLogger("edgedla.runtime.outputs.retention")
#: How often the files are looked at. A failed output waits longer than this before it is opened again.
EVERY_S = 5.0
GB = 1e9


class Kept(NamedTuple):
    """One complete file, with those that go with it (a clip's picture)."""

    time_s: float
    size: int
    paths: Tuple[Path, ...]


class Retention:
    """Looks at the files every EVERY_S on a thread of its own. A file that is still being written is never removed.

    Args:
        files: the complete files of all outputs, in groups that go together.
        folders: where outputs write; their disks keep `free_gb`.
        days, gb, free_gb: 0: no limit. GB are 10^9 bytes.
    """

    #: Of no pipeline the only output.
    stores = False

    def __init__(
        self, files: Callable[[], Iterable[Tuple[Path, ...]]], folders: Iterable[Path], days: float, gb: float, free_gb: float
    ) -> None:
        self._files, self._folders = files, list(folders)
        self._most_s, self._most, self._free = days * 86400, gb * GB, free_gb * GB
        self.removed = 0
        self._told_full = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edgedla-retention", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self.look()
            except Exception as e:
                log.error("old files cannot be removed: %s", described(e))
            if self._stop.wait(EVERY_S):
                return

    def look(self) -> None:
        """Removes what is too old or too much, oldest first."""
        kept: List[Kept] = sorted(_looked_at(self._files()))
        size, now_s = sum(k.size for k in kept), time.time()
        lacking = self._lacking()
        for oldest in kept:
            disk = _disk(oldest.paths[0])
            too_old = self._most_s and now_s - oldest.time_s > self._most_s
            if too_old or (self._most and size > self._most) or lacking.get(disk, 0) > 0:
                for path in oldest.paths:
                    with contextlib.suppress(OSError):
                        path.unlink()
                self.removed += 1
                size -= oldest.size
                lacking[disk] = lacking.get(disk, 0) - oldest.size
        self._tell(any(n > 0 for n in self._lacking().values()))

    def _tell(self, full: bool) -> None:
        if full and not self._told_full:
            log.error("less than outputs.free_gb is free, and no older file of this pipeline is left to remove")
        self._told_full = full

    def _lacking(self) -> Dict[int, float]:
        """Disk -> bytes that lack to `free_gb`."""
        if not self._free:
            return {}
        there = [folder for folder in self._folders if folder.is_dir()]
        return {_disk(folder): self._free - shutil.disk_usage(folder).free for folder in there}

    def write(self, result: FrameResult) -> None:
        """Files, not results, are what it works on."""

    def close(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def to_dict(self) -> Dict[str, object]:
        return {"output": "retention", "removed": self.removed}


def _looked_at(groups: Iterable[Tuple[Path, ...]]) -> Iterator[Kept]:
    for paths in groups:
        with contextlib.suppress(OSError):
            first = paths[0].lstat()
            more = [p.lstat().st_size for p in paths[1:] if p.exists()]
            yield Kept(first.st_mtime, first.st_size + sum(more), paths)


def _disk(path: Path) -> int:
    with contextlib.suppress(OSError):
        return os.stat(path if path.is_dir() else path.parent).st_dev
    return -1


def lines_of(path: str) -> Iterator[Tuple[Path, ...]]:
    """The full files PATH.1, PATH.2 and so on of JSON lines."""
    if path:
        folder, name = os.path.split(path)
        numbered = re.compile(re.escape(name) + r"\.\d+")
        yield from ((p,) for p in _entries(Path(folder or ".")) if numbered.fullmatch(p.name))


def pictures_of(folder: str) -> Iterator[Tuple[Path, ...]]:
    yield from ((p,) for p in _entries(Path(folder)) if re.fullmatch(r"frame_\d+\.jpg", p.name))


def clips_of(folder: str) -> Iterator[Tuple[Path, ...]]:
    yield from (of_clip(p) for p in _entries(Path(folder)) if CLIP.fullmatch(p.name))


def films_of(path: str) -> Iterator[Tuple[Path, ...]]:
    """The segments of a video, without the newest, which is being written."""
    files = sorted(segments_of(*os.path.splitext(path)), key=age_ns)
    yield from ((p,) for p in files[:-1])


def recordings_of(folder: str, sources: Sequence[str]) -> Iterator[Tuple[Path, ...]]:
    """The files of cameras' own streams, without the newest of each, which is being written."""
    entries = _entries(Path(folder)) if folder else []
    for source in sources:
        ours = re.compile(re.escape(source or ONLY) + r"-\d{8}-\d{6}Z-[0-9a-f]{4}-\d{5,}\.mkv")
        # By name, which holds the start and a number: a file that ended may be flushed after the next one began.
        files = sorted(p for p in entries if ours.fullmatch(p.name))
        yield from ((p,) for p in files[:-1])


def _entries(folder: Path) -> List[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
