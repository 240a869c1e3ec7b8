"""JSON and YAML files that come from users, other tools or earlier runs, read strictly: every fault is a DocumentError.

Refused: what is larger than asked for, no UTF-8, nested too deeply, a key that appears twice, numbers that are none (NaN,
Infinity), and in YAML what `strict_yaml` refuses. Logs and profiles as TensorRT's tools write them are read by
`records.json_text`, which bears with their habits.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, Dict, List, Optional, Tuple, Union

from edgedla.errors import DocumentError, RuleError
from edgedla.io.files import open_plain

PathLike = Union[str, "os.PathLike[str]"]
#: A number beyond a double looks so. Names may too: then the numbers are only read more slowly.
_MAYBE_BEYOND = re.compile(r"[0-9]{300}|[0-9][eE]\+?[0-9]{3}")
#: Every number of so many digits is a double.
_MOST_DIGITS = 300
#: The placement of a network of 100,000 layers has some 30 MB.
MOST_JSON_BYTES = 1 << 28
#: YAML is written by hand, and takes minutes for megabytes.
MOST_YAML_BYTES = 1 << 18


def read_json(
    path: PathLike, *, wrong: str = "not a JSON document", most_bytes: int = MOST_JSON_BYTES, hint: Optional[str] = None
) -> Any:
    """The value in a JSON file.

    Args:
        wrong: what the error calls a file that is none: "the manifest is damaged".
    """
    return _parsed(_text(path, wrong, most_bytes, hint), os.fspath(path), wrong, hint)


def json_of(data: bytes, where: str, *, wrong: str = "not a JSON document") -> Any:
    """The value in a JSON file's bytes; `where` is its name in errors."""
    try:
        return _parsed(data.decode("utf-8-sig"), where, wrong, None)
    except UnicodeDecodeError as e:
        raise DocumentError(f"{wrong}: it is not UTF-8 text", where=where) from e


def _parsed(text: str, where: str, wrong: str, hint: Optional[str]) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number, **_bounds(text))
    except (ValueError, RecursionError) as e:
        # Python's own words for deep nesting speak of its stack.
        what = "it is nested too deeply" if isinstance(e, RecursionError) else str(e)
        if isinstance(e, json.JSONDecodeError):
            what = f"invalid JSON at line {e.lineno}, column {e.colno}"
        raise DocumentError(f"{wrong}: {what}", where=where, hint=hint) from e


def read_yaml(path: PathLike, *, wrong: str = "not valid YAML", most_bytes: int = MOST_YAML_BYTES) -> Any:
    """The single document in a YAML file: mappings are `strict_yaml.Table`, which know the lines of their keys."""
    from edgedla.io import strict_yaml

    where = os.fspath(path)
    text = _text(path, wrong, most_bytes, None)
    try:
        return strict_yaml.loads(text, where)
    except RuleError as e:
        what = e.what if e.what.startswith(wrong) else f"{wrong}: {e.what}"
        raise DocumentError(what, where=e.where, allowed=e.allowed, hint=e.hint) from e
    except RecursionError as e:
        raise DocumentError(f"{wrong}: it is nested too deeply", where=where) from e


def _text(path: PathLike, wrong: str, most_bytes: int, hint: Optional[str]) -> str:
    where = os.fspath(path)
    try:
        with open_plain(path) as f:
            data = f.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise DocumentError(f"{wrong}: it is larger than {most_bytes} bytes", where=where, hint=hint)
        return data.decode("utf-8-sig")
    except OSError as e:
        raise DocumentError(f"cannot be read: {e.strerror or e}", where=where, hint=hint) from e
    except ValueError as e:
        raise DocumentError(f"{wrong}: it is not UTF-8 text", where=where, hint=hint) from e


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} appears twice in one object")
            seen.add(key)
    return mapping


def _bounds(text: str) -> Dict[str, Any]:
    """Readers of numbers that refuse what no double holds, where the document may have some."""
    return {"parse_int": _whole, "parse_float": _finite} if _MAYBE_BEYOND.search(text) else {}


def _whole(word: str) -> int:
    if len(word) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(word)} digits")
    return int(word)


def _finite(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise ValueError(f"the number {word:.40} is too large")
    return value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")
