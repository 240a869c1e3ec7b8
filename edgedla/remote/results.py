"""What a job made, put where the user asked for it: an artifact verified and whole, a file in one step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from edgedla.errors import UsageError
from edgedla.files import MOST_NAME, below, special_file, writing
from edgedla.remote.client import state_folder
from edgedla.remote.transfer import Output

#: The name by which a folder is known to be an artifact.
MANIFEST = "manifest.json"


def staging_of(destination: Path, job: str, slot: str) -> Path:
    """Where a job's result gathers until it is whole: beside the destination, so that a rename suffices.

    What goes to a device or a pipe, which no rename replaces, gathers in the state folder.
    """
    target = os.path.realpath(destination)
    name = f"{job}.{slot.partition('/')[0]}.part"
    if special_file(target, True) and not os.path.isdir(target):
        return state_folder() / "jobs" / name
    # A name of up to 255 bytes leaves no room for more.
    return Path(os.path.dirname(target), f".{os.path.basename(target)[:MOST_NAME]}.{name}")


def by_slot(outputs: Sequence[Output], slots: Iterable[str]) -> Dict[str, List[Output]]:
    """Slot ("0/art") -> the results that belong to it. What belongs to none was not asked for and is left there.

    A slot is a file, or a folder with what stands below it.
    """
    by_name: Dict[str, List[Output]] = {slot: [] for slot in slots}
    for output in outputs:
        for slot in slots:
            if output.path == slot or output.path.startswith(slot + "/"):
                by_name[slot].append(output)
    return by_name


def place(staging: Path, slot_is_file: bool, destination: Path, model: Optional[Path]) -> None:
    """Moves what was fetched into `staging` to its destination; the staging place is gone afterwards.

    Args:
        model: what an artifact must have been built from.

    Raises:
        DocumentError: an artifact that does not verify. BuildError, UsageError: the destination cannot take it.
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
        # Beside it only what outlives a build: its log, the drift file.
        staging_work = staging / ".work"
        if staging_work.is_dir():
            _keep_files(staging_work, own_folder(destination / ".work"))
    else:
        _keep_files(staging, destination)
    shutil.rmtree(staging, ignore_errors=True)


def _file(staging: Path, target: str) -> None:
    """As `write_atomic`: a link keeps pointing where it points, a file keeps its permissions, a pipe or device is written to."""
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
            there = below(destination, kept_at.relative_to(source).as_posix())
            there.parent.mkdir(parents=True, exist_ok=True)
            if there.is_dir():
                raise UsageError("cannot write: this is a folder", where=str(there))
            os.replace(kept_at, there)
