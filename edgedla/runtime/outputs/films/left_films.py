"""Videos of clips in progress, and those left by killed processes: the kernel's file lock distinguishes them."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path
from typing import Tuple

log = logging.getLogger("edgedla.runtime.outputs.films.clips")
#: [source-]event-date-time-run-number; before runs had a number of their own, the time was local and had no Z.
STEM = r"[A-Za-z0-9_-]+-\d{8}-\d{6}(?:Z-[0-9a-f]{6})?-\d+"
#: Only matching videos are ours to remove.
CLIP = re.compile(rf"{STEM}\.(avi|mp4)")
#: What an object's best picture is called behind the event's name.
BEST = "-best.jpg"
_UNFINISHED = re.compile(rf"\.({STEM})\.[0-9a-f]{{16}}\.avi")
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def of_clip(path: Path) -> Tuple[Path, Path, Path]:
    """A clip, and the pictures that go with it."""
    return path, path.with_suffix(".jpg"), path.with_name(path.stem + BEST)


def unfinished(folder: Path, stem: str) -> Tuple[Path, int]:
    """(a new file for a clip's video, the descriptor that locks it); OpenCV opens it by name.

    Raises:
        OSError: it cannot be created.
    """
    while True:
        # OpenCV follows a link: a random name prevents anyone from planting one.
        path = folder / f".{stem}.{os.urandom(8).hex()}.avi"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | _NOFOLLOW, 0o666)
        _hold(fd)
        # Before it was locked, another process may have taken it for one left by a killed process.
        if os.path.exists(path):
            return path, fd
        os.close(fd)


def keep_left(folder: Path) -> None:
    """Renames videos that nobody writes any more to their final names; otherwise power cuts would fill the disk with them.

    An .avi plays up to where it was cut. It then counts as a clip; an empty one is removed.
    """
    for path in sorted(folder.glob(".*.avi")):
        match = _UNFINISHED.fullmatch(path.name)
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NOFOLLOW) if match else -1
            try:
                if match and _hold(fd):
                    _keep(path, folder / f"{match[1]}.avi", os.fstat(fd).st_size)
            finally:
                if fd >= 0:
                    os.close(fd)


def _keep(path: Path, name: Path, size: int) -> None:
    if not size or os.path.lexists(name):
        path.unlink()
        return
    os.rename(path, name)
    log.warning("%s: a killed process left this video unfinished; its frames so far are kept", name)


def _hold(fd: int) -> bool:
    """True if the file is now locked, until it is closed; False if another process holds it, or if locks do not work."""
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
