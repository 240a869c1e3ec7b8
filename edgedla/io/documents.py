"""Every document that edgedla writes: its name, version and kind; its JSON Schema stands in schemas/.

A document begins with `"document": NAME, "schema_version": VERSION`. Version 0.1 wrote some of them with
`"schema": "NAME/VERSION"`; those are still read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import DocumentError, UsageError

#: The file of an artifact that says what the others are.
MANIFEST = "manifest.json"
_SCHEMAS = Path(__file__).resolve().parents[1] / "schemas"
_OLD_FORM = re.compile(r"(edgedla[.][a-z-]+)/([0-9]{1,6})")


class Document(NamedTuple):
    """One kind of document.

    Attributes:
        name: what stands in its field `document`.
        version: raised when a field changes its meaning or goes away; new fields do not raise it.
        kind: what `edgedla inspect` calls it.
        written_by: the command that writes it.
    """

    name: str
    version: int
    kind: str
    written_by: str

    @property
    def schema_file(self) -> str:
        return self.name.partition(".")[2] + ".schema.json"


#: To add a document: a row here, and its schema in schemas/.
DOCUMENTS: Mapping[str, Document] = {
    row.name: row
    for row in (
        Document("edgedla.acceptance", 1, "acceptance", "edgedla doctor --deep"),
        Document("edgedla.artifact", 1, "artifact", "edgedla build"),
        Document("edgedla.baseline", 1, "baseline", "edgedla check --baseline FILE --update-baseline"),
        Document("edgedla.bench", 1, "bench", "edgedla bench --format json"),
        Document("edgedla.board-jobs", 1, "board-jobs", "edgedla board jobs --format json"),
        Document("edgedla.board-list", 1, "board-list", "edgedla board list --format json"),
        Document("edgedla.board-report", 1, "board-report", "edgedla board report"),
        Document("edgedla.bundle", 1, "bundle", "edgedla bundle"),
        Document("edgedla.check", 2, "check", "edgedla check --format json"),
        Document("edgedla.check-list", 1, "check-list", "edgedla check A B --format json"),
        Document("edgedla.compare", 1, "comparison", "edgedla check --compare --format json"),
        Document("edgedla.deployment", 1, "deployment", "edgedla deploy --format json"),
        Document("edgedla.doctor", 1, "doctor", "edgedla doctor --format json"),
        Document("edgedla.drift", 1, "drift", "edgedla build --backend tensorrt"),
        Document("edgedla.evaluation", 1, "evaluation", "edgedla evaluate --format json"),
        Document("edgedla.explain", 1, "explanation", "edgedla explain --format json"),
        Document("edgedla.fixes", 1, "fixes", "edgedla fix --format json"),
        Document("edgedla.inspect", 1, "inspection", "edgedla inspect --format json"),
        Document("edgedla.inspect-diff", 1, "inspect-diff", "edgedla inspect A B --format json"),
        Document("edgedla.layers", 1, "layers", "edgedla layers --format json"),
        Document("edgedla.pareto", 1, "front", "edgedla place --pareto latency,energy --format json"),
        Document("edgedla.placement", 1, "placement", "edgedla place --format json"),
        Document("edgedla.plan", 1, "plan", "edgedla build --plan --format json"),
        Document("edgedla.plan-list", 1, "plan-list", "edgedla build --plan --format json"),
        Document("edgedla.prediction", 1, "prediction", "edgedla place --evaluate --format json"),
        Document("edgedla.profile", 1, "cost-profile", "edgedla bench --export-profile --onnx"),
        Document("edgedla.quantization", 1, "quantization", "edgedla quantize --format json"),
        Document("edgedla.recipes", 1, "recipes", "edgedla hub list --format json"),
        Document("edgedla.rules", 1, "rules", "edgedla rules list --format json"),
        Document("edgedla.sources", 1, "sources", "edgedla sources --format json"),
        Document("edgedla.table", 1, "table", "edgedla check A B --compare --format json"),
        Document("edgedla.targets", 1, "targets", "edgedla targets --format json"),
        Document("edgedla.verification", 1, "verification", "edgedla place --verify FILE --format json"),
    )
}


def header(name: str) -> Dict[str, Any]:
    """The first fields of a document: its name and its version."""
    return {"document": name, "schema_version": DOCUMENTS[name].version}


def identify(value: Any) -> Optional[Tuple[str, int]]:
    """Name and version of a parsed document; None for anything else, also for a document of an unknown name."""
    if not isinstance(value, Mapping):
        return None
    name, version = value.get("document"), value.get("schema_version")
    if name is None and isinstance(value.get("schema"), str):
        old = _OLD_FORM.fullmatch(value["schema"])
        name, version = (old[1], int(old[2])) if old else (None, None)
    if not isinstance(name, str) or name not in DOCUMENTS or not isinstance(version, int) or isinstance(version, bool):
        return None
    return name, version


def document_in(path: str, name: str = "") -> Optional[Dict[str, Any]]:
    """The JSON object in a file; None where there is none, or where it is not the document of this name."""
    from edgedla.io.strict_documents import read_json

    # A pipe would never end.
    if not os.path.isfile(path):
        return None
    try:
        document = read_json(path)
    except DocumentError:
        return None
    matches = isinstance(document, dict) and (not name or (identify(document) or ("",))[0] == name)
    return dict(document) if matches else None


def is_artifact(folder: str) -> bool:
    """Whether the folder's manifest.json is that of an artifact; other tools write files of that name."""
    return document_in(os.path.join(folder, MANIFEST), "edgedla.artifact") is not None


def artifact_folder(path: Union[str, Path]) -> Path:
    """The artifact that a path means: its folder, the folder of its manifest, or the artifact inside a folder that `deploy` wrote."""
    folder = Path(path)
    if folder.name == MANIFEST:
        return folder.parent
    inside = folder / "artifact"
    whole = (folder / "deployment.json").is_file() and (inside / MANIFEST).is_file()
    return inside if whole and not (folder / MANIFEST).exists() else folder


def described(value: Any) -> Optional[str]:
    """What a parsed document is, for a message; None for what no command of edgedla writes."""
    identity = identify(value)
    if identity is None:
        return None
    row = DOCUMENTS[identity[0]]
    return f"it is edgedla's {row.kind} document, which `{row.written_by}` writes"


def require(value: Any, name: str, where: Optional[str] = None) -> None:
    """Lets a document of this name and version pass.

    Raises:
        DocumentError: it is another document, another version, or none.
    """
    expected = (name, DOCUMENTS[name].version)
    identity = identify(value)
    if identity == expected:
        return
    if identity is None:
        what = f"not edgedla's {DOCUMENTS[name].kind} document"
    elif identity[0] == name:
        what = f"written as {identity[0]}, version {identity[1]}"
    else:
        what = f"not edgedla's {DOCUMENTS[name].kind} document: {described(value)}"
    raise DocumentError(
        what,
        where=where,
        allowed=f'"document": "{expected[0]}", "schema_version": {expected[1]}',
        hint=f"`{DOCUMENTS[name].written_by}` writes one",
    )


@typed
def schema(name: str) -> Dict[str, Any]:
    """The published JSON Schema of a document, for example `schema("edgedla.check")`.

    Raises:
        UsageError: there is no such document.
    """
    if name not in DOCUMENTS:
        raise UsageError(f"no document is called {name!r}", allowed=", ".join(DOCUMENTS))
    import json

    parsed: Dict[str, Any] = json.loads((_SCHEMAS / DOCUMENTS[name].schema_file).read_text(encoding="utf-8"))
    return parsed


#: The words of JSON Schema that schemas/ uses, and their types here.
_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def conform(value: Any, name: str, where: str) -> None:
    """Lets a document that somebody else made pass if it has the fields and types of the schema of this name.

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


def _faults_of_fields(value: Mapping[str, Any], rule: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
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
    return repr(value)[:60] if isinstance(value, (str, int, float, bool)) or value is None else f"a {type(value).__name__}"
