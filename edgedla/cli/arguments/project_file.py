"""Defaults of a project: `[tool.edgedla]` in pyproject.toml, or edgedla.toml, in the current folder or the nearest above it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import click

from edgedla.cli.output import echo
from edgedla.errors import DocumentError

#: Read in this order in each folder.
OWN_FILE, SHARED_FILE = "edgedla.toml", "pyproject.toml"
_TABLE = "edgedla"
#: Key in the click context's meta: what the file sets, for a command that ends as wrong use; its values may be what is wrong.
SAID = "edgedla.project_file"
_MOST_BYTES = 1 << 20


class Key(NamedTuple):
    """A key of the file.

    Attributes:
        takes: what the error calls its values: "text", "number", "texts" or "shapes". A number may be written as text with its unit.
        verbs: the verbs that it holds for; () for every verb that has the option.
        replaced_by: options that replace it besides its own.
        is_path: a path from the file's folder.
        only_with: an option without which it means nothing.
    """

    takes: str = "text"
    verbs: Tuple[str, ...] = ()
    replaced_by: Tuple[str, ...] = ()
    is_path: bool = False
    only_with: str = ""


_LIMIT = Key("number", ("check",), ("--compare",))
_NEED = Key("number", ("check",), only_with="--compare")
_RELEASE = Key(replaced_by=("--target", "--jetpack", "--trt"))
#: Key, as the option is spelled -> what it takes. To add a key: one row.
KEYS: Mapping[str, Key] = {
    "target": Key(),
    "jetpack": _RELEASE,
    "trt": _RELEASE,
    "precision": Key(replaced_by=("--int8", "--fp16", "--best")),
    "mode": Key(replaced_by=("--allowGPUFallback", "--buildDLAStandalone", "--safe", "--useDLACore")),
    "power-mode": Key(replaced_by=("--target",)),
    "batch": Key("number"),
    "shapes": Key("shapes", replaced_by=("--optShapes", "--minShapes", "--maxShapes")),
    "models": Key("texts", ("check",), ("--onnx",), is_path=True),
    "fail-on": Key(verbs=("check",)),
    "baseline": Key(verbs=("check",), replaced_by=("--compare",), is_path=True),
    "min-dla-macs": _LIMIT,
    "max-loadables": _LIMIT,
    "max-gpu-layers": _LIMIT,
    "max-latency": _LIMIT,
    "max-energy": _LIMIT,
    "need-fps": _NEED,
    "need-ms": _NEED,
    "max-w": _NEED,
}


class ProjectFile(NamedTuple):
    """A file with defaults. `values`: key -> value as TOML has it, checked."""

    path: Path
    values: Mapping[str, Any]

    def defaults(self, verb: str, command: click.Command, args: Sequence[str]) -> Dict[str, Any]:
        """Parameter -> default for one command line: keys whose option, or one that replaces it, is given are left out."""
        given = {word.partition("=")[0] for word in args}
        options = {name: parameter.name or "" for parameter in command.params for name in parameter.opts}
        chosen = {}
        for name, value in self.values.items():
            key = KEYS[name]
            parameter = options.get(f"--{name}") or options.get(name)
            if parameter is None or (key.verbs and verb not in key.verbs) or given & {f"--{name}", *key.replaced_by}:
                continue
            if key.only_with and key.only_with not in given:
                continue
            chosen[parameter] = self._as_typed(key, value)
        return chosen

    def _as_typed(self, key: Key, value: Any) -> Any:
        """The value as the command line would hold it."""
        if key.takes == "shapes":
            return ",".join(f"{tensor}:{'x'.join(map(str, dims))}" for tensor, dims in value.items())
        if key.takes == "texts":
            return tuple(self._from_here(text) if key.is_path else text for text in value)
        return self._from_here(value) if key.is_path else str(value)

    def _from_here(self, text: str) -> str:
        return text if os.path.isabs(text) else os.path.relpath(self.path.parent / text)


def project_file(start: Optional[Path] = None) -> Optional[ProjectFile]:
    """The nearest file with defaults, from `start` (default: the current folder) upwards to the checkout's root; None without one.

    Raises:
        DocumentError: it is no TOML, or holds a key or value that no option takes.
    """
    for folder in _upwards(Path.cwd() if start is None else start):
        for name in (OWN_FILE, SHARED_FILE):
            text = _text(folder / name)
            # The library is imported only where there may be something to read.
            values = _parsed(text, folder / name) if text is not None and (name == OWN_FILE or _TABLE in text) else None
            if values is not None:
                return ProjectFile(folder / name, _checked(values, folder / name))
    return None


def take_defaults(ctx: click.Context, verb: str, command: click.Command, args: Sequence[str]) -> None:
    """Gives the command the project file's defaults, and says so under --verbose."""
    found = project_file()
    if found is None:
        return
    defaults = found.defaults(verb, command, args)
    ctx.default_map = {verb: defaults}
    told = ", ".join(f"{name.replace('_', '-')}={value}" for name, value in defaults.items()) or "nothing"
    said = f"edgedla: {found.path} sets {told}"
    if ctx.params.get("verbose"):
        echo(said, err=True)
    elif defaults:
        ctx.meta[SAID] = said


def _upwards(start: Path) -> Iterator[Path]:
    """The folder and those above it; the checkout's root is the last, and so is the home folder."""
    for folder in (start, *start.parents):
        yield folder
        if (folder / ".git").exists() or folder == Path.home():
            return


def _text(path: Path) -> Optional[str]:
    if not path.is_file():
        return None
    try:
        with open(path, encoding="utf-8") as f:
            return f.read(_MOST_BYTES)
    except (OSError, ValueError) as e:
        if path.name == OWN_FILE:
            raise DocumentError(f"cannot be read: {e}", where=str(path)) from e
        # Another tool's file, as far as edgedla knows.
        return None


def _parsed(text: str, path: Path) -> Any:
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise DocumentError(f"not valid TOML: {e}", where=str(path)) from e
    if path.name == OWN_FILE:
        return document
    tool = document.get("tool")
    return tool.get(_TABLE) if isinstance(tool, dict) else None


def _checked(values: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise DocumentError("tool.edgedla is not a table", where=str(path), allowed="[tool.edgedla] with a key a line")
    for name, value in values.items():
        if name not in KEYS:
            from edgedla.vocabulary import nearest

            near = nearest(name, KEYS)
            raise DocumentError(
                f"unknown key {name!r}",
                where=str(path),
                allowed=", ".join(KEYS),
                hint=f"Did you mean {near!r}?" if near else None,
            )
        takes = KEYS[name].takes
        if not _FITS[takes](value):
            raise DocumentError(f"{name} = {value!r}", where=str(path), allowed=_ALLOWED[takes])
    return dict(values)


def _is_shapes(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(dims, list) and dims and all(isinstance(d, int) and not isinstance(d, bool) and d > 0 for d in dims)
        for dims in value.values()
    )


_FITS = {
    "text": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float, str)) and not isinstance(value, bool),
    "texts": lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    "shapes": _is_shapes,
}
_ALLOWED = {
    "text": 'text: "orin-nx-16gb"',
    "number": 'a number, or text with its unit: "95%"',
    "texts": 'a list of texts: ["models"]',
    "shapes": "a table of dims by input: {image = [1, 3, 640, 640]}",
}
