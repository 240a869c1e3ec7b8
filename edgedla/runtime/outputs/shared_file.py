"""A file that several processes may write: whether it still is the one at its path, and who may rename it."""

from __future__ import annotations

import os


def is_at(path: str, fd: int) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def held_by_another(fd: int) -> bool:
    """Locks an open file until it is closed; True if another process has it. Where locks do not work, nobody has."""
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        pass
    return False
