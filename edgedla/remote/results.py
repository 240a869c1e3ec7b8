"""A job's results, moved to the user's destination: an artifact verified and complete, a file in one step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from edgedla.errors import UsageError
from edgedla.io.files import MOST_NAME, below, special_file, writing
from edgedla.remote.client import state_folder
from edgedla.remote.transfer import Output

#: The file that marks a folder as an artifact.
MANIFEST = "manifest.json"


def staging_of(destination: Path, job: str, slot: str) -> Path:
    """Where a job's result is collected until complete: beside the destination, so that a rename suffices.

    Results for a device or a pipe, which no rename can replace, are collected in the state folder.
    """
    target = os.path.realpath(destination)
    name = f"{job}.{slot.partition('/')[0]}.part"
    if special_file(target, True) and not os.path.isdir(target):
        return state_folder() / "jobs" / name
    # A name may have at most 255 bytes.
    return Path(os.path.dirname(target), f".{os.path.basename(target)[:MOST_NAME]}.{name}")


def by_slot(outputs: Sequence[Output], slots: Iterable[str]) -> Dict[str, List[Output]]:
    """Slot ("0/art") -> its results. Results outside all slots were not requested and stay on the board.

    A slot is a file, or a folder with everything below it.
    """
    by_name: Dict[str, List[Output]] = {slot: [] for slot in slots}
    for output in outputs:
        for slot in slots:
            if output.path == slot or output.path.startswith(slot + "/"):
                by_name[slot].append(output)
    return by_name


def place(staging: Path, slot_is_file: bool, destination: Path, model: Optional[Path]) -> None:
    """Moves the result collected in `staging` to its destination; `staging` is then removed.

    Args:
        model: the model that an artifact must have been built from.

    Raises:
        DocumentError: an artifact fails verification. BuildError, UsageError: the destination cannot take it.
    """
    if slot_is_file:
        if destination.is_dir():
            raise UsageError("cannot write: this is a folder", where=str(destination), hint="Name a file.")
        _file(staging, os.path.realpath(destination))
        return
    if (staging / MANIFEST).is_file():
        from edgedla.builder.artifact.load import load_artifact
        from edgedla.builder.artifact.store import adopt_artifact, own_folder

        adopt_artifact(load_artifact(staging, model=model), destination)
        # Only what outlives a build goes beside the artifact: its log, the drift file.
        staging_work = staging / ".work"
        if staging_work.is_dir():
            _keep_files(staging_work, own_folder(destination / ".work"))
    else:
        _keep_files(staging, destination)
    shutil.rmtree(staging, ignore_errors=True)


def _file(staging: Path, target: str) -> None:
    """Like `write_atomic`: a link keeps its target, a file its permissions, and a pipe or device is written to."""
    with writing(target):
        if special_file(target, True):
            with open(staging, "rb") as source, open(target, "wb") as special:
                shutil.copyfileobj(source, special)
            staging.unlink()
            return
        if os.path.exists(target):
            shutil.copymode(target, staging)
        os.replace(staging, target)


def _keep_files(source: Path, destination: Path) -> None:
    for parent, folders, files in os.walk(source):
        folders.sort()
        for name in sorted(files):
            kept_at = Path(parent) / name
            target = below(destination, kept_at.relative_to(source).as_posix())
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_dir():
                raise UsageError("cannot write: this is a folder", where=str(target))
            os.replace(kept_at, target)
