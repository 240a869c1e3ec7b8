"""JSON as tools write it: UTF-16, control characters in strings, C++'s nan and inf."""

from __future__ import annotations

import json
import re
from typing import Any

#: C++ streams write numbers that are none so, and JSON has no word for them.
_NO_NUMBER = re.compile(r"(?<=[:\[,\s])-?(?:nan|inf)(?=\s*[,}\]])")


def parse_json(data: bytes) -> Any:
    """The value; NaN and infinities become None.

    Raises:
        ValueError: it is no JSON. RecursionError: it is nested too deeply.
    """
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # PowerShell's redirection writes UTF-16
    text = data.decode("utf-16" if wide else "utf-8-sig", "replace")
    try:
        return json.loads(text, strict=False, parse_constant=lambda word: None)
    except ValueError:
        plain = _NO_NUMBER.sub("null", text)
        if plain == text:
            raise
        return json.loads(plain, strict=False, parse_constant=lambda word: None)
