"""Files on the board by SHA-256: each is sent once, and a partial one is continued by the next connection."""

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
#: Data is flushed to the card after so many bytes: flushing a large file at its end may take minutes.
SYNC_BYTES = 64 << 20
#: Blobs and partial files unused for this long are removed.
KEEP_S = 30 * 24 * 3600.0
#: A clock that goes back by more than this was set.
CLOCK_S = 24 * 3600.0


class Refused(Exception):
    """The board cannot do what was requested: `what`, and a hint."""

    def __init__(self, what: str, hint: str = "", code: str = "refused") -> None:
        super().__init__(what)
        self.what, self.hint, self.code = what, hint, code


class Progress:
    """The time of the board's last progress (time.monotonic), which tells a slow board from one that hangs."""

    at = time.monotonic()

    @classmethod
    def made(cls) -> None:
        cls.at = time.monotonic()


def place() -> str:
    """The folder of all data; EDGEDLA_BOARD_HOME sets another one."""
    chosen = os.environ.get("EDGEDLA_BOARD_HOME")
    return chosen or os.path.join(os.path.expanduser("~"), ".cache", "edgedla", "board")


def home() -> str:
    """`place`, created if missing."""
    base = place()
    os.makedirs(base, mode=0o700, exist_ok=True)
    return base


def blob_path(sha256: str) -> str:
    """The path of a blob. Raises Refused if the name is not a SHA-256, because it becomes a file's name."""
    if not isinstance(sha256, str) or not SHA256.match(sha256):
        raise Refused(f"not a SHA-256: {sha256!r}")
    return os.path.join(home(), "blobs", sha256)


def offset_of(sha256: str, size: int, client: str) -> int:
    """How many bytes of a blob are already here: `size` if it is complete."""
    path = blob_path(sha256)
    try:
        if os.path.getsize(path) == size:
            os.utime(path)
            return size
    except OSError:
        pass
    try:
        present = os.path.getsize(_part_path(sha256, client))
    except OSError:
        return 0
    if present < size:
        return present
    try:
        # The connection broke after the last byte, before the file was verified.
        Incoming(sha256, size, present, client).finish()
        return size
    except Refused:
        return 0


def free_bytes() -> int:
    stat = os.statvfs(home())
    return stat.f_bavail * stat.f_frsize


class Incoming:
    """A blob being sent: bytes are appended to a partial file; `finish` verifies and renames it."""

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
        present = self._file.tell()
        if present != offset:
            self.abandon()
            raise Refused("the part has %d bytes, not %d" % (present, offset), "try again")

    def append(self, data: bytes) -> None:
        """Raises Refused: the disk is full, or more bytes come than announced."""
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
            # The partial file is removed: otherwise it would keep the full disk full.
            os.unlink(self._part)
            self.abandon()
            raise Refused("the board's disk: %s" % (e.strerror or e), f"free some space below {home()}", "disk")

    def finish(self) -> None:
        """Raises Refused if the content is not the announced one; then the partial file is removed."""
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
        """Stops writing; the partial file stays for the next connection."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def digest_of(path: str) -> Tuple[str, int]:
    """(SHA-256, size) of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
            size += len(block)
            Progress.made()
    return digest.hexdigest(), size


def settle(now: Optional[float] = None) -> None:
    """Restarts all ages if the clock has jumped: without a battery it starts in another year until it is set.

    A board that nobody used for KEEP_S looks the same; its data then stays for another KEEP_S.
    """
    now = now or time.time()
    stamp_file = os.path.join(home(), "seen")
    try:
        last = os.stat(stamp_file).st_mtime
    except OSError:
        last = now
    if not -CLOCK_S <= now - last <= KEEP_S:
        for folder in ("blobs", "parts", "jobs"):
            base = os.path.join(home(), folder)
            for name in os.listdir(base) if os.path.isdir(base) else ():
                with contextlib.suppress(OSError):
                    os.utime(os.path.join(base, name), (now, now))
    with contextlib.suppress(OSError), open(stamp_file, "w"):
        os.utime(stamp_file, (now, now))


def prune(now: Optional[float] = None) -> None:
    """Removes blobs and partial files that nobody used for KEEP_S."""
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
        raise Refused(f"not a client name: {client!r}")
    return os.path.join(home(), "parts", f"{os.path.basename(blob_path(sha256))}.{client}")
