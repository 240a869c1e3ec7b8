"""pipeline.yaml as values, read strictly: unknown keys are refused with a suggestion, values must have their field's type."""

from __future__ import annotations

import dataclasses
import os
import re
import reprlib
from typing import Any, Dict, Mapping, Tuple, Type, TypeVar, Union

from edgedla.errors import DocumentError, UsageError
from edgedla.io.files import open_plain
from edgedla.io.strict_documents import read_yaml
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.films.clip_config import ClipConfig
from edgedla.runtime.outputs.mqtt_config import MqttConfig
from edgedla.runtime.outputs.rtsp import RtspConfig
from edgedla.runtime.pipeline.cascade import CropRule
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.settings import (
    MetricsConfig,
    ModelConfig,
    OutputConfig,
    PipelineConfig,
    PreprocessConfig,
    SourceConfig,
    ViewConfig,
)
from edgedla.runtime.sources.reader import CaptureOptions
from edgedla.runtime.sources.uri import OPTIONS
from edgedla.text.addresses import without_secrets
from edgedla.vocabulary import did_you_mean

T = TypeVar("T")
#: Keys at the top of a file, by its version. 1: one source and one model. 2: named sources and models.
_BOTH = ("placement", "capture", "outputs", "metrics", "stop_after", "view", "events")
KEYS: Mapping[int, Tuple[str, ...]] = {
    1: ("artifact", "source", "devices", "preprocess", "decode", *_BOTH),
    2: ("sources", "models", *_BOTH),
}
#: Names go into file names, MQTT topics and addresses.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Above every number that a setting can sensibly have; keeps infinities and integers beyond a float out.
MOST_NUMBER = 1e12
#: A pipeline file is a page of text; YAML takes minutes for megabytes.
MOST_BYTES = 1 << 18


def read_document(path: str) -> Tuple[int, Dict[str, Any]]:
    """(version, the rest of the mapping) of a pipeline file.

    Raises:
        DocumentError: unreadable, no YAML, no mapping, another version, or a key that this version has not.
    """
    document = read_yaml(path, most_bytes=MOST_BYTES)
    if not isinstance(document, dict):
        raise DocumentError("a pipeline file is a mapping", where=path, allowed=", ".join(("version", *KEYS[2])))
    version = document.pop("version", None)
    if type(version) is not int or version not in KEYS:
        what = "version is missing" if version is None else f"version is {_short(version)}"
        raise DocumentError(what, where=path, allowed="version: 1, version: 2")
    other = KEYS[3 - version]
    for key in document:
        if key in KEYS[version]:
            continue
        _refuse_key(str(key), str(key), KEYS[version], path, f"it is a key of version {3 - version}" if key in other else "")
    return version, document


def _refuse_key(name: str, key: str, allowed: Tuple[str, ...], path: str, hint: str = "") -> None:
    raise DocumentError(f"unknown key {name!r}", where=path, allowed=", ".join(allowed), hint=hint or did_you_mean(key, allowed))


def config_of(document: Mapping[str, Any], path: str) -> PipelineConfig:
    """The values of a document that `read_document` gave."""
    document = dict(document)
    if isinstance(document.get("source"), str):
        document["source"] = {"uri": document["source"]}
    sources = _named(SourceConfig, document.pop("sources", {}), path, "sources")
    models = _named(ModelConfig, document.pop("models", {}), path, "models")
    events = _named(EventRule, document.pop("events", {}), path, "events")
    config = _build(PipelineConfig, document, path, "")
    return dataclasses.replace(config, sources=sources, models=models, events=events)


def _named(cls: Type[T], given: object, path: str, at: str) -> Dict[str, T]:
    if not isinstance(given, dict):
        raise DocumentError(f"{at} is {_short(given)}", where=path, allowed="a mapping of names")
    values = {}
    for name, value in given.items():
        if not NAME.fullmatch(str(name)):
            raise DocumentError(f"the name {_short(name)} in {at}", where=path, allowed="1 to 64 letters, digits, - and _")
        if cls is SourceConfig and isinstance(value, str):
            value = {"uri": value}
        values[str(name)] = _build(cls, value, path, f"{at}.{name}")
    return values


def _names(cls: type) -> Tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls) if not f.metadata.get("internal"))


#: Fields that are mappings of their own, by their name.
_NESTED: Mapping[str, type] = {
    "source": SourceConfig,
    "preprocess": PreprocessConfig,
    "decode": DecodeOptions,
    "capture": CaptureOptions,
    "outputs": OutputConfig,
    "metrics": MetricsConfig,
    "stop_after": Limits,
    "crops": CropRule,
    "view": ViewConfig,
    "mqtt": MqttConfig,
    "clips": ClipConfig,
    "rtsp": RtspConfig,
}


def _build(cls: Type[T], given: object, path: str, at: str) -> T:
    if not isinstance(given, dict):
        allowed = f"a mapping with any of {', '.join(_names(cls))}"
        raise DocumentError(f"{at or 'the file'} is {_short(given)}", where=path, allowed=allowed)
    values: Dict[str, Any] = {}
    options: Dict[str, Any] = {}
    for key, value in given.items():
        name = f"{at}.{key}" if at else str(key)
        names = _names(cls)
        if cls is SourceConfig and key in OPTIONS:
            options[str(key)] = value
            continue
        if cls is SourceConfig and key not in names:
            # Options stand beside the uri, whatever they are for.
            names = (*(n for n in names if n != "options"), *OPTIONS)
        if key not in names:
            _refuse_key(name, str(key), names, path)
        if cls in (PipelineConfig, ModelConfig, OutputConfig) and key in _NESTED:
            if key == "decode" and isinstance(value, str):
                value = {"kind": value}
            values[key] = _build(_NESTED[str(key)], value, path, name)
        else:
            default = getattr(cls(), str(key))
            values[str(key)] = _typed(value, default, path, name)
    if options:
        values["options"] = options
    if cls in (PreprocessConfig, DecodeOptions):
        values["given"] = frozenset(values)
    return cls(**values)


def _short(value: object) -> str:
    """A wrong value for a message: a few aliases in YAML make one of gigabytes, and it may be a camera's address."""
    return without_secrets(reprlib.repr(value))


def _typed(value: object, default: object, path: str, name: str) -> Any:
    """`value` in the type of the field's default; None as a default means an optional boolean."""
    if isinstance(default, bool) or default is None:
        if isinstance(value, bool) or (value is None and default is None):
            return value
        raise DocumentError(f"{name} is {_short(value)}", where=path, allowed="true, false")
    if isinstance(default, (int, float)):
        number: Union[int, float, None] = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        if number is None or not 0 <= number <= MOST_NUMBER or (isinstance(default, int) and number != int(number)):
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise DocumentError(f"{name} is {_short(value)}", where=path, allowed=f"{kind}, 0 or more")
        return type(default)(number)
    if name.endswith((".zone", ".line")) and isinstance(default, tuple):
        return _corners(value, path, name)
    if isinstance(default, tuple):
        if isinstance(value, str) and name.endswith("decode.labels") and _is_file_name(value):
            return read_labels(os.path.join(os.path.dirname(os.path.abspath(path)), value))
        if isinstance(value, str) and name.endswith(("devices", "labels", "outputs", ".sources", ".classes", ".models")):
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list):
            raise DocumentError(f"{name} is {_short(value)}", where=path, allowed="a list")
        if default and isinstance(default[0], float):
            if len(value) != len(default) or not all(
                isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) <= MOST_NUMBER for v in value
            ):
                raise DocumentError(f"{name} is {_short(value)}", where=path, allowed=f"{len(default)} numbers")
            return tuple(float(v) for v in value)
        wrong = [v for v in value if isinstance(v, (dict, list))]
        if wrong:
            raise DocumentError(f"{name} holds {_short(wrong[0])}", where=path, allowed="a list of texts")
        return tuple(str(v) for v in value)
    if not isinstance(value, str):
        raise DocumentError(f"{name} is {_short(value)}", where=path, allowed="text", hint="put it in quotes")
    return value


def _corners(value: object, path: str, name: str) -> Tuple[Tuple[float, float], ...]:
    """Corners as [x, y], each 0 to 1: of a zone three or more, of a line two; none for the whole frame."""
    line = name.endswith(".line")
    number = "two" if line else "three or more"
    allowed = f"{number} corners [x, y], as shares of the frame's width and height: 0 to 1"
    if not isinstance(value, list) or (value and (len(value) != 2 if line else len(value) < 3)):
        raise DocumentError(f"{name} is {_short(value)}", where=path, allowed=allowed)
    for corner in value:
        numbers = isinstance(corner, list) and len(corner) == 2 and all(type(v) in (int, float) for v in corner)
        if not numbers or not all(0 <= v <= 1 for v in corner):
            raise DocumentError(f"{name} has the corner {_short(corner)}", where=path, allowed=allowed)
    return tuple((float(x), float(y)) for x, y in value)


def _is_file_name(text: str) -> bool:
    return os.sep in text or text.lower().endswith((".txt", ".names", ".labels"))


def read_labels(text: str) -> Tuple[str, ...]:
    """Class names: of a file with one per line, or separated by commas.

    Raises:
        UsageError: the text looks like a file's name, and there is none, or it cannot be read as text.
    """
    if not text:
        return ()
    if os.path.isfile(text) or _is_file_name(text):
        try:
            with open_plain(text) as f:
                return tuple(line.strip() for line in f.read(MOST_BYTES).decode().splitlines() if line.strip())
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(
                f"the labels cannot be read: {getattr(e, 'strerror', None) or e}",
                where=text,
                allowed="a text file with one class per line, or A,B,C",
            ) from e
    return tuple(part.strip() for part in text.split(","))
