"""JSON as other tools write it: UTF-16, control characters in strings, C++'s nan and inf."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Optional

#: C++ streams write NaN and infinity so; JSON has no words for them.
_NO_NUMBER = re.compile(r"(?<=[:\[,\s])-?(?:nan|inf)(?=\s*[,}\]])")


#: A number outside a double's range matches this. Names may match too: then parsing is only slower.
_MAYBE_BEYOND = re.compile(r"[0-9]{300}|[0-9][eE]\+?[0-9]{3}")
#: Every number with at most this many digits fits a double.
_MOST_DIGITS = 300


def parse_json(data: bytes) -> Any:
    """The value; NaN, infinities and numbers outside a double's range become None.

    Raises:
        ValueError: not JSON. RecursionError: nested too deeply.
    """
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # PowerShell's redirection writes UTF-16
    text = data.decode("utf-16" if wide else "utf-8-sig", "replace")
    try:
        return _loads(text)
    except ValueError:
        plain = _NO_NUMBER.sub("null", text)
        if plain == text:
            raise
        return _loads(plain)


def _loads(text: str) -> Any:
    bounds: Dict[str, Any] = {"parse_int": _whole, "parse_float": _finite} if _MAYBE_BEYOND.search(text) else {}
    return json.loads(text, strict=False, parse_constant=lambda word: None, **bounds)


def _whole(word: str) -> Optional[int]:
    return int(word) if len(word) <= _MOST_DIGITS else None


def _finite(word: str) -> Optional[float]:
    value = float(word)
    return value if math.isfinite(value) else None
