"""One user at a time: a lock that belongs to the board, not to an account, and records who holds it since when."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Any, Dict, List, Optional, Tuple

#: The holder's record is written by others, so at most this much of it is read.
INFO_BYTES = 4096
FIELDS = ("owner", "since", "up_s", "what", "kind", "job")
#: A new holder writes its record a moment after it takes the lock.
READS, READ_EVERY_S = 5, 0.05


class Busy(Exception):
    """Somebody else has the board: `holder` says who, if known; `path` is the lock's file."""

    def __init__(self, holder: Dict[str, Any], path: str = "") -> None:
        super().__init__("busy")
        self.holder, self.path = holder, path


def acquire(info: Dict[str, str]) -> List[int]:
    """Takes the board for a job or a reservation; returns descriptors that hold it until the last copy is closed.

    A job takes two locks: one common to all jobs, and the board's. It skips the second if its own user has reserved the
    board.

    Raises:
        Busy.
    """
    held: List[int] = []
    try:
        if info.get("kind") != "hold":
            held.append(_take("jobs", info))
        try:
            held.append(_take("board", info))
        except Busy as e:
            if info.get("kind") == "hold" or e.holder.get("kind") != "hold" or e.holder.get("owner") != info["owner"]:
                raise
    except BaseException:
        for fd in held:
            os.close(fd)
        raise
    return held


def uptime_s() -> float:
    """Seconds since the board was started; unlike the time of day, this never jumps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def holder() -> Optional[Dict[str, Any]]:
    """Who has the board now, and for how many seconds (`for_s`); None if it is free."""
    for name in ("jobs", "board"):
        fd = _open(name)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _holder(fd)
        finally:
            os.close(fd)
    return None


def _take(name: str, info: Dict[str, str]) -> int:
    fd = _open(name)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = _holder(fd)
        os.close(fd)
        raise Busy(holder, _path(name))
    try:
        os.ftruncate(fd, 0)
        info = dict(info, up_s=f"{uptime_s():.1f}")
        os.pwrite(fd, json.dumps({k: info[k] for k in FIELDS if k in info}).encode("ascii")[:INFO_BYTES], 0)
    except OSError:
        pass  # a lock file that only another user may write: the lock is held anyway, without a record of the holder
    return fd


def _path(name: str) -> str:
    folder = os.path.join(os.environ.get("EDGEDLA_ROOT") or "/", "run", "lock")
    if not os.path.isdir(folder):
        folder = os.path.join(os.environ.get("EDGEDLA_ROOT") or "/", "tmp")
        os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"edgedla-{name}.lock")


def _open(name: str) -> int:
    path = _path(name)
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        # In a sticky folder, opening another user's file with O_CREAT is refused, so that is tried second.
        try:
            fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except (FileNotFoundError, FileExistsError, PermissionError):
            continue
        if flags & os.O_CREAT:
            os.fchmod(fd, 0o666)
        return fd
    raise PermissionError(f"the lock {path} cannot be opened")


def _holder(fd: int) -> Dict[str, Any]:
    for _ in range(READS):
        holder: Dict[str, Any] = dict(_read(fd))
        if holder:
            break
        time.sleep(READ_EVERY_S)
    with contextlib.suppress(KeyError, ValueError, OverflowError):
        holder["for_s"] = round(uptime_s() - float(holder.pop("up_s")), 1)
    return holder


def _read(fd: int) -> Dict[str, str]:
    try:
        holder: Any = json.loads(os.pread(fd, INFO_BYTES, 0).decode("ascii"))
    except (ValueError, OSError):
        return {}
    pairs: List[Tuple[str, Any]] = list(holder.items()) if isinstance(holder, dict) else []
    return {k: v for k, v in pairs if k in FIELDS and isinstance(v, str)}
