"""A page for each JSON document, from its schema; the schema itself lies beside it."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, Tuple

from docs.generator.markdown import code, page, plain, table
from edgedla.io.documents import DOCUMENTS, Document, schema
from edgedla.text.pages import FOLDERS


def document_pages() -> Dict[str, str]:
    """Path within the site -> Markdown, or the schema's own text."""
    folder = FOLDERS["document"]
    made: Dict[str, str] = {}
    for document in DOCUMENTS.values():
        made[f"{folder}/{document.name}.md"] = _document(document, schema(document.name))
        made[f"{folder}/{document.schema_file}"] = json.dumps(schema(document.name), indent=2) + "\n"
    rows = [
        [f"[{code(d.name)}]({d.name}.md)", str(d.version), code(d.written_by), f"[{d.schema_file}]({d.schema_file})"]
        for d in DOCUMENTS.values()
    ]
    made[f"{folder}/index.md"] = page(
        "JSON documents",
        "Every document names itself in `document` and `schema_version`. New fields may come; a field that changes its "
        "meaning or goes away raises the version. `edgedla.schema(NAME)` returns the schema.",
        "",
        table(["Document", "Version", "Written by", "Schema"], rows),
    )
    return made


def _document(document: Document, whole: Mapping[str, Any]) -> str:
    rows = [[code(path), plain(kind), plain(text)] for path, kind, text in _fields(whole, whole, "", ())]
    return page(
        document.name,
        [f"`{document.written_by}` writes it. Version {document.version}; [schema]({document.schema_file}).", ""],
        [plain(whole["description"]), ""] if whole.get("description") else [],
        ["`[]` stands for each entry of a list, `*` for any name. Fields marked with ? may be absent.", ""],
        table(["Field", "Type", "Meaning"], rows),
        description=str(whole.get("title", "")),
    )


def _fields(
    part: Mapping[str, Any], whole: Mapping[str, Any], path: str, above: Tuple[str, ...]
) -> Iterator[Tuple[str, str, str]]:
    """(path, type, description) of each field below a part of a schema; references are followed once."""
    part, above = _resolved(part, whole, above)
    for below in (*part.get("oneOf", ()), *part.get("anyOf", ()), *part.get("allOf", ())):
        yield from _fields(below, whole, path, above)
    required = part.get("required", [])
    for name, value in part.get("properties", {}).items():
        yield from _entry(value, whole, f"{path}.{name}" if path else name, above, name not in required)
    if isinstance(part.get("additionalProperties"), dict):
        yield from _entry(part["additionalProperties"], whole, f"{path}.*" if path else "*", above, False)
    if isinstance(part.get("items"), dict):
        items, below_above = _resolved(part["items"], whole, above)
        yield from _fields(items, whole, f"{path}[]", below_above)


def _entry(
    value: Any, whole: Mapping[str, Any], path: str, above: Tuple[str, ...], optional: bool
) -> Iterator[Tuple[str, str, str]]:
    if not isinstance(value, dict):
        return
    name = value.get("$ref")
    resolved, below = _resolved(value, whole, above)
    text = value.get("description") or resolved.get("description", "")
    yield path + ("?" if optional else ""), _type(resolved), text
    if name not in above:
        yield from _fields(resolved, whole, path, below)


def _resolved(
    part: Mapping[str, Any], whole: Mapping[str, Any], above: Tuple[str, ...]
) -> Tuple[Mapping[str, Any], Tuple[str, ...]]:
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return part, above
    found: Any = whole
    for step in reference[2:].split("/"):
        found = found[step]
    return found, (*above, reference)


def _type(part: Mapping[str, Any]) -> str:
    if "const" in part:
        return repr(part["const"])
    if "enum" in part:
        return " or ".join("null" if v is None else str(v) for v in part["enum"])
    choices: List[Any] = [*part.get("oneOf", ()), *part.get("anyOf", ())]
    if choices:
        return " or ".join(dict.fromkeys(_type(choice) for choice in choices))
    kind = part.get("type", "object" if "properties" in part else "any")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    low, high = part.get("minimum"), part.get("maximum")
    if low is not None or high is not None:
        words += f", {low} to {high}" if None not in (low, high) else f", at least {low}" if high is None else f", at most {high}"
    return words
