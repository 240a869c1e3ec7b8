"""What a sweep consists of: one task per model, platform and precision, with a key that says everything it depends on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import ModelError
from edgedla.files import sha256_of
from edgedla.version import __version__

#: What a sweep does with each model.
ACTIONS = ("check", "place", "fix", "bench")
#: Raised when a row changes its meaning, so that rows of before are not taken for new ones.
ROW_VERSION = 4


@dataclass(frozen=True)
class Settings:
    """What is the same for every task.

    Attributes:
        action: check, place (at least cost), fix (rewrites), or bench (built and measured on a board).
        objective: of place and fix.
        power_mode: nvpmodel mode of the module that costs hold for; None: its default.
        profile: file of measured times; `profile_sha256` is its content.
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
class Task:
    """One row to be: a model on a platform with a precision.

    Attributes:
        model: path as given. sha256: of the file and the files beside it that hold its weights.
        target, jetpack, trt: as `platform_for` takes them.
        label: how the user named the platform.
        board: name of the board that bench runs on.
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
    board: Optional[str] = None

    @property
    def key(self) -> str:
        """SHA-256 over everything that the row depends on, and nothing else: the model's place is no part of it."""
        parts = asdict(self)
        del parts["model"], parts["label"]
        # Its content counts, not where it stands.
        del parts["settings"]["profile"]
        text = json.dumps([ROW_VERSION, __version__, parts], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Task:
        return Task(**{**document, "settings": Settings(**document["settings"])})


def find_models(arguments: Sequence[str], say: Optional[Callable[[str], None]] = None) -> List[str]:
    """The ONNX files that arguments name: files as they are, folders with all models below (`models_below`), each once.

    Args:
        say: is told what edgedla itself made in a folder, which is no model of the sweep.

    Raises:
        ModelError: nothing there, a folder without models, or an artifact.
    """
    from edgedla.inspection.models_below import models_below

    models: Dict[str, None] = {}
    for text in arguments:
        path = Path(text)
        if path.is_dir():
            below = models_below(text)
            if below.note and say is not None:
                say(below.note)
            found = sorted(str(Path(p)) for p in below.models if os.path.isfile(p))
            if not found:
                raise ModelError("its .onnx files are broken links or not files", where=text)
            models.update(dict.fromkeys(found))
        elif path.is_file():
            models[text] = None
        else:
            raise ModelError("no such file or folder", where=text)
    return list(models)


def content_of(model: str) -> str:
    """SHA-256 of a model as far as the answer depends on it: its file, and the files that hold its weights.

    A file that cannot be read as a model is its own content.
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
        platforms: (label, arguments of platform_for, and "precision" where the label has one of its own: "orin@int8").
            Checked here, so that a wrong name ends the sweep and not each row.
        boards: of bench: (name, module); a task goes to a board of its module.

    Raises:
        UsageError: an unknown module or release.
    """
    from edgedla.rules import load_rules
    from edgedla.targets import platform_for

    for _, arguments in platforms:
        platform_for(**{k: v for k, v in arguments.items() if k != "precision"})
    version = load_rules().version
    by_module: Dict[str, List[str]] = {}
    for name, module in boards:
        by_module.setdefault(module, []).append(name)
    # Boards of a module take turns, whatever other platforms are asked for.
    turns: Dict[str, int] = {}
    for model in models:
        sha256 = content_of(model)
        for label, arguments in platforms:
            candidates = by_module.get(arguments["target"], [])
            for precision in (arguments["precision"],) if "precision" in arguments else precisions:
                turn = turns.get(arguments["target"], 0)
                board = candidates[turn % len(candidates)] if candidates else None
                turns[arguments["target"]] = turn + 1
                yield Task(
                    model, sha256, arguments["target"], arguments.get("jetpack"), arguments.get("trt"), label, precision,
                    settings, version, board,
                )  # fmt: skip
