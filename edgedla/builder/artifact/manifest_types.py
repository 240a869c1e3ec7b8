"""Checks the types in an artifact's manifest. Its digest is not a signature, so no field is used unchecked."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Tuple

Check = Callable[[Any], bool]


def _text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(v) for v in value)


def _map_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(check(v) for v in value.values())


def _record(fields: Mapping[str, Check]) -> Check:
    """An object with at least these fields."""
    return lambda value: isinstance(value, dict) and all(k in value and check(value[k]) for k, check in fields.items())


def _name(value: object) -> bool:
    # The longest name of a file that Linux takes.
    return isinstance(value, str) and _text(value) and len(value.encode("utf-8", "replace")) <= 255


_ERROR = {
    "name": _text,
    "rel_l2": _or_null(_number),
    "max_abs": _or_null(_number),
    "cosine": _or_null(_number),
    "same": _or_null(_number),
}
_ACCURACY = {
    "reference": _text,
    "samples": _text,
    "tolerance_rel_l2": _number,
    "worst_rel_l2": _or_null(_number),
    "within": _or_null(_flag),
    "outputs": _list_of(_record(_ERROR)),
    "nodes": _record({"dla_int8": _whole, "dla_fp16": _whole, "gpu_fp32": _whole}),
}
_CHANGED_OUTPUT = {
    "name": _text,
    "shape": _list_of(lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "sources": _list_of(_text),
    "decoder": _flag,
}
_FIELDS: Mapping[Tuple[str, ...], Check] = {
    ("tool",): _text,
    ("kind",): _text,
    ("backend",): _text,
    ("simulated",): _flag,
    ("precision",): _text,
    ("model",): _object,
    ("platform",): _record({"target": _text, "chip": _text, "trt": _text}),
    ("software",): _map_of(_or_null(_text)),
    ("placement",): _object,
    ("placement", "predicted"): _map_of(_text),
    ("placement", "real"): _or_null(_map_of(_text)),
    ("accuracy",): _or_null(_record(_ACCURACY)),
    ("notes",): _list_of(_text),
    ("bindings",): _list_of(_object),
    ("files",): _list_of(_object),
}
#: Fields that may be missing or null, and their type otherwise.
_OPTIONAL: Mapping[Tuple[str, str], Check] = {
    ("model", "name"): _text,
    ("model", "sha256"): _text,
    ("model", "external"): _map_of(_text),
    ("model", "labels"): _list_of(_text),
    ("model", "outputs"): _list_of(_record(_CHANGED_OUTPUT)),
    ("platform", "jetpack"): _text,
}
_BINDING: Mapping[str, Check] = {
    "name": _text,
    "is_input": _flag,
    "shape_nchw": _list_of(_whole),
    "dtype": _text,
    "format": _text,
    "size_bytes": _whole,
    "strides_bytes": _map_of(_whole),
    "scale": _or_null(_number),
}
_STAGE: Mapping[str, Check] = {"device": _text, "folder": _name, "digest": _text}
_FILE: Mapping[str, Check] = {"role": _text, "path": _name, "sha256": _text, "size_bytes": _whole}


def wrong_types(document: Mapping[str, Any]) -> List[str]:
    """The fields that are missing or of a wrong type, as `bindings[0].scale`; [] where all are right."""
    wrong = []
    for path, check in _FIELDS.items():
        value: object = document
        for key in path:
            value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
        # A wrong parent has been named already.
        if (value is _MISSING or not check(value)) and ".".join(path[:-1]) not in wrong:
            wrong.append(".".join(path))
    if not _or_null(_object)(document.get("board")):
        wrong.append("board")
    if "identity" in document and not _map_of(_text)(document["identity"]):
        wrong.append("identity")
    if not _or_null(_object)(document.get("preprocess")):
        wrong.append("preprocess")
    for (parent, key), check in _OPTIONAL.items():
        if parent not in wrong and not _or_null(check)(document[parent].get(key)):
            wrong.append(f"{parent}.{key}")
    if (document.get("kind") == "chain") != ("stages" in document) or not _list_of(_object)(document.get("stages", [])):
        wrong.append("stages")
    for field, checks in (("bindings", _BINDING), ("files", _FILE), ("stages", _STAGE)):
        if field not in wrong and field in document:
            for i, entry in enumerate(document[field]):
                wrong += [f"{field}[{i}].{name}" for name in _wrong(entry, checks)]
    return wrong


_MISSING = object()


def _wrong(entry: Dict[str, Any], checks: Mapping[str, Check]) -> List[str]:
    missing = [name for name, check in checks.items() if name not in entry or not check(entry[name])]
    return missing + [str(name) for name in sorted(entry.keys() - checks.keys())]
