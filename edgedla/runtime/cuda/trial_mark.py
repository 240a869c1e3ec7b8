"""A mark on disk that says "this process tries something that may crash it", so that the next process does not try again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator

from edgedla.errors import DeviceLost
from edgedla.io.files import write_atomic


def mark_file(name: str) -> Path:
    """The mark's path, below the user's cache folder; for the service, HOME is its state folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "edgedla" / f"{name}.trying"


def ended_a_process(name: str) -> bool:
    """True if a process that no longer exists began the trial and never finished it."""
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
    """Marks the trial within the `with` block. The mark stays if the block never ends, or if the device is lost in it."""
    path = mark_file(name)
    with contextlib.suppress(Exception):
        # If the mark cannot be written, the trial runs anyway: the mark is only a convenience.
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
