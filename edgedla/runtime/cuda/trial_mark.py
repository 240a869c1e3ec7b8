"""A mark on disk that says "this process tries something that may end it", so that the next one does not try again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator

from edgedla.errors import DeviceLost
from edgedla.files import write_atomic


def mark_file(name: str) -> Path:
    """Below the user's cache folder; the service's HOME is its state folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "edgedla" / f"{name}.trying"


def ended_a_process(name: str) -> bool:
    """Whether the trial was begun by a process that is gone, and never finished."""
    try:
        pid = int(mark_file(name).read_text(encoding="utf-8"))
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


@contextlib.contextmanager
def trying(name: str) -> Iterator[None]:
    """Marks the trial. The mark stays where the block never ends, or where the device is lost in it."""
    path = mark_file(name)
    with contextlib.suppress(Exception):
        # Without a place for the mark the trial goes on: it is a convenience.
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, str(os.getpid()))
    try:
        yield
    except DeviceLost:
        raise
    except BaseException:
        _remove(path)
        raise
    _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
