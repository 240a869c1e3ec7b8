"""Files and folders that belong together: written and synced beside their places first, then renamed, so that a disk that fills
leaves what stood there before.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import Collection, Iterator, List, Optional, Set, Tuple

from edgedla.io.files import (
    Content,
    PathLike,
    make_missing,
    remove_empty,
    remove_folder,
    sha256_of_bytes,
    special_file,
    sync_folder,
    write_partial,
    writing,
)

#: A longer name, of up to 255 bytes, leaves no room for what is added beside it.
_MOST_NAME_BYTES = 200
#: Names beside a place that this process uses now. Its own number may also be that of one that was killed (in a container).
_IN_USE: Set[str] = set()
#: What was not touched for so long was left, whatever its name.
_OTHERS_S = 86_400.0


class Publication:
    """What `publication` publishes at its end. `paths`: the places, in the order in which they were named.

    Every method raises what `writing` does.
    """

    def __init__(self) -> None:
        self.paths: List[Path] = []
        #: (the new one or None, its place).
        self._renames: List[Tuple[Optional[str], str]] = []
        self._special: List[Tuple[str, bytes]] = []
        self._names: List[str] = []
        self._made: List[str] = []

    def write(self, path: PathLike, data: Content, *, follow: bool = True, private: bool = False) -> None:
        """A file, as `write_atomic` writes it."""
        text = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        body = text if isinstance(text, Iterator) else iter((text,))
        with writing(path):
            target = os.path.realpath(os.fspath(path)) if follow else os.path.abspath(os.fspath(path))
            if special_file(target, follow):
                self._special.append((target, b"".join(body)))
            else:
                self._made += make_missing(os.path.dirname(target))
                partial = self._beside(target, "part")
                self._renames.append((partial, target))
                write_partial(target, partial, body, follow=follow, private=private)
        self.paths.append(Path(path))

    def copy(self, path: PathLike, source: Path, leave_out: Collection[str] = ()) -> None:
        """A file or a folder, as `source` is. `leave_out`: names in it that stay behind."""
        if source.is_dir():
            _copy_folder(source, self.folder(path), path, leave_out)
        else:
            self.write(path, source.read_bytes(), follow=False)

    def folder(self, path: PathLike) -> Path:
        """An empty folder, to be filled by the caller, that takes the place of whatever stands at `path`."""
        partial = self.take(path)
        with writing(path):
            partial.mkdir()
        return partial

    def take(self, path: PathLike) -> Path:
        """A name beside `path`, where the caller writes the file or folder that takes its place."""
        target = os.path.abspath(os.fspath(path))
        with writing(path):
            self._made += make_missing(os.path.dirname(target))
            partial = self._beside(target, "part")
        self._renames.append((partial, target))
        self.paths.append(Path(path))
        return Path(partial)

    def scratch(self, path: PathLike) -> Path:
        """An empty folder beside `path`, gone at the end."""
        target = os.path.abspath(os.fspath(path))
        with writing(path):
            self._made += make_missing(os.path.dirname(target))
            folder = Path(self._beside(target, "part"))
            folder.mkdir()
        return folder

    def remove(self, path: PathLike) -> None:
        """What stands there goes when the rest appears."""
        target = os.path.abspath(os.fspath(path))
        forget_unpublished(target)
        self._renames.append((None, target))

    def _beside(self, target: str, kind: str) -> str:
        if kind == "part":
            forget_unpublished(target)
        folder, name = os.path.split(target)
        beside = f".{_key(name)}.{os.getpid()}.{os.urandom(8).hex()}.{kind}"
        self._names.append(os.path.join(folder, beside))
        _IN_USE.add(beside)
        return self._names[-1]

    def publish(self) -> None:
        """Syncs what was written, and renames it: all of it, or nothing."""
        for partial, target in self._renames:
            with writing(target):
                if partial is not None:
                    _sync(partial)
                    if os.path.isfile(partial) and os.path.isdir(target) and not os.path.islink(target):
                        raise IsADirectoryError
        for target, body in self._special:
            # open() answers a folder with IsADirectoryError.
            with writing(target), open(target, "wb") as special:
                special.write(body)
        self._rename()

    def _rename(self) -> None:
        done: List[Tuple[Optional[str], str, Optional[str]]] = []
        for partial, target in self._renames:
            try:
                with writing(target):
                    aside = self._set_aside(target, partial)
                    done.append((None, target, aside))
                    if partial is not None:
                        os.replace(partial, target)
                        done[-1] = (partial, target, aside)
            except BaseException:
                _undo(done)
                raise
        for _, _, aside in done:
            if aside is not None:
                remove_folder(aside)
        for folder in sorted({os.path.dirname(target) for _, target in self._renames}):
            sync_folder(folder)

    def _set_aside(self, target: str, partial: Optional[str]) -> Optional[str]:
        """Where what stood there is until everything is renamed; None where nothing stood there."""
        if not os.path.lexists(target):
            return None
        aside = self._beside(target, "old")
        if os.path.isdir(target) or partial is None or os.path.isdir(partial):
            os.rename(target, aside)
            return aside
        try:
            # A second name for it: a file is replaced without a moment in which none is there.
            os.link(target, aside, follow_symlinks=False)
        except (OSError, NotImplementedError):
            os.rename(target, aside)
        return aside

    def end(self) -> None:
        """Removes what was not published, and the folders made for it."""
        for name in self._names:
            if name.endswith(".part"):
                remove_folder(name)
            _IN_USE.discard(os.path.basename(name))
        remove_empty(self._made)


@contextlib.contextmanager
def publication() -> Iterator[Publication]:
    """Files and folders that appear together at the end of the block; after an error there is what there was before.

    Several renames are no single step: a process that is killed between them leaves some places new and others old. Whatever it
    leaves beside them goes with the next publication.

    Raises:
        As `writing`.
    """
    made = Publication()
    try:
        yield made
        made.publish()
    finally:
        made.end()


def forget_unpublished(path: PathLike) -> None:
    """Removes what killed processes left beside `path`, and puts back what they had set aside where nothing stands.

    Of other names, which may never be written again, what is a day old: another machine may be writing into the folder.
    """
    folder, name = os.path.split(os.path.abspath(os.fspath(path)))
    form = re.compile(r"\.(.+)\.([0-9]{1,9})\.[0-9a-f]{16}\.(part|old)")
    with contextlib.suppress(OSError):
        for entry in sorted(os.listdir(folder)):
            match, left = form.fullmatch(entry), os.path.join(folder, entry)
            if not match or entry in _IN_USE or (int(match[2]) != os.getpid() and runs(int(match[2]))):
                continue
            if match[1] != _key(name):
                if match[3] == "part" and time.time() - os.lstat(left).st_mtime > _OTHERS_S:
                    remove_folder(left)
            elif match[3] == "old" and not os.path.lexists(os.path.join(folder, name)):
                os.rename(left, os.path.join(folder, name))
            else:
                remove_folder(left)


def _key(name: str) -> str:
    encoded = os.fsencode(name)
    return name if len(encoded) <= _MOST_NAME_BYTES else sha256_of_bytes(encoded)


def runs(pid: int) -> bool:
    """Whether a process of this number runs."""
    if os.name == "nt":
        # There the question would end it.
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            # Behind its name, which may hold brackets. One that ended stays a zombie until its parent asks, maybe for ever.
            return f.read().rpartition(b") ")[2][:1] not in (b"Z", b"X")
    except OSError:
        return True


def _undo(done: List[Tuple[Optional[str], str, Optional[str]]]) -> None:
    for partial, target, aside in reversed(done):
        with contextlib.suppress(OSError):
            if partial is not None:
                os.replace(target, partial)
            if aside is not None:
                os.replace(aside, target)
        # Two names of one file: renaming one to the other leaves both.
        if aside is not None and os.path.lexists(target):
            remove_folder(aside)


def _sync(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            _sync(os.path.join(path, name))
        sync_folder(path)
    elif stat.S_ISREG(os.lstat(path).st_mode):
        with open(path, "rb") as f:
            os.fsync(f.fileno())


def _copy_folder(source: Path, target: Path, path: PathLike, leave_out: Collection[str]) -> None:
    for entry in sorted(source.iterdir()):
        if entry.name not in leave_out:
            with writing(path):
                if entry.is_dir():
                    (target / entry.name).mkdir()
                else:
                    shutil.copy2(str(entry), str(target / entry.name))
            if entry.is_dir():
                _copy_folder(entry, target / entry.name, path, leave_out)
