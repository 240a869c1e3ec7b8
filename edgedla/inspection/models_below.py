"""The models below a folder: every ONNX file, except those that edgedla itself keeps or wrote there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Tuple

from edgedla.errors import ModelError
from edgedla.importers.model_file.onnx_file import of_artifact
from edgedla.io.documents import document_in, is_artifact
from edgedla.io.files import sha256_of

ENDING, DECODER_ENDING = ".onnx", ".decoder.onnx"
#: A deployment's report. It states the hash of the built model beside it, which tells that from a user's model.
DEPLOYMENT = "deployment.json"
#: Most left-out paths named in a message.
NAMED = 3


class LeftOut(NamedTuple):
    """A folder or file that is not a model of the user's. `what`: for example "an artifact of `edgedla build`"."""

    path: str
    what: str


class ModelsBelow(NamedTuple):
    """The content of a folder. `models`: paths, folder by folder. `left_out`: files and folders that edgedla made."""

    models: Tuple[str, ...]
    left_out: Tuple[LeftOut, ...]

    @property
    def note(self) -> str:
        """The left-out paths in one line; "" if there are none."""
        if not self.left_out:
            return ""
        named = [f"{entry.path} ({entry.what})" for entry in self.left_out[:NAMED]]
        more = len(self.left_out) - NAMED
        return f"not taken for models: {', '.join(named)}{f' and {more} more' if more > 0 else ''}"


def models_below(folder: str) -> ModelsBelow:
    """The ONNX files in a folder and in all folders below it.

    Does not enter folders with names that begin with a dot, nor artifacts: these hold copies and parts of models.

    Raises:
        ModelError: the folder is an artifact, or contains no model.
    """
    if is_artifact(folder):
        raise of_artifact(folder)
    models: List[str] = []
    left_out: List[LeftOut] = []
    hidden: List[str] = []
    for top, folders, files in os.walk(folder):
        hidden += [os.path.join(top, name) for name in sorted(folders) if name.startswith(".")]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in [os.path.join(top, name) for name in folders]:
            if not os.path.islink(path) and is_artifact(path):
                left_out.append(LeftOut(path, "an artifact of `edgedla build`"))
                folders.remove(os.path.basename(path))
        paths = [os.path.join(top, name) for name in sorted(files) if name.lower().endswith(ENDING)]
        made = tuple(_made(top, paths))
        left_out += made
        models += [path for path in paths if path not in {entry.path for entry in made}]
    below = ModelsBelow(tuple(models), tuple(left_out))
    if not models:
        raise _nothing(folder, below, hidden)
    return below


def _made(top: str, paths: List[str]) -> Iterator[LeftOut]:
    """The ONNX files of a folder that edgedla wrote, from a model elsewhere or beside them."""
    built = _built_model(os.path.join(top, DEPLOYMENT)) if paths else None
    for path in paths:
        name = os.path.basename(path)
        if name == "model.onnx" and _has_hash(path, built):
            yield LeftOut(path, "the model as `edgedla deploy` built it")
        elif name.endswith(DECODER_ENDING) and _is_decoder(path):
            yield LeftOut(path, "what `edgedla fix` cut off a model")


def _built_model(report: str) -> Any:
    """The model hash in a deployment's report; None if it is not such a report."""
    hashes = (document_in(report, "edgedla.deployment") or {}).get("hashes")
    return hashes.get("built_model") if isinstance(hashes, dict) else None


def _is_decoder(path: str) -> bool:
    """True if the model beside this file says that the file was cut off it."""
    from edgedla.importers.model_file.changed_outputs import METADATA, changed_outputs
    from edgedla.importers.model_file.onnx_file import read

    model = Path(path[: -len(DECODER_ENDING)] + ENDING)
    if not model.is_file():
        return False
    try:
        file = read(model)
        changed = changed_outputs({p.key: p.value for p in file.model.metadata_props}.get(METADATA), file.where)
    except ModelError:
        return False
    return _has_hash(path, changed.decoder_sha256)


def _has_hash(path: str, sha256: Any) -> bool:
    try:
        return bool(sha256) and os.path.isfile(path) and sha256_of(path) == sha256
    except OSError:
        # Reading it as a model will report what is wrong.
        return False


def _nothing(folder: str, below: ModelsBelow, hidden: List[str]) -> ModelError:
    hints = [f"{entry.path} is {entry.what}" for entry in below.left_out[:NAMED]]
    if below.left_out:
        hints.append("give the model itself, or a folder that holds it; `edgedla inspect PATH` shows an artifact")
        return ModelError(f"a folder without any {ENDING} file except what edgedla wrote", where=folder, hint="\n  ".join(hints))
    hint = f"folders whose names begin with a dot are not searched: {hidden[0]}" if hidden else None
    if os.path.isfile(os.path.join(folder, "config.json")):
        hint = "weights of Hugging Face have no graph: optimum-cli export onnx --model FOLDER OUT writes it"
    return ModelError(f"a folder without any {ENDING} file", where=folder, hint=hint)
