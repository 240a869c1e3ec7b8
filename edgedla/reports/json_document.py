"""Result documents as JSON text."""

from __future__ import annotations

import json
from typing import Any, List, Mapping

from edgedla.text.printable import json_escaped


def dump(document: Mapping[str, Any]) -> str:
    """A document as JSON text: one line per field, and one line per entry of a list of objects, so that files diff well.

    NaN and infinities are no JSON and raise ValueError.
    """
    # json.dumps(indent=...) falls back to the pure Python encoder, which takes seconds for 100,000 layers.
    lines: List[str] = []
    for key, value in document.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n".join(f"  {_compact(entry)}" for entry in value)
            lines.append(f" {_compact(key)}: [\n{entries}\n ]")
        else:
            lines.append(f" {_compact(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def to_json(result: Any, *_: object) -> str:
    """A form of results that is their document; it has no other arguments of forms."""
    return dump(result.to_dict())


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def _compact(value: Any) -> str:
    return json_escaped(_ENCODER.encode(value))
