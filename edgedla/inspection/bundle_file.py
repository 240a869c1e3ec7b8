"""Verifies a bundle (folder, .pyz or tar) without running it: its own files must be those that were bundled.

A start verifies them too, except __main__.py, where Python starts: an empty one is a program that does nothing and succeeds.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Tuple

from edgedla.errors import DocumentError
from edgedla.inspection.tar_files import BLOCK_BYTES, blocks, members_of, open_tar
from edgedla.io.documents import require

SETTINGS = "bundle.json"
TARS = (".tar", ".tar.gz", ".tgz")
#: Limits for modules and for files included with a pipeline; a bundle's own files are smaller.
MOST_BYTES, MOST_FILES = 128 << 20, 20_000
#: Artifacts of several engines, beside the modules.
MOST_TAR_BYTES = 1 << 36
#: The first bytes of a .pyz, before its archive.
_BEGINS = b'"bundle: error'
Open = Callable[[str], ContextManager[IO[bytes]]]


def is_bundle(path: Path) -> bool:
    """True if it is a bundle, complete or damaged."""
    if path.is_dir():
        return (path / SETTINGS).is_file()
    with contextlib.suppress(OSError, EOFError, tarfile.TarError, RecursionError, zlib.error):
        if path.is_file() and path.name.lower().endswith(TARS):
            with open_tar(path, MOST_TAR_BYTES) as tar:
                return _is_of_bundle(tar)
        if path.is_file():
            with open(path, "rb") as f:
                return f.read(len(_BEGINS)) == _BEGINS
    return False


def read_bundle(path: Path) -> Dict[str, Any]:
    """The content of bundle.json, after verifying every file that it names with a hash.

    Raises:
        DocumentError: not a bundle, or damaged; the message names the file.
    """
    try:
        with _opener(path) as opened:
            with opened(SETTINGS) as f:
                manifest = json.loads(b"".join(itertools.islice(blocks(f), MOST_BYTES // BLOCK_BYTES)))
            require(manifest, "edgedla.bundle", f"{path}/{SETTINGS}")
            for name, digest in _files(manifest, path):
                _verify(opened, name, digest, path)
            return dict(manifest)
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        RuntimeError,
        RecursionError,
        zipfile.BadZipFile,
        zlib.error,
        tarfile.TarError,
    ) as e:
        what = f"{e.strerror}: {e.filename}" if isinstance(e, OSError) and e.strerror else e
        raise DocumentError(f"the bundle is damaged: {what}", where=str(path), hint="copy or bundle it again") from e


def bundle_bytes(path: Path, manifest: Mapping[str, Any]) -> int:
    """Size of a bundle; in a folder, only the bundled files count."""
    return sum((path / name).stat().st_size for name in {SETTINGS, *manifest["files"], *manifest["data"]})


def _files(manifest: Mapping[str, Any], path: Path) -> List[Tuple[str, str]]:
    """(name, SHA-256) of its own files; "" for data, whose hashes are in their artifacts."""
    files, data = manifest.get("files"), manifest.get("data")
    refused = DocumentError("the bundle is damaged: it lists no files", where=f"{path}/{SETTINGS}")
    if not isinstance(files, dict) or not isinstance(data, list) or len(files) + len(data) > MOST_FILES:
        raise refused
    if "__main__.py" not in files or not all(isinstance(v, str) for v in (*files.values(), *data)):
        raise refused
    return [*files.items(), *((name, "") for name in data if name not in files)]


def _verify(opened: Open, name: str, digest: str, path: Path) -> None:
    if name.startswith("/") or ".." in name.split("/"):
        raise DocumentError(f"it names a file outside of it: {name!r}", where=str(path))
    with opened(name) as f:
        if not digest:
            return
        sha256, size = hashlib.sha256(), 0
        for block in blocks(f):
            sha256.update(block)
            size += len(block)
            if size > MOST_BYTES:
                break
    if sha256.hexdigest() != digest:
        raise DocumentError(
            f"{name} is not the file that was bundled" + ("; it is empty" if not size else ""),
            where=str(path),
            hint="copy or bundle it again",
        )


@contextlib.contextmanager
def _opener(path: Path) -> Iterator[Open]:
    if path.is_dir():
        yield lambda name: (path / name).open("rb")
    elif path.name.lower().endswith(TARS):
        with open_tar(path, MOST_TAR_BYTES) as tar:
            members = _members(tar)
            yield lambda name: _of_tar(tar, members, name)
    else:
        with zipfile.ZipFile(path) as archive:
            yield archive.open


def _is_of_bundle(tar: tarfile.TarFile) -> bool:
    """Also of one that was cut off before its bundle.json: the file that Python starts is the first."""
    names: List[str] = []
    with contextlib.suppress(OSError, EOFError, tarfile.TarError, RecursionError, zlib.error):
        for member in tar:
            names.append(member.name.partition("/")[2] if member.isfile() else "")
            if len(names) > MOST_FILES:
                break
    return SETTINGS in names or "__main__.py" in names[:2]


def _members(tar: tarfile.TarFile) -> Dict[str, tarfile.TarInfo]:
    """The files below the tar's single folder, by their names there."""
    members: Dict[str, tarfile.TarInfo] = {}
    for member in members_of(tar, MOST_FILES):
        if member.isfile():
            members[member.name.partition("/")[2]] = member
    return members


def _of_tar(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> IO[bytes]:
    opened = tar.extractfile(members[name]) if name in members else None
    if opened is None:
        raise ValueError(f"it has no {name}")
    return opened
