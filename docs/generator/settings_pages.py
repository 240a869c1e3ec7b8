"""Pages on pipeline.yaml, boards.yaml and the exit codes, from the types that read them."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import typing
from typing import Any, Dict, Iterator, List, Optional, Tuple, Type

import click

from docs.generator.markdown import code, page, plain, table
from edgedla import errors
from edgedla.cli.main import EPILOG
from edgedla.remote.inventory import FILE_VARIABLE, BoardEntry, read_inventory
from edgedla.runtime.pipeline.settings import PipelineConfig

FOLDER = "reference"


def settings_pages() -> Dict[str, str]:
    """Path within the site -> Markdown."""
    return {f"{FOLDER}/pipeline.md": _pipeline(), f"{FOLDER}/boards.md": _boards(), f"{FOLDER}/exit-codes.md": _exit_codes()}


def _pipeline() -> str:
    parts: List[List[str]] = []
    for path, cls in _sections(PipelineConfig, ""):
        title = f"## {path}" if path else "## The file"
        rows = [[code(f"{path}.{f.name}" if path else f.name), plain(_type(cls, f.name)), _default(f)] for f in _fields(cls)]
        rows = [["`version`", "1, or 2 for named sources and models", "required"], *rows] if not path else rows
        parts.append([title, "", *_paragraphs(cls), *table(["Key", "Type", "Default"], rows)])
    return page(
        "pipeline.yaml",
        "`edgedla run FILE` reads it. Paths are relative to the file's folder. A key that nobody knows is an error, with the "
        "nearest that is known. [A camera pipeline](../tutorials/camera-pipeline.md) writes one from scratch.",
        "",
        *parts,
        description="Every key of a pipeline file.",
    )


def _sections(cls: type, path: str) -> Iterator[Tuple[str, type]]:
    yield path, cls
    hints = typing.get_type_hints(cls)
    for field in _fields(cls):
        inner = _dataclass_in(hints[field.name])
        if inner is not None:
            origin = typing.get_origin(hints[field.name])
            many = "[]" if origin is tuple else ".NAME" if origin is collections.abc.Mapping else ""
            yield from _sections(inner, f"{path}.{field.name}{many}" if path else field.name + many)


def _dataclass_in(hint: Any) -> Optional[type]:
    """The settings within a hint: of the field itself, or of each entry of a list."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return hint
    return next((inner for inner in map(_dataclass_in, typing.get_args(hint)) if inner is not None), None)


def _fields(cls: type) -> List[Any]:
    return [f for f in dataclasses.fields(cls) if not f.metadata.get("internal")]


def _type(cls: type, name: str) -> str:
    hint = typing.get_type_hints(cls)[name]
    if _dataclass_in(hint) is not None:
        return "a mapping, below" if dataclasses.is_dataclass(hint) else "mappings, below"
    text = inspect.formatannotation(hint).replace("typing.", "").replace("NoneType", "None")
    text = re.sub(r"Optional\[(\w+)\]", r"\1", text)
    for word, ours in (
        ("Tuple[str, ...]", "list of texts"),
        ("Tuple[float, ...]", "list of numbers"),
        ("Tuple[Tuple[float, float], ...]", "list of [x, y]"),
        ("Mapping[str, Any]", "mapping"),
        ("str", "text"),
        ("int", "whole number"),
        ("float", "number"),
        ("bool", "true or false"),
    ):
        text = ours if text == word else text
    return text


def _default(field: Any) -> str:
    value = field.default
    if value is dataclasses.MISSING:
        value = field.default_factory() if field.default_factory is not dataclasses.MISSING else "required"
    if dataclasses.is_dataclass(value):
        return "-"
    if value in ("", (), {}, None):
        return "none"
    return code(list(value) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else value)


def _paragraphs(cls: type) -> List[str]:
    """The docstring of a type: its paragraphs, and its attributes as a list."""
    text = inspect.getdoc(cls) or ""
    if text.startswith(f"{cls.__name__}("):
        return []
    before, _, attributes = text.partition("Attributes:")
    lines = [line for part in before.strip().split("\n\n") if part for line in (plain(part), "")]
    entries: List[str] = []
    for line in attributes.splitlines():
        deeper = len(line) - len(line.lstrip()) > 4
        if line.strip() and deeper and entries:
            entries[-1] += " " + line.strip()
        elif line.strip():
            entries.append(line.strip())
    return [*lines, *(f"- {plain(entry)}" for entry in entries), *([""] if entries else [])]


def _boards() -> str:
    rows = [["host", "text", "required"]]
    rows += [
        [f.name, plain(_type(BoardEntry, f.name)), _default(f)] for f in _fields(BoardEntry) if f.name not in ("name", "address")
    ]
    return page(
        "boards.yaml",
        f"The boards that `--board NAME` knows: `~/.config/edgedla/boards.yaml`, or the file that `{FILE_VARIABLE}` names. "
        "`edgedla board add` writes it.",
        "",
        ["```yaml", "boards:", "  orin1:", '    host: "nvidia@10.0.0.5:22"', '    groups: ["lab"]', "```", ""],
        table(["Key of a board", "Type", "Default"], [[code(key), kind, default] for key, kind, default in rows]),
        _paragraphs(BoardEntry),
        ["Errors name the line:", "", *(f"- {plain(line)}" for line in _raised(read_inventory))],
    )


def _raised(function: Any) -> List[str]:
    text = inspect.getdoc(function) or ""
    return [" ".join(text.partition("Raises:")[2].split())] if "Raises:" in text else []


def _mistake(mistake: str, error: Type[errors.EdgedlaError]) -> List[str]:
    name = error.__name__
    return [plain(mistake), str(error.exit_code), f"[{code(name)}](python/errors.md#edgedla.{name})"]


def _exit_codes() -> str:
    text = EPILOG.replace("Exit codes:", "").strip().rstrip(".")
    rows = []
    for entry in " ".join(text.split()).split("; "):
        number, _, meaning = entry.partition(" ")
        raised = sorted(
            name
            for name, cls in vars(errors).items()
            if inspect.isclass(cls) and issubclass(cls, errors.EdgedlaError) and str(cls.exit_code) == number
        )
        names = [name for name in raised if name != "EdgedlaError"]
        rows.append([number, plain(meaning), ", ".join(f"[{code(n)}](python/errors.md#edgedla.{n})" for n in names) or "-"])
    assert click.UsageError.exit_code == errors.UsageError.exit_code
    return page(
        "Exit codes",
        "Every command ends with one of these. From Python the same errors are exceptions.",
        "",
        table(["Exit code", "Meaning", "Exception"], rows),
        "",
        "## Mistakes",
        "",
        "A mistake has one exit code, whichever command meets it.",
        "",
        table(["Mistake", "Exit code", "Exception"], [_mistake(*row) for row in errors.MISTAKES]),
        "",
        ["Code 70 is a fault of edgedla: [report it](../project/contributing.md)."],
    )
