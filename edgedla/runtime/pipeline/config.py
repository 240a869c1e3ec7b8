"""pipeline.yaml: read strictly, unknown keys refused with a suggestion."""

from __future__ import annotations

import dataclasses
import difflib
import os
import reprlib
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple, Type, TypeVar, Union

import yaml

from edgedla.errors import DocumentError, UsageError
from edgedla.preprocess.settings import NAMES
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.pipeline.capture import CaptureOptions
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.sources.uri import without_secrets

T = TypeVar("T")
VERSION = 1


@dataclass(frozen=True)
class SourceConfig:
    """`uri` and, beside it, the options of sources.uri."""

    uri: str = field(default="", repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PreprocessConfig:
    """See runtime.preprocess.Preprocess. `device`: cuda, cpu, or auto (cuda where the runner is one on CUDA and it works)."""

    device: str = "auto"
    fit: str = "letterbox"
    colour: str = "rgb"
    pad: int = 114
    mean: Tuple[float, ...] = (0.0, 0.0, 0.0)
    std: Tuple[float, ...] = (255.0, 255.0, 255.0)
    #: Names of the fields that a file or option gave, also where they are the defaults.
    given: FrozenSet[str] = field(default=frozenset(), compare=False, repr=False, metadata={"internal": True})

    @property
    def asked(self) -> Dict[str, Any]:
        """What the user says of the network's input, by field of PreprocessSettings."""
        default = PreprocessConfig()
        return {n: getattr(self, n) for n in NAMES if n in self.given or getattr(self, n) != getattr(default, n)}


@dataclass(frozen=True)
class OutputConfig:
    """Files that results go to; empty means none. `every`, `limit` and `images_keep` are for images (see sinks.AnnotatedImages).

    `jsonl` grows as long as the pipeline runs, unless `rotate_mb` starts a new file at so many MB; `keep` full ones stay.
    """

    jsonl: str = ""
    images: str = ""
    video: str = ""
    every: int = 1
    limit: int = 0
    images_keep: int = 0
    rotate_mb: float = 0.0
    keep: int = 5


@dataclass(frozen=True)
class MetricsConfig:
    """`jsonl` gets the summary every `interval_s`; `prometheus_port` serves it on `address` (0: not served).

    At `rotate_mb` a new file is started, and `keep` full ones stay (rotate_mb 0: it grows without end). /healthz on the same
    port answers 200 while the last result is at most `fresh_s` old, else 503.
    """

    jsonl: str = ""
    interval_s: float = 10.0
    prometheus_port: int = 0
    address: str = "127.0.0.1"
    fresh_s: float = 10.0
    rotate_mb: float = 50.0
    keep: int = 3


@dataclass(frozen=True)
class PipelineConfig:
    """One pipeline. Paths are relative to the file's folder.

    Attributes:
        devices: GPU, DLA0, DLA1 share the frames; DEVICE=ARTIFACT for a device with an artifact of its own. A chain brings
            its own devices; beside another runner its name stands for it (DLA0+DLA1).
        placement: in place of `devices`: a placement document, whose core for this model is taken, or which a chain must fit.
    """

    artifact: str = ""
    source: SourceConfig = field(default_factory=SourceConfig)
    devices: Tuple[str, ...] = ()
    placement: str = ""
    preprocess: PreprocessConfig = field(default_factory=PreprocessConfig)
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    capture: CaptureOptions = field(default_factory=CaptureOptions)
    outputs: OutputConfig = field(default_factory=OutputConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    stop_after: Limits = field(default_factory=Limits)


#: Above every number that a setting can sensibly have; keeps infinities and integers beyond a float out.
MOST_NUMBER = 1e12
#: A pipeline file is a page of text; YAML takes minutes for megabytes.
MOST_BYTES = 1 << 18
PATHS = {"decode": "priors", "outputs": "jsonl images video", "metrics": "jsonl"}


class _Strict(yaml.SafeLoader):
    """Refuses a key that stands twice; YAML itself keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} stands twice", key.start_mark)
            seen.add(name)
        result: Dict[Any, Any] = super().construct_mapping(node, deep)
        return result


def load_config(path: str) -> PipelineConfig:
    """A pipeline file.

    Raises:
        DocumentError: unreadable, no YAML, unknown key, wrong type or missing key, with file and key.
    """
    config, document = _read(path)
    for key in ("artifact", "source"):
        if not document.get(key):
            raise DocumentError(f"{key} is missing", where=path)
    if config.devices and config.placement:
        raise DocumentError("devices and placement both say where it runs", where=path, allowed="one of them")
    return _absolute(config, os.path.dirname(os.path.abspath(path)))


def load_preprocess(path: str) -> PreprocessConfig:
    """The preprocessing of a pipeline file, which need not name an artifact or source.

    Raises:
        DocumentError: as load_config.
    """
    return _read(path)[0].preprocess


def _read(path: str) -> Tuple[PipelineConfig, Mapping[str, Any]]:
    try:
        with open(path, "rb") as f:
            data = f.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise DocumentError("too large for a pipeline file", where=path, allowed=f"{MOST_BYTES} bytes")
        document = yaml.load(data.decode("utf-8"), _Strict)
    except (OSError, UnicodeDecodeError) as e:
        raise DocumentError(f"cannot be read: {getattr(e, 'strerror', None) or e}", where=path) from e
    except (RecursionError, ValueError) as e:
        raise DocumentError(f"no pipeline file: {e}", where=path) from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else path
        raise DocumentError(f"no valid YAML: {getattr(e, 'problem', e)}", where=where) from e
    if not isinstance(document, dict):
        raise DocumentError("a pipeline file is a mapping", where=path, allowed=", ".join(_names(PipelineConfig)))
    version = document.pop("version", None)
    if version != VERSION:
        raise DocumentError(f"version is {version!r}", where=path, allowed=f"version: {VERSION}")
    if isinstance(document.get("source"), str):
        document["source"] = {"uri": document["source"]}
    return _build(PipelineConfig, document, path, ""), document


def _names(cls: type) -> Tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls) if not f.metadata.get("internal"))


_NESTED: Mapping[str, type] = {
    "source": SourceConfig, "preprocess": PreprocessConfig, "decode": DecodeOptions, "capture": CaptureOptions,
    "outputs": OutputConfig, "metrics": MetricsConfig, "stop_after": Limits,
}  # fmt: skip


def _build(cls: Type[T], given: object, path: str, at: str) -> T:
    if not isinstance(given, dict):
        raise DocumentError(f"{at or 'the file'} is {_short(given)}", where=path, allowed="a mapping")
    values: Dict[str, Any] = {}
    options: Dict[str, Any] = {}
    for key, value in given.items():
        name = f"{at}.{key}" if at else str(key)
        if cls is SourceConfig and key not in ("uri", "options"):
            options[str(key)] = value
            continue
        known = _names(cls)
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            raise DocumentError(
                f"unknown key {name!r}",
                where=path,
                allowed=", ".join(known),
                hint=f"did you mean {near[0]}?" if near else None,
            )
        if cls is PipelineConfig and key in _NESTED:
            values[key] = _build(_NESTED[str(key)], value, path, name)
        else:
            default = getattr(cls(), str(key))
            values[str(key)] = _typed(value, default, path, name)
    if options:
        values["options"] = options
    if cls is PreprocessConfig:
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
        number: Union[int, float, None] = (
            value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        )
        if number is None or not 0 <= number <= MOST_NUMBER or (isinstance(default, int) and number != int(number)):
            kind = "a whole number" if isinstance(default, int) else "a number"
            raise DocumentError(f"{name} is {_short(value)}", where=path, allowed=f"{kind}, 0 or more")
        return type(default)(number)
    if isinstance(default, tuple):
        if isinstance(value, str) and name == "decode.labels" and _is_file_name(value):
            return read_labels(os.path.join(os.path.dirname(os.path.abspath(path)), value))
        if isinstance(value, str) and name.endswith(("devices", "labels", "outputs")):
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


def _is_file_name(text: str) -> bool:
    return os.sep in text or text.lower().endswith((".txt", ".names", ".labels"))


def read_labels(text: str) -> Tuple[str, ...]:
    """Class names: of a file with one a line, or separated by commas.

    Raises:
        UsageError: the text looks like a file's name, and there is none, or it cannot be read as text.
    """
    if not text:
        return ()
    if os.path.isfile(text) or _is_file_name(text):
        try:
            with open(text, encoding="utf-8") as f:
                return tuple(line.strip() for line in f.read(MOST_BYTES).splitlines() if line.strip())
        except (OSError, UnicodeDecodeError) as e:
            raise UsageError(
                f"the labels cannot be read: {getattr(e, 'strerror', None) or e}",
                where=text,
                allowed="a text file with one class a line, or A,B,C",
            ) from e
    return tuple(part.strip() for part in text.split(","))


def _absolute(config: PipelineConfig, folder: str) -> PipelineConfig:
    """Paths made independent of the working directory, so that a service can start anywhere."""

    def full(text: str) -> str:
        return os.path.join(folder, text) if text and not os.path.isabs(text) else text

    def device(text: str) -> str:
        name, equals, artifact = text.partition("=")
        return f"{name}={full(artifact.strip())}" if equals else text

    changes: Dict[str, Any] = {
        "artifact": full(config.artifact),
        "placement": full(config.placement),
        "devices": tuple(device(d) for d in config.devices),
    }
    for part, names in PATHS.items():
        value = getattr(config, part)
        changes[part] = dataclasses.replace(value, **{n: full(getattr(value, n)) for n in names.split()})
    uri = config.source.uri
    if "://" not in uri:
        changes["source"] = dataclasses.replace(config.source, uri=full(uri))
    return dataclasses.replace(config, **changes)


def with_overrides(
    config: Optional[PipelineConfig], *, artifact: str = "", source: str = "", **parts: Any
) -> PipelineConfig:
    """A config with what the command line says put over it; None and empty texts leave a setting as it is.

    Raises:
        UsageError: neither the file nor the command line names an artifact and a source.
    """
    base = config or PipelineConfig()
    if artifact:
        base = dataclasses.replace(base, artifact=artifact)
    if source:
        base = dataclasses.replace(base, source=SourceConfig(source))
    for name, changes in parts.items():
        for key, v in changes.items():
            if isinstance(v, float) and not 0 <= v <= MOST_NUMBER:
                raise UsageError(f"{name}.{key} is {v}", allowed="a number, 0 or more")
        # 0 is a value: `--score 0` keeps every detection.
        kept = {k: v for k, v in changes.items() if v is not None and v != "" and v != ()}
        if kept and name == "preprocess":
            kept["given"] = base.preprocess.given | set(kept)
        if kept:
            base = dataclasses.replace(base, **{name: dataclasses.replace(getattr(base, name), **kept)})
    if not base.artifact or not base.source.uri:
        raise UsageError(
            "a run needs an artifact and a source",
            hint="edgedla run ARTIFACT --source URI, or edgedla run pipeline.yaml",
        )
    return base
