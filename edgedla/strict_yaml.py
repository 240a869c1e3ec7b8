"""Strict YAML for the files under rules/: what YAML would guess silently is an error with file:line.

Refused: repeated keys, keys that are not text (`on:` is a boolean to YAML), `yes`/`no`/`on`/`off` as values, dates,
base-60 and octal numbers, anchors, aliases, merge keys and tags. Versions are read with `version()`, which refuses a
number: an unquoted 10.10 would arrive as 10.1.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

import yaml

from edgedla.errors import RuleError

# The C parser reads the rules about eight times faster; PyYAML without libyaml still works.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"-?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][-+]?[0-9]+)?\Z")
_WORDS: Dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_AMBIGUOUS = re.compile(r"(yes|no|on|off|y|n|true|false|null)\Z", re.IGNORECASE)
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9][0-9_]*([:.xXoO][0-9_a-fA-F]*)?\Z")
_PLAIN_TAGS = frozenset("tag:yaml.org,2002:" + kind for kind in ("str", "int", "float", "bool", "null", "timestamp"))
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")


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
                raise self.error(f"unknown key {key!r}", key, allowed=", ".join(sorted(required + optional)))
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
            raise self.error(f"{value!r} is no version", key, allowed="up to four numbers with dots between them")
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


def load(path: Path) -> Any:
    """The file's single document: Tables, lists, text, numbers, True, False, None.

    Raises:
        RuleError: the file is missing, is no YAML, or breaks one of the rules above; `where` is file:line.
    """
    name = "/".join(path.parts[-2:])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise RuleError(f"cannot read the rule data: {e}", where=str(path)) from e
    return loads(text, name)


def loads(text: str, name: str) -> Any:
    """As `load`, from a text; `name` stands for the file in errors."""
    try:
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark else 1
        raise RuleError(f"not valid YAML: {e.problem}", where=f"{name}:{line}") from e
    except yaml.YAMLError as e:
        raise RuleError(f"not valid YAML: {e}", where=name) from e
    if node is None:
        raise RuleError("the file is empty", where=name)
    return _value(node, name, set())


def _value(node: Any, file: str, seen: set) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, f"{file}:{line}")
    if id(node) in seen:
        raise RuleError("anchors and aliases are not used here", where=f"{file}:{line}", hint="Write the value again.")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        items: List[Any] = [_value(child, file, seen) for child in node.value]
        return items
    table = Table(file, line)
    for key_node, value_node in node.value:
        key_line = key_node.start_mark.line + 1
        where = f"{file}:{key_line}"
        key = _scalar(key_node, where, is_key=True) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            raise RuleError(
                f"the key {getattr(key_node, 'value', '?')!r} is not text to YAML", where=where, hint="Quote the key."
            )
        if key in table:
            raise RuleError(f"the key {key!r} stands twice in one mapping", where=where)
        table[key] = _value(value_node, file, seen)
        table.lines[key] = key_line
    return table


def _scalar(node: Any, where: str, is_key: bool = False) -> Any:
    if node.tag not in _PLAIN_TAGS:
        raise RuleError(f"the tag {node.tag} is not used here", where=where)
    text = node.value
    if node.style:  # libyaml says "" for plain text, the Python parser None
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    if _AMBIGUOUS.match(text) or text == "<<" or _NUMBER_LIKE.match(text) or _DATE.match(text):
        what = "key" if is_key else "value"
        raise RuleError(
            f"YAML may read the {what} {text} as something else than text",
            where=where,
            hint=f'Write "{text}", or true/false.',
        )
    return text
