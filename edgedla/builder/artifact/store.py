"""The artifact's folder on disk: claimed, locked, written whole or not at all, and tidied."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Iterator, List, Mapping, Optional, Tuple, Union

from edgedla.builder.artifact.artifact import STAGE_NAME, Artifact, ArtifactFile, written_name
from edgedla.builder.artifact.load import load_artifact
from edgedla.errors import BuildError, DocumentError, EnvironmentMissing, UsageError
from edgedla.io.documents import MANIFEST
from edgedla.io.files import make_folder, open_lock_file, sha256_of, write_atomic

try:
    import fcntl
except ImportError:  # On Windows builds run without the lock.
    fcntl = None  # type: ignore[assignment]

_PARTIAL_NAME = re.compile(r"^\.([A-Za-z0-9_]+-[0-9a-f]{12}(\.[A-Za-z0-9_]+)+|manifest\.json)\..*\.part$")


def save_artifact(artifact: Artifact, folder: Union[str, Path], contents: Mapping[Tuple[str, str], bytes]) -> Artifact:
    """Writes the files and then the manifest; until the manifest is written, the folder's old artifact stays valid.

    A chain's stages must be saved already, each in its own folder on the same disk; these folders move into `folder`.

    Args:
        folder: made if missing. An older artifact in it is replaced in one step, its files are removed afterwards.
        contents: (role, file name) -> content. `engine.plan` becomes `engine-<hash>.plan`.

    Raises:
        UsageError: the folder holds other things. EnvironmentMissing: the disk refuses.
    """
    target = Path(folder)
    try:
        claim_folder(target)
        with folder_lock(target):
            return _write(artifact, target, contents)
    except (OSError, EnvironmentMissing) as e:
        raise EnvironmentMissing(
            f"the artifact cannot be written: {getattr(e, 'strerror', None) or getattr(e, 'what', e)}",
            where=str(target),
            hint=_after_a_failure(target, e),
        ) from e


def _after_a_failure(target: Path, error: BaseException) -> Optional[str]:
    """What is still intact after the failure, and what to do if the disk was full; None if neither applies."""
    intact = "the earlier artifact still loads" if (target / MANIFEST).is_file() else ""
    cause = error if isinstance(error, OSError) else error.__cause__
    full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return "; ".join(filter(None, (intact, "free some space and build again" if full else ""))) or None


def _write(artifact: Artifact, target: Path, contents: Mapping[Tuple[str, str], bytes]) -> Artifact:
    stages = tuple(replace(s, artifact=_moved(s.artifact, target, k)) for k, s in enumerate(artifact.stages))
    files: List[ArtifactFile] = []
    for (role, name), data in sorted(contents.items()):
        sha256 = hashlib.sha256(data).hexdigest()
        stem, dot, endings = name.partition(".")
        path = f"{stem}-{sha256[:12]}{dot}{endings}"
        file = target / path
        # A killed build may have left this file. Its name holds its hash, so the same content is not written again.
        if not (file.is_file() and not file.is_symlink() and sha256_of(file) == sha256):
            write_atomic(file, data, follow=False)
        files.append(ArtifactFile(role, path, sha256, len(data)))
    saved = replace(artifact, files=tuple(files), folder=target, stages=stages)
    write_atomic(target / MANIFEST, json.dumps(saved.to_dict(), indent=1, sort_keys=True) + "\n", follow=False)
    _remove_unlisted(saved, target)
    return saved


def adopt_artifact(artifact: Artifact, folder: Union[str, Path]) -> Artifact:
    """Moves a loaded artifact into `folder` on the same disk; until the move is complete, the old artifact stays valid.

    Raises:
        BuildError: the artifact has file names that edgedla does not give. UsageError: the folder holds other things.
        EnvironmentMissing: the disk refuses.
    """
    source, target = artifact.folder, Path(folder)
    stages = [s.artifact.folder for s in artifact.stages]
    names = [f.path for f in artifact.files] + [s.name for s in stages if s is not None]
    if source is None or not all(written_name(n) for n in names):
        raise BuildError("its files do not have an artifact's file names", where=str(source))
    try:
        claim_folder(target)
        with folder_lock(target):
            for name in names:
                if (source / name).is_dir() and (target / name).exists():
                    # A stage's name holds its content's hash: the folder of that name already holds this stage.
                    continue
                os.replace(source / name, target / name)
            write_atomic(target / MANIFEST, (source / MANIFEST).read_bytes(), follow=False)
            adopted = load_artifact(target)
            _remove_unlisted(adopted, target)
    except (OSError, EnvironmentMissing) as e:
        raise EnvironmentMissing(f"the artifact cannot be moved: {e}", where=str(target)) from e
    return adopted


def tidy(artifact: Artifact) -> None:
    """Removes the leftovers of killed builds from the folder. Does nothing while another build writes into it."""
    if artifact.folder is not None:
        with contextlib.suppress(BuildError, OSError), folder_lock(artifact.folder):
            _remove_unlisted(artifact, artifact.folder)


def _moved(stage: Artifact, target: Path, number: int) -> Artifact:
    """The saved stage under its name in the chain's folder, moved there in one step."""
    folder = target / f"stage{number}-{stage.digest[:12]}"
    if stage.folder is None:
        raise BuildError("a stage of the chain was not saved", where=str(target))
    if stage.folder != folder:
        if folder.exists() and _whole(folder, stage.digest):
            # The current manifest may name this stage, so it must never be missing.
            return replace(stage, folder=folder)
        if folder.exists():
            shutil.rmtree(folder)
        os.rename(stage.folder, folder)
    return replace(stage, folder=folder)


def _whole(folder: Path, digest: str) -> bool:
    try:
        return load_artifact(folder).digest == digest
    except DocumentError:
        return False


def claim_folder(folder: Path) -> None:
    """Makes the folder, or refuses one whose files edgedla did not write.

    Raises:
        UsageError: `folder` is a file, or holds files but no finished or unfinished artifact of edgedla.
        EnvironmentMissing: it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError("the output is a file, not a folder", where=str(folder), hint="give -o a folder name")
    make_folder(folder)
    strangers = [
        p.name for p in sorted(folder.iterdir()) if p.name != MANIFEST and not p.name.startswith(".") and not written_name(p.name)
    ]
    if strangers and not (folder / MANIFEST).exists():
        raise UsageError(
            f"the folder holds other files: {', '.join(strangers[:5])}",
            where=str(folder),
            allowed="a new folder, an empty one, or an artifact to replace",
        )


@contextlib.contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Claims the folder of a build. Removes a folder that this build made if the build fails and leaves nothing that
    the next build or a search for the cause can use.

    Raises:
        UsageError: see claim_folder. EnvironmentMissing: it cannot be made.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    claim_folder(folder)
    try:
        yield
    except BaseException as e:
        if made and not _worth_keeping(folder, interrupted=isinstance(e, KeyboardInterrupt)):
            shutil.rmtree(folder, ignore_errors=True)
            for path in made[1:]:
                with contextlib.suppress(OSError):
                    path.rmdir()
        raise


def _worth_keeping(folder: Path, interrupted: bool) -> bool:
    """True if an unfinished build left useful files: a whole artifact, or, except after Ctrl-C, logs of the failure."""
    manifests = folder.glob(f"**/{MANIFEST}")
    return any(manifests) or (not interrupted and any(p.name != ".lock" for p in folder.rglob("*") if p.is_file()))


def _remove_unlisted(saved: Artifact, folder: Path) -> None:
    listed = {f.path for f in saved.files} | {s.artifact.folder.name for s in saved.stages if s.artifact.folder}
    # Only what an earlier build wrote, finished (HASHED_NAME) or cut off (.NAME.xxxx.part). It is no error if it cannot
    # be removed: no manifest names it any more.
    for path in folder.iterdir():
        if path.name in listed:
            continue
        if STAGE_NAME.match(path.name) and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif written_name(path.name) or _PARTIAL_NAME.match(path.name):
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def folder_lock(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Locks the folder against a second build. The lock belongs to the process, so it ends with a killed build.

    Args:
        name: of the lock's file, below `folder`.

    Raises:
        BuildError: another process builds into the folder.
    """
    try:
        handle = open_lock_file(folder / name)
    except OSError as e:
        if e.errno not in (errno.ELOOP, errno.EINVAL, errno.EISDIR):
            raise
        raise _planted(folder / name) from e
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                raise BuildError(
                    "another build is writing into this folder", where=str(folder), hint="wait for its end, or give another -o"
                ) from e
        yield
    finally:
        os.close(handle)


def own_folder(path: Path) -> Path:
    """Makes the folder, whose content a build writes and removes.

    Raises:
        BuildError: the path is a link or a file, which may lead to files of others. OSError: it cannot be made.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    if path.is_symlink() or not path.is_dir():
        raise _planted(path)
    return path


def _planted(path: Path) -> BuildError:
    return BuildError(
        "the build needs this path for its own files, and finds a link or something that it did not write",
        where=str(path),
        hint="remove it, or give another output folder: in a folder of another user it may be a trap",
    )
