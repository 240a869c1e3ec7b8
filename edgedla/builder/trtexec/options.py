"""The options and formats of each release's trtexec, read strictly from rules/trtexec.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Dict, Mapping, Optional, Tuple

from edgedla.errors import RuleError
from edgedla.formats import TensorFormat
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir

Version = Tuple[int, ...]


@dataclass(frozen=True)
class _Span:
    first: Version
    last: Optional[Version]

    def holds(self, trt: Version) -> bool:
        """`last` includes every version that begins with it."""
        return self.first <= trt[: max(len(self.first), 2)] and (self.last is None or trt[: len(self.last)] <= self.last)


@dataclass(frozen=True)
class _Table:
    read: Tuple[str, ...]
    options: Mapping[str, _Span]
    formats: Tuple[Tuple[_Span, Tuple[str, ...], Tuple[str, ...]], ...]
    older_names: Mapping[str, str]


@dataclass(frozen=True)
class Options:
    """trtexec of one release.

    Attributes:
        read: the release whose help the options were taken from.
        names: the options it has.
        input_formats, output_formats: formats that trtexec accepts for a standalone build; () if unknown.
        older_names: newer name of a format -> its older name.
    """

    release: Version
    read: str
    names: Tuple[str, ...]
    input_formats: Tuple[str, ...]
    output_formats: Tuple[str, ...]
    older_names: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def standalone_format(self, name: str, is_input: bool) -> Optional[str]:
        """The name under which a standalone build can have this format; None where it cannot."""
        formats = self.input_formats if is_input else self.output_formats
        older = self.older_names.get(name)
        return name if not formats or name in formats else older if older in formats else None


@lru_cache(maxsize=None)
def _table() -> _Table:
    path = rules_dir() / "trtexec.yaml"
    root = strict_yaml.load(path)
    if not isinstance(root, strict_yaml.Table):
        raise RuleError("not a mapping", where=str(path))
    root.only(("read", "options", "standalone_formats", "older_names"))
    for text in root.texts("read"):
        _version(text, root, "read")
    if not root.texts("read"):
        raise root.error("no release was read", "read")
    options: Dict[str, _Span] = {}
    entries = root.table("options")
    for name in entries:
        if not name.startswith("--"):
            raise entries.error(f"{name!r} is not an option", name, allowed="--name")
        options[name] = _span(entries.table(name).only(("first",), ("last",)))
    formats = []
    for row in root.tables("standalone_formats"):
        row.only(("first", "inputs", "outputs"), ("last",))
        formats.append((_span(row), _formats(row, "inputs"), _formats(row, "outputs")))
    names = root.table("older_names")
    for newer in names:
        _format(names, newer, newer)
        _format(names, newer, names.text(newer))
    return _Table(root.texts("read"), options, tuple(formats), {newer: names.text(newer) for newer in names})


def options_of(trt: Version) -> Options:
    """The options of this release; if its help was not read, those of the newest earlier release whose help was."""
    table = _table()
    read = [r for r in table.read if number(r)[:2] <= trt[:2]] or [table.read[0]]
    names = tuple(name for name, span in sorted(table.options.items()) if span.holds(trt))
    patch = trt if len(trt) > 2 else (*trt, 99)
    inputs, outputs = next(((i, o) for span, i, o in table.formats if span.holds(patch)), ((), ()))
    return Options(trt, max(read, key=number), names, inputs, outputs, table.older_names)


def number(text: str) -> Version:
    return tuple(int(n) for n in text.split("."))


def _version(text: str, table: strict_yaml.Table, key: str) -> Version:
    try:
        return number(text)
    except ValueError:
        raise table.error(f"{text!r} is not a version", key, allowed='numbers with dots, as "10.3"') from None


def _span(entry: strict_yaml.Table) -> _Span:
    first = _version(entry.text("first"), entry, "first")
    last = _version(entry.text("last"), entry, "last") if "last" in entry else None
    if last is not None and last < first[: len(last)]:
        raise entry.error("the last release is before the first", "last")
    return _Span(first, last)


def _formats(row: strict_yaml.Table, key: str) -> Tuple[str, ...]:
    for name in row.texts(key):
        _format(row, key, name)
    return row.texts(key)


def _format(table: strict_yaml.Table, key: str, name: str) -> None:
    if name not in TensorFormat.__members__:
        raise table.error(f"unknown format {name!r}", key, allowed=", ".join(TensorFormat.__members__))
