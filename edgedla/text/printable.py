"""Names of a model, a file or a log may hold what a terminal obeys; here they become what it shows.

Besides C0 and C1: separators that begin a line, and marks that turn the direction of what follows. Words of an error besides
may repeat an address with its password; it is taken out here. And values as JSON holds them: a document is printed too.
"""

from __future__ import annotations

import io
import math
import operator
import os
import re
from collections import abc
from enum import Enum
from typing import Any, Callable, Dict, Mapping, Optional, TextIO, Union

_TURNS = "\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[\x00-\x1f\x7f-\x9f{_TURNS}\ud800-\udfff]")
#: As above, without line ends, tabs and the colours (SGR) that our own text has.
_IN_TEXT = re.compile(f"\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f{_TURNS}]")
#: What JSON may hold raw in a string and a terminal obeys; and halves of surrogate pairs, which are no UTF-8.
_IN_JSON = f"[\x7f-\x9f{_TURNS}\ud800-\udfff]"
#: A word's address of any scheme: where it begins, and its scheme.
_SCHEME = re.compile(r"(?i)(?:[^a-z]|\A)([a-z][a-z0-9+.-]{0,30}:/{1,2})")
#: An address without its scheme: where the user's name begins.
_USER = re.compile(r"[^\s\"'(@:]{1,200}:")
#: Words longer than this are searched for no secret values: what stands behind a question mark is cut.
_LONG = 2000
#: `user-pw=...` of GStreamer's elements, and what cameras and services call their keys.
SECRET_VALUE = re.compile(r"(?i)([\w-]*(?:pass|pw|pwd|secret|token|key|auth|user)[\w-]*\s*[=:]\s*)(\"[^\"]*\"|[^\s&;,!\"']+)")


def printable(name: str) -> str:
    """One line: "a\\x1b[2J" for a name that would clear the screen."""
    return _CONTROL.sub(lambda m: ascii(m.group())[1:-1], name)


def printable_text(text: str) -> str:
    """Several lines, with their colours."""
    if text.isascii() and text.replace("\n", "").isprintable():
        # A JSON document is; the pattern takes four times as long to say so.
        return text
    return _IN_TEXT.sub(lambda m: ascii(m.group())[1:-1], text)


class Printed:
    """A stream for a user's own code: what it writes goes to `to` as `printable_text`. A bar of progress may return its line."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def write(self, text: str) -> int:
        self._to.write("\r".join(map(printable_text, text.split("\r"))))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


def without_credentials(text: str) -> str:
    """Words of an error, which may name anything that the user gave: user and password of addresses are "***"."""
    return re.sub(r"\S+", lambda m: _without_credentials(m.group()), text) if ":" in text else text


def _without_credentials(word: str) -> str:
    # A password may hold quotes, slashes and further @, so it ends at the last one.
    at = word.rfind("@")
    scheme = _SCHEME.search(word)
    begin = scheme if scheme is not None else _USER.search(word)
    if begin is None or (scheme is None and begin.start() > at):
        return word
    head = word[: begin.end()] if scheme is not None else word[: begin.start()]
    if at < len(head):
        user, rest = "", word[len(head) :]
    else:
        user, rest = "***@", word[at + 1 :]
    if len(rest) > _LONG:
        rest = rest.partition("?")[0]
    elif scheme is not None:
        rest = SECRET_VALUE.sub(r"\1***", rest)
    return f"{head}{user}{rest}"


def json_escaped(document: str) -> str:
    """The same JSON document, with \\u escapes for what a terminal would obey. C0 is escaped by every encoder."""
    if document.isascii() and "\x7f" not in document:
        # Most are; the pattern takes a hundred times as long to say so.
        return document
    return re.sub(_IN_JSON, lambda m: f"\\u{ord(m.group()):04x}", document)


def json_text(document: Any, default: Optional[Callable[[Any], Any]] = None) -> str:
    """A JSON document as text, one key per line, with a line end. NaN and infinity raise ValueError. `default`: as of json.dumps.

    `json.dumps` would hold every word as a string of its own first: seven times the text.
    """
    import json

    text = io.StringIO()
    for words in json.JSONEncoder(indent=1, ensure_ascii=False, allow_nan=False, default=default).iterencode(document):
        text.write(words)
    text.write("\n")
    return json_escaped(text.getvalue())


class Word(str, Enum):
    """Base of lists of words, each its own text."""

    # Enum's own is its name with the list's, and takes ten times as long.
    __str__ = str.__str__


#: Types whose values JSON holds as they are.
_PLAIN = frozenset((str, int, float, bool, type(None)))


class Fields:
    """Base of dataclasses whose document has a key for each of their fields."""

    def to_dict(self) -> Dict[str, Any]:
        return _written(vars(self))


def as_json(value: Any) -> Any:
    """Tuples become lists, words of an Enum and paths text; a value with a document of its own becomes that."""
    return value if type(value) in _PLAIN else _FORMS[type(value)](value)


class _Forms(Dict[type, Callable[[Any], Any]]):
    """What writes the values of a type: found once, as a report has a document for each layer."""

    def __missing__(self, kind: Any) -> Callable[[Any], Any]:
        self[kind] = form = _form(kind)
        return form


_FORMS = _Forms()


def _form(kind: Any) -> Callable[[Any], Any]:
    if issubclass(kind, Enum):
        return operator.attrgetter("_value_")
    if hasattr(kind, "to_dict"):
        return kind.to_dict
    if hasattr(kind, "__dataclass_fields__"):
        return lambda value: _written(vars(value))
    if issubclass(kind, abc.Mapping):
        return _written
    if issubclass(kind, (list, tuple)):
        return lambda value: [x if type(x) in _PLAIN else as_json(x) for x in value]
    if issubclass(kind, os.PathLike):
        return str
    return lambda value: value


def _written(values: Mapping[Any, Any]) -> Dict[Any, Any]:
    return {key: x if type(x) in _PLAIN else _FORMS[type(x)](x) for key, x in values.items()}


def cell(value: Any) -> Any:
    """A value of a CSV file: None is empty, and text is one line that no spreadsheet evaluates."""
    if not isinstance(value, str):
        return "" if value is None else value
    text = printable(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def number(value: float, form: str) -> str:
    """A number as the format writes it, but what is rounded to zero has no minus: 0.0 for -0.04 as `.1f`."""
    text = format(value, form)
    return format(0.0, form) if "-" in text and float(text) == 0 else text


def rounded(value: float, digits: int) -> float:
    """As `round`, but never -0.0."""
    return round(value, digits) + 0.0


def digits(value: Optional[float]) -> Optional[float]:
    """The value to six digits, never -0.0; None for NaN and infinity, which JSON lacks."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}") + 0.0


def short(value: float, digits: int = 3) -> str:
    """A number as `:.3g` writes it, but 18930 and not 1.893e+04."""
    text = number(value, f".{digits}g")
    return f"{float(text):.0f}" if "e+" in text else text


#: U+2212, as wide as a plus; a hyphen is not.
MINUS = "\u2212"


def significant(value: float, digits: int = 3) -> str:
    """0.840, 3.60, 11.5, 1230: `digits` significant digits with trailing zeros."""
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    # 0.9996 becomes 1.00, not 1.000.
    magnitude = math.floor(math.log10(abs(rounded)))
    text = f"{abs(rounded):.{max(digits - 1 - magnitude, 0)}f}"
    return f"{MINUS}{text}" if value < 0 else text


def slower(ratio: float) -> str:
    """One time against another: `2.5 times slower`, `1.4 times faster`."""
    return f"{significant(max(ratio, 1 / ratio), 2)} times {'slower' if ratio > 1 else 'faster'}"


def or_not_known(value: Optional[float]) -> Union[float, str]:
    """A number as it is, "not known" for None."""
    return "not known" if value is None else value
