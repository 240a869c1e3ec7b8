"""Tar files that others made: their headers are read in bounded memory, and their members are counted."""

from __future__ import annotations

import contextlib
import gzip
import tarfile
from pathlib import Path
from typing import IO, Any, Iterator

from edgedla.io.files import open_plain

#: Most bytes read at once. tarfile reads a header's long name whole, whatever size it states.
BLOCK_BYTES = 1 << 20


class _Bounded:
    """A file that refuses what no honest tar asks for."""

    def __init__(self, file: Any, most_bytes: int) -> None:
        self._file, self._most_bytes = file, most_bytes
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= BLOCK_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        data: bytes = self._file.read(size)
        return data

    def seek(self, to: int, whence: int = 0) -> int:
        if to > self._most_bytes:
            raise tarfile.ReadError(f"it is larger than {self._most_bytes} bytes")
        return int(self._file.seek(to, whence))


@contextlib.contextmanager
def open_tar(path: Path, most_bytes: int) -> Iterator[tarfile.TarFile]:
    """A tar, plain or by gzip, of at most so many bytes without compression. Its files are to be read by `blocks`.

    Raises:
        OSError, EOFError, tarfile.TarError, RecursionError, zlib.error: it cannot be read, or is none.
    """
    with open_plain(path) as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        bounded: Any = _Bounded(gzip.GzipFile(fileobj=plain) if packed else plain, most_bytes)
        with tarfile.open(fileobj=bounded, mode="r:") as tar:
            yield tar


def members_of(tar: tarfile.TarFile, most: int) -> Iterator[tarfile.TarInfo]:
    """Its members, also several of one name.

    Raises:
        tarfile.ReadError: more than `most`.
    """
    for count, member in enumerate(tar):
        if count == most:
            raise tarfile.ReadError(f"it has more than {most} members")
        yield member


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK_BYTES), b"")
