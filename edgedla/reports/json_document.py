"""Result documents as JSON text, and the JSON Schemas that describe them."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Sequence

from edgedla.errors import UsageError
from edgedla.regions.report import CheckReport

#: Document name -> its schema file beside this module.
SCHEMAS: Mapping[str, str] = {
    "edgedla.check": "check.schema.json",
    "edgedla.check-list": "check-list.schema.json",
    "edgedla.compare": "compare.schema.json",
    "edgedla.explain": "explain.schema.json",
    "edgedla.inspect": "inspect.schema.json",
    "edgedla.inspect-diff": "inspect-diff.schema.json",
    "edgedla.placement": "placement.schema.json",
    "edgedla.profile": "profile.schema.json",
    "edgedla.rules": "rules.schema.json",
    "edgedla.targets": "targets.schema.json",
}


def to_json(reports: Sequence[CheckReport]) -> str:
    """One report as the `edgedla.check` document; several as `edgedla.check-list`, which holds one each."""
    if len(reports) == 1:
        return dump(reports[0].to_dict())
    return dump(
        {"document": "edgedla.check-list", "schema_version": 1, "reports": [report.to_dict() for report in reports]}
    )


def dump(document: Mapping[str, Any]) -> str:
    """A document as JSON text: one line a field, and one line an entry of a list of objects, so that files diff well.

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


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def _compact(value: Any) -> str:
    return _ENCODER.encode(value)


def schema(document: str) -> Dict[str, Any]:
    """The published JSON Schema of a document, for example `schema("edgedla.check")`.

    Raises:
        UsageError: there is no such document.
    """
    if document not in SCHEMAS:
        raise UsageError(f"no document is called {document!r}", allowed=", ".join(SCHEMAS))
    path = os.path.join(os.path.dirname(__file__), "schemas", SCHEMAS[document])
    with open(path, encoding="utf-8") as f:
        found: Dict[str, Any] = json.load(f)
    return found
