"""Files on the board by their SHA-256: sent once, whole or as a part that the next connection goes on with."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from typing import BinaryIO, Optional, Tuple

SHA256 = re.compile(r"[0-9a-f]{64}\Z")
CLIENT = re.compile(r"[0-9a-z]{1,32}\Z")
#: After so many bytes they are on the card: to write the whole of a large file out at its end may take minutes.
SYNC_BYTES = 64 << 20
#: Blobs and parts that no job used for so long are removed.
KEEP_S = 30 * 24 * 3600.0
#: A clock that goes back further was set.
CLOCK_S = 24 * 3600.0


class Refused(Exception):
    """The board cannot do what is asked: what, and what to do about it."""

    def __init__(self, what: str, hint: str = "", code: str = "refused") -> None:
        super().__init__(what)
        self.what, self.hint, self.code = what, hint, code


class Progress:
    """When the board's side last got on with something (time.monotonic): what is slow gets on, what hangs does not."""

    at = time.monotonic()

    @classmethod
    def made(cls) -> None:
        cls.at = time.monotonic()


def place() -> str:
    """Where everything stands; EDGEDLA_BOARD_HOME sets another place."""
    chosen = os.environ.get("EDGEDLA_BOARD_HOME")
    return chosen or os.path.join(os.path.expanduser("~"), ".cache", "edgedla", "board")


def home() -> str:
    """`place`, made where it is missing."""
    base = place()
    os.makedirs(base, mode=0o700, exist_ok=True)
    return base


def blob_path(sha256: str) -> str:
    """Raises Refused where it is no SHA-256: it becomes a file's name."""
    if not isinstance(sha256, str) or not SHA256.match(sha256):
        raise Refused(f"no SHA-256: {sha256!r}")
    return os.path.join(home(), "blobs", sha256)


def offset_of(sha256: str, size: int, client: str) -> int:
    """How many bytes of a blob stand here already: `size` where it is whole."""
    path = blob_path(sha256)
    try:
        if os.path.getsize(path) == size:
            os.utime(path)
            return size
    except OSError:
        pass
    try:
        return min(os.path.getsize(_part_path(sha256, client)), size)
    except OSError:
        return 0


def free_bytes() -> int:
    stat = os.statvfs(home())
    return stat.f_bavail * stat.f_frsize


class Incoming:
    """One blob that is being sent: bytes are appended to its part; `finish` verifies and names it."""

    def __init__(self, sha256: str, size: int, offset: int, client: str) -> None:
        self.sha256, self.size = sha256, size
        for folder in ("blobs", "parts"):
            os.makedirs(os.path.join(home(), folder), mode=0o700, exist_ok=True)
        self._part = _part_path(sha256, client)
        self._file: Optional[BinaryIO] = open(self._part, "ab")  # noqa: SIM115 - closed by finish or abandon
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.abandon()
            raise Refused("this file is being sent by another edgedla of this laptop", "wait for it, then try again")
        there = self._file.tell()
        if there != offset:
            self.abandon()
            raise Refused("the part has %d bytes, not %d" % (there, offset), "try again")

    def append(self, data: bytes) -> None:
        """Raises Refused: the disk is full, or more comes than was announced."""
        assert self._file is not None
        if self._file.tell() + len(data) > self.size:
            self.abandon()
            raise Refused("more bytes than announced")
        at = self._file.tell()
        try:
            self._file.write(data)
            self._file.flush()
            if at // SYNC_BYTES != (at + len(data)) // SYNC_BYTES:
                os.fsync(self._file.fileno())
        except OSError as e:
            # The part goes: on a full disk it would be what keeps it full.
            os.unlink(self._part)
            self.abandon()
            raise Refused("the board's disk: %s" % (e.strerror or e), f"free some space below {home()}", "disk")

    def finish(self) -> None:
        """Raises Refused: the content is not what was announced; the part is removed."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        if digest_of(self._part) != (self.sha256, self.size):
            os.unlink(self._part)
            self.abandon()
            raise Refused("the content that came is not the one announced", "try again")
        os.chmod(self._part, 0o444)
        os.replace(self._part, blob_path(self.sha256))
        self.abandon()

    def abandon(self) -> None:
        """Ends writing; the part stays for the next connection."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def digest_of(path: str) -> Tuple[str, int]:
    """SHA-256 and size."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
            size += len(block)
            Progress.made()
    return digest.hexdigest(), size


def settle(now: Optional[float] = None) -> None:
    """Counts all ages from now on where the clock jumped: without a battery it wakes up in another year until it is set.

    A board that nobody used for KEEP_S looks the same; what it holds stays for as long again.
    """
    now = now or time.time()
    seen = os.path.join(home(), "seen")
    try:
        last = os.stat(seen).st_mtime
    except OSError:
        last = now
    if not -CLOCK_S <= now - last <= KEEP_S:
        for folder in ("blobs", "parts", "jobs"):
            base = os.path.join(home(), folder)
            for name in os.listdir(base) if os.path.isdir(base) else ():
                with contextlib.suppress(OSError):
                    os.utime(os.path.join(base, name), (now, now))
    with contextlib.suppress(OSError), open(seen, "w"):
        os.utime(seen, (now, now))


def prune(now: Optional[float] = None) -> None:
    """Removes blobs and parts that nobody used for KEEP_S."""
    settle(now)
    for folder in ("blobs", "parts"):
        base = os.path.join(home(), folder)
        for name in os.listdir(base) if os.path.isdir(base) else ():
            path = os.path.join(base, name)
            try:
                if os.stat(path).st_mtime < (now or time.time()) - KEEP_S:
                    os.unlink(path)
            except OSError:
                continue
            Progress.made()


def _part_path(sha256: str, client: str) -> str:
    if not CLIENT.match(client):
        raise Refused(f"no client name: {client!r}")
    return os.path.join(home(), "parts", f"{os.path.basename(blob_path(sha256))}.{client}")
