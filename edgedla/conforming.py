"""Whether a document that somebody else made conforms to its published schema: the words of JSON Schema that schemas/ uses."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from edgedla.documents import DOCUMENTS, schema
from edgedla.errors import DocumentError

_TYPES: Mapping[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float),
}  # fmt: skip


def conform(value: Any, name: str, where: str) -> None:
    """Lets a document pass that has the fields and types of the schema of this name.

    Raises:
        DocumentError: it has others; the message names the first.
    """
    rules = schema(name)
    for fault in _faults(value, rules, rules, "$"):
        raise DocumentError(fault, where=where, allowed=f"the fields of edgedla/schemas/{DOCUMENTS[name].schema_file}")


def _faults(value: Any, rule: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    if "$ref" in rule:
        yield from _faults(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root, at)
    types = rule.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(_is(value, t) for t in types):
        yield f"{at} is {_shown(value)}, not {' or '.join(types)}"
        return
    if "const" in rule and value != rule["const"]:
        yield f"{at} is {_shown(value)}, not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{at} is {_shown(value)}, not one of {', '.join(map(str, rule['enum']))}"
    if isinstance(value, dict):
        yield from _faults_of_fields(value, rule, root, at)
    elif isinstance(value, list):
        for i, item in enumerate(value if "items" in rule else ()):
            yield from _faults(item, rule["items"], root, f"{at}[{i}]")


def _faults_of_fields(
    value: Mapping[str, Any], rule: Mapping[str, Any], root: Mapping[str, Any], at: str
) -> Iterator[str]:
    required: Sequence[str] = rule.get("required", ())
    yield from (f"{at} has no {key!r}" for key in required if key not in value)
    known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for key, item in value.items():
        inside = f"{at}.{key[:40]}"
        if key in known:
            yield from _faults(item, known[key], root, inside)
        elif others is False:
            yield f"{at} has a field {key[:40]!r} that it may not have"
        elif isinstance(others, dict):
            yield from _faults(item, others, root, inside)


def _is(value: Any, kind: str) -> bool:
    # Python's True is a number, JSON's is none.
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _shown(value: Any) -> str:
    return (
        repr(value)[:60] if isinstance(value, (str, int, float, bool)) or value is None else f"a {type(value).__name__}"
    )
