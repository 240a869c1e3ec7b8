"""Writing files whole, so that a reader sees the old file or the new one and never half of it; and their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import Iterator, Union

from edgedla.errors import EnvironmentMissing, UsageError

PathLike = Union[str, "os.PathLike[str]"]


def write_atomic(path: PathLike, data: Union[bytes, str]) -> Path:
    """Writes `data` (text as UTF-8) to a temporary file beside `path`, syncs it, and renames it.

    Missing folders are made. An existing file keeps its permissions; a new one gets those of the process's umask. A
    symbolic link keeps pointing where it points, and the file behind it is replaced. Devices and pipes (`/dev/stdout`)
    are written directly.

    Raises:
        UsageError: `path` is a folder, or something on the way to it is a file.
        EnvironmentMissing: the system refuses (permissions, full disk).
    """
    import tempfile  # lazily: with what it imports it takes longer than most files that are written

    body = data.encode("utf-8") if isinstance(data, str) else data
    with _explained(path):
        target = os.path.realpath(os.fspath(path))
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            # open() answers a folder with IsADirectoryError.
            with open(target, "wb") as special:
                special.write(body)
            return Path(path)
        folder = os.path.dirname(target)
        os.makedirs(folder, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(target)}.", suffix=".part")
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(body)
                f.flush()
                os.fchmod(f.fileno(), 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode))
                os.fsync(f.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    return Path(path)


def sha256_of(path: PathLike) -> str:
    """SHA-256 of a file's content, hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _mode(path: str) -> Union[int, None]:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    # The umask can only be read by setting it.
    current = os.umask(0o077)
    os.umask(current)
    return current


def _sync_folder(folder: str) -> None:
    # Some file systems (FUSE, network) refuse fsync on a folder; the rename has happened all the same.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


@contextlib.contextmanager
def _explained(path: PathLike) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as e:
        raise UsageError("cannot write: something on the way to this file is no folder", where=os.fspath(path)) from e
    except IsADirectoryError as e:
        raise UsageError("cannot write: this is a folder", where=os.fspath(path), hint="Name a file.") from e
    except OSError as e:
        raise EnvironmentMissing(f"cannot write: {e.strerror}", where=os.fspath(path)) from e
