"""Checks the output folder: it must be new, empty, or hold an earlier deployment of the same model."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, Mapping, Optional, Sequence

from edgedla.deployment.occupied import LOCK
from edgedla.errors import EdgedlaError, EnvironmentMissing, UsageError
from edgedla.io.documents import document_in
from edgedla.io.files import sha256_of, writing
from edgedla.io.sealed import is_plain_file, read_sealed, write_sealed

#: Report format -> its file name.
REPORTS: Mapping[str, str] = {"json": "deployment.json", "html": "report.html", "markdown": "report.md"}

#: Other published files and folders, in this order; placement and scales only if they exist.
FILES = ("artifact", "model.onnx", "placement.json", "quantization")
WORK = ".work"
#: File in the folder of steps that records their model.
MODEL_RECORD = "model.json"
_ALLOWED = "a new folder, an empty one, or an earlier deployment of the same model"


def model_name(model: Any) -> str:
    """The model's name in a deployment: a file's name without its suffix, or an object's type."""
    from edgedla.conversion.objects import object_kind

    if isinstance(model, (str, os.PathLike)):
        return Path(model).stem
    return "model" if object_kind(model) is None else type(model).__name__


@contextmanager
def own_file_named(model: Any, work: Path) -> Iterator[None]:
    """Makes errors in the `with` block name the user's file and not the copy that the steps read."""
    try:
        yield
    except EdgedlaError as e:
        copy = str(work / f"{model_name(model)}.onnx")
        # A disk that is full refuses the copy, not the file.
        of_the_disk = isinstance(e, EnvironmentMissing) and e.what.startswith("cannot write")
        if not isinstance(model, (str, os.PathLike)) or not (e.where or "").startswith(copy) or of_the_disk:
            raise
        where = os.fspath(model) + str(e.where)[len(copy) :]
        raise type(e)(e.what, where=where, allowed=e.allowed, hint=e.hint) from e


def identity_of(model: Any) -> Dict[str, Any]:
    """The model's name, path and content hash, if it has them. The path is only written to the folder of steps."""
    identity: Dict[str, Any] = {"name": model_name(model)}
    if isinstance(model, (str, os.PathLike)):
        identity["path"] = os.path.realpath(model)
        if os.path.isfile(model):
            identity["sha256"] = sha256_of(model)
    return identity


def claim(folder: Path, model: Any, sizes: Collection[str] = ()) -> None:
    """Checks that this model may be deployed into the folder. Writes nothing.

    A model is the same if its content is, or if its file is: the file may hold newly trained weights.

    Args:
        sizes: for a model deployed once per size: names of the subfolders, which are checked too.

    Raises:
        UsageError: the folder holds other files, or the deployment of another model.
    """
    for name in sizes:
        claim(folder / name, model)
    if not folder.is_dir():
        return
    with writing(folder):
        names = sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
    names = [name for name in names if not (sizes and _begun(folder / name))]
    if not names:
        return
    deployed = _deployed_name(folder)
    if deployed is None and not (_begun(folder) and set(names) <= {*FILES, *REPORTS.values()}):
        raise _other_files_error(folder, names)
    theirs = read_sealed(folder / WORK / MODEL_RECORD) or {"name": deployed}
    if theirs["name"] is not None:
        _require_same(folder, identity_of(model), theirs)


def require_own_folder(folder: Path) -> None:
    """Checks that the folder is empty or holds a deployment of any model.

    Raises:
        UsageError: the folder holds other files, some of which would be replaced or removed.
    """
    names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
    if names and _deployed_name(folder) is None:
        raise _other_files_error(folder, names)


def _other_files_error(folder: Path, names: Sequence[str]) -> UsageError:
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return UsageError(f"the folder holds other files: {listed}", where=str(folder), allowed=_ALLOWED)


def record(work: Path, model: Any) -> None:
    """Records the model of the steps in their folder."""
    write_sealed(work / MODEL_RECORD, identity_of(model))


def _require_same(folder: Path, ours: Dict[str, Any], theirs: Dict[str, Any]) -> None:
    content, path, name = (theirs.get(key) for key in ("sha256", "path", "name"))
    if content is not None and content == ours.get("sha256"):
        return
    if name == ours["name"] and (path is None or path == ours.get("path")):
        return
    which = f"{name}, not of {ours['name']}" if name != ours["name"] else f"another {name}, of {path}"
    raise UsageError(
        f"the folder holds the deployment of {which}",
        where=str(folder),
        allowed=_ALLOWED,
        hint="give another folder with -o, or remove this one first",
    )


def _begun(folder: Path) -> bool:
    """True if the folder holds a finished or unfinished deployment."""
    return is_plain_file(folder / WORK / LOCK) or _deployed_name(folder) is not None


def _deployed_name(folder: Path) -> Optional[str]:
    """The model's name in the folder's deployment; None if there is no deployment."""
    file = folder / REPORTS["json"]
    document = document_in(str(file), "edgedla.deployment") if is_plain_file(file) else None
    return None if document is None else str(document.get("model"))
