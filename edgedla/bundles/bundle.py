"""`bundle`: a pipeline with its artifacts and modules as a folder, a tar, or one .pyz file."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Tuple, Union

from edgedla.arguments import typed
from edgedla.bundles.contents import Contents, contents_of
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.io.files import write_atomic
from edgedla.io.publishing import publication
from edgedla.text.printable import Fields

#: The oldest time a zip can state. A fixed time makes equal bundles equal byte for byte.
_EPOCH = (1980, 1, 1, 0, 0, 0)
MANIFEST = "bundle.json"
ARCHIVES: Tuple[str, ...] = (".tar", ".tar.gz", ".tgz", ".pyz")
#: Endings of other archives: such a name does not mean a folder.
OTHER_ARCHIVES = (".zip", ".gz", ".xz", ".bz2", ".zst", ".7z", ".whl", ".deb")


@dataclass(frozen=True)
class Bundle(Fields):
    """A written bundle.

    Attributes:
        command: the command that starts it. code_bytes, data_bytes: unpacked size of modules, and of artifacts and other data.
        path_bytes: size of what was written. private: it holds an address with a password, so only the user can read it.
        lacking: videos, folders and password files that the pipeline names and that must exist on the board.
    """

    path: Path
    command: str
    modules: int
    code_bytes: int
    data_bytes: int
    path_bytes: int
    needs: Tuple[str, ...]
    targets: Tuple[str, ...]
    simulated: bool
    private: bool
    lacking: Tuple[str, ...] = ()


@typed
def bundle(
    artifact: Union[None, str, Path] = None, out: Union[str, Path] = "bundle", *, pipeline: Union[None, str, Path] = None
) -> Bundle:
    """Writes the smallest installation that runs a pipeline: its artifacts, and only those modules of edgedla that it uses.

    Run it with `python3 OUT`. It needs NumPy and what `needs` lists; no pip, no compiler. Every start verifies the hash of each
    file. The hashes detect damage; they are not a signature.

    Args:
        artifact: folder of `edgedla build`; the source is then named at the start. pipeline: a pipeline file. The bundle
            includes videos and pictures that the file names relative to itself, up to 64 MB per source.
        out: a folder, or a file that ends in .tar, .tar.gz, .tgz or .pyz. An existing file is replaced; a folder only if
            it holds a bundle and nothing else.

    Raises:
        UsageError, DocumentError, EnvironmentMissing.
    """
    path = Path(out)
    name = path.name.lower()
    if name.endswith(OTHER_ARCHIVES) and not name.endswith(ARCHIVES):
        raise UsageError("not a form of a bundle", where=str(path), allowed=f"a folder, {', '.join(ARCHIVES)}")
    contents = contents_of(artifact, pipeline)
    try:
        if name.endswith(".pyz"):
            write_atomic(path, _zip(contents), private=contents.private)
            command = f"python3 {path}"
        elif name.endswith(ARCHIVES):
            top = path.name[: -len(next(e for e in (".tar.gz", ".tgz", ".tar") if name.endswith(e)))]
            write_atomic(path, _tar(contents, top, packed=not name.endswith(".tar")), private=contents.private)
            command = f"tar -xf {path} && python3 {top}"
        else:
            _folder(contents, path)
            command = f"python3 {path}"
    except OSError as e:
        raise EnvironmentMissing(f"cannot be written: {e.strerror or e}", where=str(path)) from e
    manifest = contents.manifest
    return Bundle(
        path,
        command,
        len(manifest["modules"]),
        sum(map(len, contents.code.values())) + len(contents.bundle_json()),
        sum(p.stat().st_size for p in contents.data.values()),
        _size(path),
        tuple(manifest["needs"]),
        tuple(manifest["targets"]),
        bool(manifest["simulated"]),
        contents.private,
        contents.lacking,
    )


def _entries(contents: Contents) -> Iterator[Tuple[str, bytes]]:
    """Every file with its content, ordered by name, with the manifest last."""
    for name, body in sorted(contents.code.items()):
        yield name, body
    for name, path in sorted(contents.data.items()):
        yield name, path.read_bytes()
    yield MANIFEST, contents.bundle_json()


def _mode(contents: Contents, name: str) -> int:
    return 0o600 if contents.private and name == MANIFEST else 0o644


def _zip(contents: Contents) -> bytes:
    # Python runs a truncated archive, no longer a zip, as a program: no part of this one may be a valid program.
    buffer = io.BytesIO()
    buffer.write(b'"bundle: error: the bundle is damaged: it was cut; copy or bundle it again\n')
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, body in _entries(contents):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = _mode(contents, name) << 16
            archive.writestr(info, body)
    return buffer.getvalue()


def _tar(contents: Contents, top: str, packed: bool) -> bytes:
    import gzip

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in _entries(contents):
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mode = len(body), _mode(contents, name)
            archive.addfile(info, io.BytesIO(body))
    return gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()


def _folder(contents: Contents, path: Path) -> None:
    """Writes the folder and renames it into place when it is complete."""
    foreign = _foreign(path)
    if foreign is not None:
        raise UsageError(
            f"this path holds something other than a bundle{foreign and ': '}{foreign}",
            where=str(path),
            allowed="a new folder, or one with a bundle and nothing else",
        )
    with publication() as out:
        partial = out.folder(path)
        for name, body in _entries(contents):
            target = partial / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if _mode(contents, name) == 0o600:
                target.touch(mode=0o600)
            target.write_bytes(body)


def _foreign(path: Path) -> Optional[str]:
    """The first file at `path` that does not belong to a bundle; "" if `path` itself is none; None if nothing would be lost.

    Relative outputs of a pipeline are written into the bundle's folder.
    """
    if not path.exists():
        return None
    if not path.is_dir():
        return ""
    own = {MANIFEST}
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest["document"] == "edgedla.bundle":
            own |= {*manifest["files"], *manifest["data"]}
    except (OSError, ValueError, KeyError, TypeError):
        own = set()
    files = (p.relative_to(path) for p in sorted(path.rglob("*")) if not p.is_dir() or p.is_symlink())
    return next((str(f) for f in files if f.as_posix() not in own and "__pycache__" not in f.parts), None)


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size
