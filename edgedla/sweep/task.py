"""The tasks of a sweep: one per model, platform and precision, with a key of everything that its row depends on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import ModelError
from edgedla.identity import identity
from edgedla.io.files import sha256_of
from edgedla.text.printable import Fields

#: Raised when a row changes its meaning, so that earlier rows are not reused.
ROW_VERSION = 4


@dataclass(frozen=True)
class Settings:
    """The settings common to all tasks.

    Attributes:
        action: check, place (at minimum cost), fix (rewrites), or bench (built and measured on a board).
        objective: for place and fix.
        power_mode: nvpmodel mode of the module for the costs; None: its default.
        profile: file of measured times; `profile_sha256` is the hash of its content.
        batch: replaces the first dim of every input.
        board_group: boards that bench runs on.
    """

    action: str = "check"
    mode: str = "fallback"
    objective: str = "latency"
    power_mode: Optional[str] = None
    profile: Optional[str] = None
    profile_sha256: str = ""
    batch: Optional[int] = None
    board_group: Optional[str] = None
    time_limit_s: float = 10.0


@dataclass(frozen=True)
class Task(Fields):
    """The task of one row: a model on a platform at a precision.

    Attributes:
        model: path as given. sha256: hash of the file and of the weight files beside it.
        target, jetpack, trt: as `platform_for` takes them.
        label: the user's name of the platform.
        edgedla: version and digest of the edgedla that answers (`Identity.text`).
        board: name of the board for bench.
    """

    model: str
    sha256: str
    target: str
    jetpack: Optional[str]
    trt: Optional[str]
    label: str
    precision: str
    settings: Settings
    rules_version: str
    edgedla: str
    board: Optional[str] = None

    @property
    def key(self) -> str:
        """SHA-256 of everything that the row depends on, and nothing else: not of the model's path."""
        parts = asdict(self)
        del parts["model"], parts["label"]
        # Its content counts, not its path.
        del parts["settings"]["profile"]
        text = json.dumps([ROW_VERSION, parts], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Task:
        return Task(**{**document, "settings": Settings(**document["settings"])})


def find_models(arguments: Sequence[str], say: Optional[Callable[[str], None]] = None) -> List[str]:
    """The ONNX files named by the arguments: files as given, and all models below folders (`models_below`), each once.

    Args:
        say: called with a note on files that edgedla itself made, which are left out.

    Raises:
        ModelError: no such file, a folder without models, or an artifact.
    """
    from edgedla.inspection.models_below import models_below

    models: Dict[str, None] = {}
    for text in arguments:
        path = Path(text)
        if path.is_dir():
            below = models_below(text)
            if below.note and say is not None:
                say(below.note)
            files = sorted(str(Path(p)) for p in below.models if os.path.isfile(p))
            if not files:
                raise ModelError("its .onnx files are broken links or not files", where=text)
            models.update(dict.fromkeys(files))
        elif path.is_file():
            models[text] = None
        else:
            raise ModelError("no such file or folder", where=text)
    return list(models)


def content_of(model: str) -> str:
    """SHA-256 of the parts of a model that the answer depends on: its file, and its weight files.

    For a file that is not a readable model, the hash of its bytes.
    """
    digest = sha256_of(model)
    from edgedla.importers.model_file.model_identity import model_identity

    try:
        external = model_identity(Path(model))["external"]
    except Exception:
        return digest
    if not external:
        return digest
    return hashlib.sha256(json.dumps([digest, sorted(external.items())]).encode("utf-8")).hexdigest()


def tasks_of(
    models: Sequence[str],
    platforms: Sequence[Tuple[str, Mapping[str, str]]],
    precisions: Sequence[str],
    settings: Settings,
    boards: Sequence[Tuple[str, str]] = (),
) -> Iterator[Task]:
    """Every task in the order of the result: models as given, then platforms, then precisions.

    Args:
        platforms: (label, arguments of platform_for, and "precision" if the label has its own: "orin@int8").
            Validated here, so that a wrong name ends the sweep at once instead of failing each row.
        precisions: () for that which `check` answers first on each platform.
        boards: for bench: (name, module); a task goes to a board of its module.

    Raises:
        UsageError: an unknown module or release.
    """
    from edgedla.rules import load_rules
    from edgedla.targets import platform_for

    usual = {
        label: (platform_for(**{k: v for k, v in arguments.items() if k != "precision"}).precision,)
        for label, arguments in platforms
    }
    version = load_rules().version
    by_module: Dict[str, List[str]] = {}
    for name, module in boards:
        by_module.setdefault(module, []).append(name)
    # Boards of a module take turns, independent of the other platforms.
    turns: Dict[str, int] = {}
    for model in models:
        sha256 = content_of(model)
        for label, arguments in platforms:
            candidates = by_module.get(arguments["target"], [])
            for precision in (arguments["precision"],) if "precision" in arguments else precisions or usual[label]:
                turn = turns.get(arguments["target"], 0)
                board = candidates[turn % len(candidates)] if candidates else None
                turns[arguments["target"]] = turn + 1
                yield Task(
                    model,
                    sha256,
                    arguments["target"],
                    arguments.get("jetpack"),
                    arguments.get("trt"),
                    label,
                    precision,
                    settings,
                    version,
                    identity().text,
                    board,
                )
