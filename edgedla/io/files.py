"""Writing files whole, so that a reader sees the old file or the new one and never half of it; and their SHA-256."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO, Iterable, Iterator, List, Sequence, Tuple, Union

from edgedla.errors import DocumentError, EnvironmentMissing, UsageError, current_folder_is_gone, from_os_error
from edgedla.io.left_files import sweep

PathLike = Union[str, "os.PathLike[str]"]
Content = Union[bytes, str, Iterator[bytes]]
#: Windows has no such flags.
_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)
#: Of a name of up to 255 bytes, so much stands in the name of its partial file.
MOST_NAME = 50
#: Below this size, Python's own SHA-256 is faster than loading OpenSSL.
_LITTLE_BYTES = 4 << 20


def write_atomic(path: PathLike, data: Content, *, follow: bool = True, private: bool = False) -> Path:
    """Writes `data` (text as UTF-8, or bytes one after the other) to a temporary file beside `path`, syncs it, and renames it.

    Missing folders are made. An existing file keeps its permissions; a new one gets those of the process's umask. A
    symbolic link keeps pointing where it points, and the file behind it is replaced. Devices and pipes (`/dev/stdout`)
    are written directly.

    Args:
        follow: False replaces a symbolic link itself, for files in a folder that somebody else may have filled.
        private: it holds a secret: mode 0600, whatever stood there.

    Raises:
        UsageError: `path` is a folder, or something on the way to it is a file.
        EnvironmentMissing: the system refuses (permissions, full disk).
    """
    # A file's name may hold bytes that are no UTF-8; \udcff stands for one, which JSON reads back as the same name.
    text = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    body = text if isinstance(text, Iterator) else (text,)
    with writing(path):
        target = os.path.realpath(os.fspath(path)) if follow else os.path.abspath(os.fspath(path))
        if special_file(target, follow):
            # open() answers a folder with IsADirectoryError.
            with open(target, "wb") as special:
                special.writelines(body)
            return Path(path)
        folder = os.path.dirname(target)
        made = make_missing(folder)
        temporary = ""
        try:
            fd, temporary = open_partial(folder, os.path.basename(target))
            _fill(fd, target, body, follow, private)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            remove_empty(made)
            raise
        sync_folder(folder)
    return Path(path)


def make_missing(folder: str) -> List[str]:
    """The folder and those above it that were missing, as they were made: for `remove_empty` after a failure.

    Raises:
        OSError: the system refuses; none is left then.
    """
    missing: List[str] = []
    while folder and not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    try:
        os.makedirs(missing[-1] if missing else folder, exist_ok=True)
    except BaseException:
        remove_empty(missing)
        raise
    return missing


def remove_empty(folders: Sequence[str]) -> None:
    """Removes those of `make_missing` that hold nothing."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def special_file(path: str, follow: bool) -> bool:
    """Whether a folder, a device or a pipe stands there, which no rename replaces."""
    mode = _mode(path, follow)
    return mode is not None and not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)


def write_partial(target: str, partial: str, body: Iterable[bytes], *, follow: bool, private: bool) -> None:
    """A new file `partial`, with the permissions of the one at `target`, synced.

    Raises:
        OSError: the system refuses.
    """
    # The kernel takes the process's umask off 0666; reading it would mean to set it, for every thread.
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | _NOFOLLOW, 0o666)
    _fill(fd, target, body, follow, private)


def _fill(fd: int, target: str, body: Iterable[bytes], follow: bool, private: bool) -> None:
    mode = _mode(target, follow)
    with os.fdopen(fd, "wb") as f:
        if private:
            os.fchmod(f.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        f.writelines(body)
        f.flush()
        if mode is not None and stat.S_ISREG(mode) and not private:
            os.fchmod(f.fileno(), stat.S_IMODE(mode))
        os.fsync(f.fileno())


def write_below(root: PathLike, name: str, data: Union[bytes, str]) -> Path:
    """Writes `root`/`name`, whole, where somebody else may have filled `root`: below it no link is followed.

    Raises:
        As `write_atomic`; UsageError too where a link stands for a folder.
    """
    return write_atomic(below(root, name), data, follow=False)


def below(root: PathLike, name: str) -> Path:
    """`root`/`name`, with slashes between folders.

    Raises:
        UsageError: a link stands for one of the folders between them.
    """
    path = Path(root)
    for part in Path(name).parts[:-1]:
        path = path / part
        if path.is_symlink():
            raise UsageError(
                "there is a link where edgedla would make a folder",
                where=str(path),
                hint="remove it, or give another output folder: in a folder of another user it may be a trap",
            )
    return Path(root, name)


def sha256_of(path: PathLike) -> str:
    """SHA-256 of a file's content, hex."""
    with open_plain(path) as f:
        digest = _sha256(os.fstat(f.fileno()).st_size)
        for block in iter(lambda: f.read(1 << 20), b""):
            digest.update(block)
    return str(digest.hexdigest())


def sha256_of_bytes(data: bytes) -> str:
    """SHA-256, hex."""
    digest = _sha256(len(data))
    digest.update(data)
    return str(digest.hexdigest())


def _sha256(size_bytes: int) -> Any:
    """OpenSSL's, which is fast; for a little data Python's own: a bundle's start then does without OpenSSL's 4 MB."""
    if size_bytes <= _LITTLE_BYTES and "_hashlib" not in sys.modules:
        try:
            if sys.version_info >= (3, 12):
                from _sha2 import sha256
            else:
                from _sha256 import sha256
        except ImportError:
            from hashlib import sha256
    else:
        from hashlib import sha256
    return sha256()


def open_partial(folder: str, name: str) -> Tuple[int, str]:
    """(descriptor, path) of a new file beside `name`, under a name that nobody can plant a link at.

    The first time in a folder, those that killed processes left there are removed, of any name: it may never be written again.
    """
    sweep(folder)
    while True:
        path = os.path.join(folder, f".{name[:MOST_NAME]}.{os.urandom(8).hex()}.part")
        try:
            # The kernel takes the process's umask off 0666; reading it would mean to set it, for every thread.
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | _NOFOLLOW, 0o666), path
        except FileExistsError:
            continue


def without_links(path: str, flags: int) -> int:
    """For open(opener=): a name that edgedla chooses in a folder that somebody else may have filled.

    Raises:
        OSError: a link stands there (ELOOP), or no plain file, or the system refuses.
    """
    # A pipe without a reader would never open.
    fd = os.open(path, flags | _NOFOLLOW | _NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a plain file", path)
    return fd


def open_plain(path: PathLike) -> BinaryIO:
    """Opens a file for reading. A pipe would wait for a writer, and a device may never end.

    Raises:
        OSError: a pipe, a socket or a device, a folder, or the system refuses.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NONBLOCK)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "a pipe or device, not a file", os.fspath(path))


def read_plain(path: PathLike, most_bytes: int, too_large: str) -> bytes:
    """The content of a file.

    Raises:
        DocumentError: it cannot be read, or is larger than `most_bytes`: `too_large` says so.
    """
    try:
        if os.path.getsize(path) > most_bytes:
            raise DocumentError(too_large, where=os.fspath(path))
        with open_plain(path) as f:
            return f.read()
    except OSError as e:
        raise DocumentError(f"cannot read it: {e.strerror or e}", where=os.fspath(path)) from e


def open_lock_file(path: PathLike) -> int:
    """A descriptor of a file to lock, made where there is none. What stands in it stays, and no link is followed.

    Raises:
        OSError: a link stands there (ELOOP), or no plain file, or the system refuses.
    """
    return without_links(os.fspath(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)


def _mode(path: str, follow: bool) -> Union[int, None]:
    try:
        return os.stat(path, follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return None


def sync_folder(folder: str) -> None:
    """Makes renames in the folder last."""
    # Some file systems (FUSE, network) refuse fsync on a folder; the rename has happened all the same.
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remove_folder(path: PathLike) -> None:
    """A folder and what is in it, as far as the system lets it; of a link or a file, that itself."""
    if os.path.islink(path) or os.path.isfile(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        import shutil  # lazily: a bundle's start does without it

        shutil.rmtree(path, ignore_errors=True)


def usable_folder(path: PathLike) -> Path:
    """The folder, which need not be there yet; asked before work that takes long, so that its result has a place.

    Raises:
        UsageError: a file stands there or on the way there.
        EnvironmentMissing: the system lets nobody write there, or not this user.
    """
    folder = Path(path)
    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    if existing.exists() and not existing.is_dir():
        raise UsageError("this is a file, not a folder", where=str(existing), hint="give -o a folder")
    with writing(folder):
        _try(existing)
    return folder


def require_room(path: PathLike) -> None:
    """Asked before work that takes long, of a file that is written at its end: neither it nor its folder is made.

    Raises:
        As `writing`.
    """
    with writing(path):
        file = Path(os.path.realpath(path))
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not special_file(os.fspath(file), True):
            _try(next(p for p in file.parents if p.exists()))


def _try(folder: Path) -> None:
    """Makes a file in the folder and removes it.

    Raises:
        OSError: the system refuses.
    """
    fd, trial = open_partial(os.fspath(folder), "trial")
    os.close(fd)
    os.unlink(trial)


def make_folder(path: PathLike) -> Path:
    """The folder and those above it, made where they are missing.

    Raises:
        As `writing`.
    """
    with writing(path):
        os.makedirs(path, exist_ok=True)
    return Path(path)


@contextlib.contextmanager
def writing(path: PathLike) -> Iterator[None]:
    """What the system says against an output, as every command tells it.

    Raises:
        UsageError: `path` is a folder, or something on the way to it is a file.
        EnvironmentMissing: the system refuses (permissions, full disk, a current folder that was removed).
    """
    try:
        yield
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as e:
        if current_folder_is_gone(e):
            raise from_os_error(e) from e
        raise UsageError(
            "cannot write: a part of this path is a file, or a folder that does not exist", where=os.fspath(path)
        ) from e
    except IsADirectoryError as e:
        raise UsageError("cannot write: this is a folder", where=os.fspath(path), hint="Name a file.") from e
    except OSError as e:
        raise EnvironmentMissing(f"cannot write: {e.strerror}", where=os.fspath(path)) from e
