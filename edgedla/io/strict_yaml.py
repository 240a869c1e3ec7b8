"""Strict YAML for the files under rules/: what YAML would guess silently is an error with file:line.

Refused: repeated keys, keys that are not text (`on:` is a boolean to YAML), `yes`/`no`/`on`/`off` as values, dates,
base-60 and octal numbers, anchors, aliases, merge keys and tags. Versions are read with `version()`, which refuses a
number: an unquoted 10.10 would arrive as 10.1.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Tuple

from edgedla.errors import RuleError
from edgedla.io.data import kept

if TYPE_CHECKING:
    import yaml
else:
    # Imported where YAML is read: compiled rules do without, a bundle reads none, and a board may have no PyYAML.
    yaml = None

_INT = re.compile(r"-?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?\Z")
_WORDS: Dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_AMBIGUOUS = re.compile(r"(yes|no|on|off|y|n|true|false|null)\Z", re.IGNORECASE)
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9][0-9_]*([:.xXoO][0-9_a-fA-F]*)?\Z")
_WORD = re.compile(r"[A-Za-z_]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
#: Every number of so many digits is a double.
_MOST_DIGITS = 300


class Table(dict):
    """A YAML mapping that knows its file and the line of each key."""

    __slots__ = ("file", "line", "lines")

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file = file
        self.line = line
        self.lines: Dict[str, int] = {}

    def where(self, key: Optional[str] = None) -> str:
        """file:line of the mapping, or of one of its keys."""
        return f"{self.file}:{self.lines.get(key, self.line) if key is not None else self.line}"

    def error(self, what: str, key: Optional[str] = None, **more: str) -> RuleError:
        return RuleError(what, where=self.where(key), **more)

    def only(self, required: Iterable[str], optional: Iterable[str] = ()) -> Table:
        """Itself, after a check that it has all required keys and no unknown ones."""
        required, optional = tuple(required), tuple(optional)
        for key in self:
            if key not in required and key not in optional:
                raise self.error(f"unknown key {key!r}", key, allowed=", ".join(sorted({*required, *optional})))
        for key in required:
            if key not in self:
                raise self.error(f"the key {key!r} is missing")
        return self

    def text(self, key: str, default: Optional[str] = None) -> str:
        return str(self._typed(key, str, "text", default))

    def number(self, key: str, default: Optional[float] = None) -> float:
        value = self._typed(key, (int, float), "a number", default)
        if isinstance(value, bool):
            raise self.error(f"{key!r} must be a number", key)
        return float(value) if isinstance(value, float) else int(value)

    def integer(self, key: str, default: Optional[int] = None) -> int:
        value = self._typed(key, int, "a whole number", default)
        if isinstance(value, bool):
            raise self.error(f"{key!r} must be a whole number", key)
        return int(value)

    def texts(self, key: str) -> Tuple[str, ...]:
        """A list of texts; empty where the key is absent."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self.error(f"{key!r} must be a list of texts, got {value!r}", key, hint="Quote versions and numbers.")
        return tuple(value)

    def table(self, key: str) -> Table:
        value = self._typed(key, Table, "a mapping", None)
        assert isinstance(value, Table)
        return value

    def tables(self, key: str) -> Tuple[Table, ...]:
        """A list of mappings; empty where the key is absent."""
        value = self.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, Table) for v in value):
            raise self.error(f"{key!r} must be a list of mappings", key)
        return tuple(value)

    def version(self, key: str, default: Optional[Tuple[int, ...]] = None) -> Optional[Tuple[int, ...]]:
        """A quoted version as a tuple, "10.3.0" -> (10, 3, 0)."""
        if key not in self:
            return default
        value = self[key]
        if not isinstance(value, str):
            raise self.error(f"the version {value!r} is not quoted", key, hint=f'Write {key}: "{value}".')
        if not re.match(r"[0-9]+(\.[0-9]+){0,3}\Z", value):
            raise self.error(f"{value!r} is not a version", key, allowed="up to four numbers with dots between them")
        return tuple(int(n) for n in value.split("."))

    def _typed(self, key: str, kind: Any, name: str, default: Any) -> Any:
        if key not in self:
            if default is None:
                raise self.error(f"the key {key!r} is missing")
            return default
        value = self[key]
        if not isinstance(value, kind):
            raise self.error(f"{key!r} must be {name}, got {value!r}", key)
        return value


class Skipped:
    """Stands for a value that `load(..., skip=...)` did not read."""


SKIPPED = Skipped()


def load(path: Path, skip: FrozenSet[str] = frozenset()) -> Any:
    """The file's single document: Tables, lists, text, numbers, True, False, None.

    Args:
        skip: keys whose values are not read and become SKIPPED. A check of one network has no use for the examples of
            rules, which are half of the files.

    Raises:
        RuleError: the file is missing, is no YAML, or breaks one of the rules above; `where` is file:line.
    """
    name = "/".join(path.parts[-2:])
    try:
        data = path.read_bytes()
        value = kept(path, data, skip, lambda: packed(data, name, skip))
    except (OSError, UnicodeDecodeError) as e:
        raise RuleError(f"cannot read the rule data: {e}", where=str(path)) from e
    return _unpacked(value, name)


def packed(data: bytes, name: str, skip: FrozenSet[str] = frozenset()) -> Any:
    """A YAML document as JSON holds it, which `load` keeps."""
    return _packed(loads(data.decode("utf-8"), name, skip))


def _packed(value: Any) -> Any:
    """As JSON: a table is an object with its lines under ""; SKIPPED is an empty one."""
    if isinstance(value, Table):
        if "" in value:
            raise value.error("a key is empty", "")
        return {"": [value.line, *(value.lines[key] for key in value)], **{k: _packed(v) for k, v in value.items()}}
    if isinstance(value, list):
        return [_packed(v) for v in value]
    return {} if value is SKIPPED else value


def _unpacked(value: Any, file: str) -> Any:
    if type(value) is list:
        return [_unpacked(v, file) if type(v) in (dict, list) else v for v in value]
    if type(value) is not dict:
        return value
    if not value:
        return SKIPPED
    lines = value.pop("")
    table = Table(file, lines[0])
    table.lines = dict(zip(value, lines[1:]))
    for key, v in value.items():
        table[key] = _unpacked(v, file) if type(v) in (dict, list) else v
    return table


def loads(text: str, name: str, skip: FrozenSet[str] = frozenset()) -> Any:
    """As `load`, from a text; `name` stands for the file in errors."""
    global yaml
    if yaml is None:
        import yaml
    # The C parser reads the rules about eight times faster; PyYAML without libyaml still works.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        return _Reader(loader.get_event, name, skip).document()
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else 1
        raise RuleError(f"not valid YAML: {e.problem}", where=f"{name}:{line}") from e
    except yaml.YAMLError as e:
        raise RuleError(f"not valid YAML: {e}", where=name) from e
    finally:
        loader.dispose()


class _Reader:
    """Values from parser events. Building PyYAML's node tree first would take twice as long."""

    def __init__(self, get_event: Callable[[], Any], file: str, skip: FrozenSet[str]) -> None:
        self.get_event = get_event
        self.file = file
        self.skip = skip

    def document(self) -> Any:
        self.get_event()  # the start of the stream
        start = self.get_event()
        if isinstance(start, yaml.StreamEndEvent):
            raise RuleError("the file is empty", where=self.file)
        value = self.value(self.get_event())
        self.get_event()  # the end of the document
        more = self.get_event()
        if not isinstance(more, yaml.StreamEndEvent):
            raise RuleError("not valid YAML: a file holds one document", where=self.where(more))
        return value

    def where(self, event: Any) -> str:
        return f"{self.file}:{event.start_mark.line + 1}"

    def value(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise RuleError("anchors and aliases are not used here", where=self.where(event), hint="Write the value again.")
        if event.tag is not None:
            raise RuleError(f"the tag {event.tag} is not used here", where=self.where(event))
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, self)
        if isinstance(event, yaml.SequenceStartEvent):
            items: List[Any] = []
            while True:
                event = self.get_event()
                if isinstance(event, yaml.SequenceEndEvent):
                    return items
                items.append(self.value(event))
        return self.table(event)

    def table(self, start: Any) -> Table:
        table = Table(self.file, start.start_mark.line + 1)
        while True:
            event = self.get_event()
            if isinstance(event, yaml.MappingEndEvent):
                return table
            key = self.value(event)
            if not isinstance(key, str):
                what = getattr(event, "value", "?")
                raise RuleError(f"the key {what!r} is not text to YAML", where=self.where(event), hint="Quote the key.")
            if key in table:
                raise RuleError(f"the key {key!r} appears twice in one mapping", where=self.where(event))
            table.lines[key] = event.start_mark.line + 1
            table[key] = self.pass_over() if key in self.skip else self.value(self.get_event())

    def pass_over(self) -> Skipped:
        """Reads to the end of the next value and forgets it."""
        depth = 0
        while True:
            event = self.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth == 0:
                return SKIPPED


def _scalar(event: Any, reader: _Reader) -> Any:
    text = event.value
    if "\0" in text:
        # No path, address or name that the system takes can hold one.
        raise RuleError("the text holds a NUL character", where=reader.where(event))
    if event.style:  # libyaml says "" for plain text, the Python parser None
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _WORD.match(text):
        if not _AMBIGUOUS.match(text):
            return text
    elif _INT.match(text):
        if len(text) > _MOST_DIGITS:
            raise RuleError(f"a number has {len(text)} digits", where=reader.where(event))
        return int(text)
    elif _FLOAT.match(text):
        value = float(text)
        if math.isinf(value):
            raise RuleError(f"the number {text:.40} is too large", where=reader.where(event))
        return value
    if _AMBIGUOUS.match(text) or text == "<<" or _NUMBER_LIKE.match(text) or _DATE.match(text):
        raise RuleError(
            f"YAML may read the value {text} as something other than text",
            where=reader.where(event),
            hint=f'Write "{text}", or true/false.',
        )
    return text
