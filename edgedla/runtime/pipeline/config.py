"""Reads pipeline.yaml into a checked PipelineConfig, and applies the command line's options to it."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from edgedla.errors import DocumentError, UsageError
from edgedla.runtime.decode import WITHOUT_BOXES
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.outputs.mqtt_config import check_mqtt
from edgedla.runtime.outputs.rtsp import check_rtsp
from edgedla.runtime.pipeline.check_events import check_events
from edgedla.runtime.pipeline.reading import MOST_NUMBER, NAME, config_of, read_document
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig, PreprocessConfig, SourceConfig
from edgedla.runtime.sources.uri import in_folder, parse_source

PATHS = {"outputs": "jsonl images video record events_state", "metrics": "jsonl", "view": "token_file"}
TRACKERS = ("", "bytetrack")
_ADDRESS = re.compile(r"[A-Za-z0-9_.:%-]{1,253}")
#: Minimum of stall_s: with less, every read would count as hanging.
LEAST_STALL_S = 0.1
#: Maximum of `keep`: each rotation looks for every lower number.
MOST_KEPT = 10_000


def load_config(path: str) -> PipelineConfig:
    """A pipeline file of version 1 (one source, one model) or 2 (named sources and models).

    Raises:
        DocumentError: unreadable, no YAML, unknown key, wrong type, missing key, or names that do not fit together, with file
            and key.
    """
    version, document = read_document(path)
    return config_from(version, document, path)


def config_from(version: int, document: Mapping[str, Any], path: str) -> PipelineConfig:
    """The config of a parsed document. `path` is for messages, and paths in the document are relative to its folder.

    Raises:
        DocumentError: as load_config.
    """
    config = config_of(document, path)
    for key in ("artifact", "source") if version == 1 else ("sources", "models"):
        if not document.get(key):
            raise DocumentError(f"{key} is missing", where=path)
    if config.devices and config.placement:
        raise DocumentError("devices and placement both say where the model runs", where=path, allowed="one of them")
    try:
        check_names(config)
    except UsageError as e:
        raise DocumentError(e.what, where=path, allowed=e.allowed, hint=e.hint) from e
    return _absolute(config, os.path.dirname(os.path.abspath(path)))


def load_preprocess(path: str) -> PreprocessConfig:
    """The preprocessing of a pipeline file, which need not name an artifact or source.

    Raises:
        DocumentError: as load_config; a file of several models.
    """
    version, document = read_document(path)
    if version != 1:
        raise DocumentError("the file holds the preprocessing of several models", where=path, allowed="version: 1")
    return config_of(document, path).preprocess


def check_names(config: PipelineConfig) -> None:
    """Raises UsageError where sources and models do not fit together."""
    for name, source in config.sources.items():
        if not source.uri:
            raise UsageError(f"sources.{name}.uri is missing")
        if not source.weight > 0:
            raise UsageError(f"sources.{name}.weight is {source.weight:g}", allowed="a number above 0")
    if config.outputs.mqtt.url:
        check_mqtt(config.outputs.mqtt)
    if config.outputs.rtsp.url:
        check_rtsp(config.outputs.rtsp, tuple(config.named_sources))
    if config.outputs.record:
        _check_record(config)
    check_events(config)
    _check_numbers(config)
    if not 0 < config.view.rate <= 60 or config.view.width < 16 or config.view.port > 65535:
        view = f"rate {config.view.rate:g}, width {config.view.width}, port {config.view.port}"
        raise UsageError(f"view: {view}", allowed="rate above 0 up to 60, width from 16, port up to 65535")
    if config.view.video not in ("mjpeg", "hls"):
        raise UsageError(f"view.video is {config.view.video!r}", allowed="mjpeg, hls")
    if config.models and not config.sources:
        raise UsageError("the models have no sources", allowed="sources: {NAME: URI}")
    for name, model in config.models.items():
        _check_model(name, model, config)
    stuck = set(config.models) - set(config.named_models)
    if stuck:
        raise UsageError(f"crops of {', '.join(sorted(stuck))} form a cycle")
    for name in config.sources:
        if config.models and not any(sees(m, name) for m in config.models.values() if not m.crops.of):
            raise UsageError(f"no model takes frames of sources.{name}", hint="name it in a model's sources, or leave it out")


def _check_record(config: PipelineConfig) -> None:
    if config.outputs.record_s < 1:
        raise UsageError(f"outputs.record_s is {config.outputs.record_s:g}", allowed="1 or more")
    streams = {n: parse_source(s.uri, s.options) for n, s in config.named_sources.items() if s.uri.startswith("rtsp")}
    for name, stream in streams.items():
        if stream.codec not in ("h264", "h265"):
            at = f"sources.{name}" if name else "source"
            raise UsageError(f"outputs.record: {at}.codec is {stream.codec}", allowed="h264, h265")
    if not streams:
        raise UsageError("outputs.record: no source is rtsp://", hint="outputs.video records annotated frames of any source")


def _check_numbers(config: PipelineConfig) -> None:
    if config.capture.stall_s < LEAST_STALL_S:
        hint = "a large number allows a source to give no frames for that long"
        raise UsageError(f"capture.stall_s is {config.capture.stall_s:g}", allowed=f"{LEAST_STALL_S:g} or more", hint=hint)
    for at, part in (("outputs", config.outputs), ("metrics", config.metrics)):
        if part.keep > MOST_KEPT:
            raise UsageError(f"{at}.keep is {part.keep}", allowed=f"up to {MOST_KEPT}")
    if config.metrics.health not in ("all", "any"):
        raise UsageError(f"metrics.health is {config.metrics.health!r}", allowed="all, any")
    if config.metrics.prometheus_port > 65535:
        raise UsageError(f"metrics.prometheus_port is {config.metrics.prometheus_port}", allowed="up to 65535")
    for at, address in (("metrics", config.metrics.address), ("view", config.view.address)):
        # The system takes an empty address for all addresses of this machine.
        if not _ADDRESS.fullmatch(address):
            raise UsageError(f"{at}.address is {address!r}", allowed="127.0.0.1, 0.0.0.0 or another address of this machine")


def sees(model: ModelConfig, source: str) -> bool:
    return not model.sources or source in model.sources


def sources_of_lane(config: PipelineConfig, model: str) -> List[str]:
    """Names of the sources whose frames, or whose crops, a model gets."""
    settings = config.named_models[model]
    return [n for n in config.named_sources if sees(settings, n) and _sees_crops(config, settings.crops.of, n)]


def _sees_crops(config: PipelineConfig, of: str, source: str) -> bool:
    """Whether the models that give the crops get frames of the source."""
    while of:
        parent = config.models[of]
        if not sees(parent, source):
            return False
        of = parent.crops.of
    return True


def _check_model(name: str, model: ModelConfig, config: PipelineConfig) -> None:
    at = f"models.{name}"
    if not model.artifact:
        raise UsageError(f"{at}.artifact is missing")
    for source in model.sources:
        if source not in config.sources:
            raise UsageError(f"{at}.sources names {source!r}", allowed=", ".join(config.sources))
    if model.track not in TRACKERS:
        raise UsageError(f"{at}.track is {model.track!r}", allowed="bytetrack")
    if model.track and model.decode.kind in WITHOUT_BOXES:
        raise UsageError(f"{at}.track: there are no boxes, its decode.kind is {model.decode.kind}", allowed="a detector")
    if model.every < 1:
        raise UsageError(f"{at}.every is {model.every}", allowed="1 or more")
    if model.devices and config.placement:
        raise UsageError(f"{at}.devices and placement both say where the model runs", allowed="one of them")
    rule = model.crops
    if rule == type(rule)():
        return
    if rule.of not in config.models or rule.of == name:
        others = ", ".join(n for n in config.models if n != name)
        raise UsageError(f"{at}.crops.of is {rule.of!r}", allowed=others or "another model's name")
    if config.models[rule.of].decode.kind in WITHOUT_BOXES:
        kind = config.models[rule.of].decode.kind
        raise UsageError(f"{at}.crops: {rule.of} finds no boxes, its decode.kind is {kind}", allowed="a detector")
    if model.every != 1:
        raise UsageError(f"{at}.every: the model gets the crops of each frame of {rule.of}", hint=f"models.{rule.of}.every")
    if rule.most < 1:
        raise UsageError(f"{at}.crops.most is {rule.most}", allowed="1 or more")


def _absolute(config: PipelineConfig, folder: str) -> PipelineConfig:
    """The config with absolute paths, so that a service can start anywhere."""

    def full(text: str) -> str:
        return os.path.join(folder, text) if text and not os.path.isabs(text) else text

    def device(text: str) -> str:
        name, equals, artifact = text.partition("=")
        return f"{name}={full(artifact.strip())}" if equals else text

    def source(given: SourceConfig) -> SourceConfig:
        tls = given.options.get("tls")
        if isinstance(tls, dict) and isinstance(tls.get("ca_file"), str):
            given = dataclasses.replace(given, options={**given.options, "tls": {**tls, "ca_file": full(tls["ca_file"])}})
        return dataclasses.replace(given, uri=in_folder(given.uri, folder))

    def paths(value: Any, names: str) -> Any:
        return dataclasses.replace(value, **{n: full(getattr(value, n)) for n in names.split()})

    def decoder(given: DecodeOptions) -> DecodeOptions:
        given = paths(given, "priors")
        of_file = given.kind.rpartition(":")[0].endswith(".py")
        return dataclasses.replace(given, kind=full(given.kind)) if of_file else given

    def model(given: ModelConfig) -> ModelConfig:
        devices = tuple(device(d) for d in given.devices)
        return dataclasses.replace(given, artifact=full(given.artifact), devices=devices, decode=decoder(given.decode))

    changes: Dict[str, Any] = {
        "artifact": full(config.artifact),
        "placement": full(config.placement),
        "devices": tuple(device(d) for d in config.devices),
        "source": source(config.source),
        "sources": {name: source(s) for name, s in config.sources.items()},
        "models": {name: model(m) for name, m in config.models.items()},
        "decode": decoder(config.decode),
    }
    if ".py:" in config.outputs.call:
        config = dataclasses.replace(config, outputs=paths(config.outputs, "call"))
    mqtt, clips = paths(config.outputs.mqtt, "password_file ca_file"), paths(config.outputs.clips, "folder")
    config = dataclasses.replace(config, outputs=dataclasses.replace(config.outputs, mqtt=mqtt, clips=clips))
    for part, names in PATHS.items():
        changes[part] = paths(getattr(config, part), names)
    return dataclasses.replace(config, **changes)


def with_overrides(
    config: Optional[PipelineConfig], *, artifact: str = "", source: str = "", sources: Sequence[str] = (), **parts: Any
) -> PipelineConfig:
    """The config with the command line's options over it; None and "" leave a setting unchanged.

    Args:
        sources: URI, or NAME=URI, in place of `source`. Without names they are cam0, cam1 and so on; a name that the file has
            replaces only that source.

    Raises:
        UsageError: neither the file nor the command line names an artifact and a source; a setting of one model for a file
            of several.
    """
    base = config or PipelineConfig()
    if artifact:
        base = dataclasses.replace(base, artifact=artifact)
    given = name_sources([source] if source else sources)
    if base.models and set(given) <= set(base.sources):
        base = dataclasses.replace(base, sources={**base.sources, **given})
    elif base.models or len(given) > 1:
        base = dataclasses.replace(base, sources=given or base.sources)
    elif given:
        base = dataclasses.replace(base, source=next(iter(given.values())), sources={})
    for name, changes in parts.items():
        base = _override(base, name, changes)
    check_names(base)
    if not (base.artifact or base.models) or not (base.source.uri or base.sources):
        raise UsageError(
            "a run needs an artifact and a source", hint="edgedla run ARTIFACT --source URI, or edgedla run pipeline.yaml"
        )
    return base


def name_sources(texts: Sequence[str]) -> Dict[str, SourceConfig]:
    """Sources by name, from "URI" or "NAME=URI"; without a name cam0, cam1 and so on.

    Raises:
        UsageError: a name appears twice.
    """
    named: Dict[str, SourceConfig] = {}
    for i, text in enumerate(texts):
        name, equals, uri = text.partition("=")
        # A = may also belong to an option of an address, as in synthetic://?rate=5, or to a file name.
        if not (equals and NAME.fullmatch(name)) or os.path.exists(text):
            name, uri = f"cam{i}", text
        if name in named:
            raise UsageError(f"the source {name} is given twice", where="--source")
        named[name] = SourceConfig(uri)
    return named


def _override(base: PipelineConfig, name: str, changes: Mapping[str, Any]) -> PipelineConfig:
    for key, v in changes.items():
        if isinstance(v, float) and not 0 <= v <= MOST_NUMBER:
            raise UsageError(f"{name}.{key} is {v}", allowed="a number, 0 or more")
    # 0 is a value: `--score 0` keeps every detection.
    given = {k: v for k, v in changes.items() if v is not None and v != "" and v != ()}
    if not given:
        return base
    if base.models and name in ("preprocess", "decode"):
        raise UsageError(
            f"{name}.{sorted(given)[0]} is a setting of one model, the file has {', '.join(base.models)}",
            hint=f"models.NAME.{name} in the file",
        )
    if name in ("preprocess", "decode"):
        given["given"] = getattr(base, name).given | set(given)
    return dataclasses.replace(base, **{name: dataclasses.replace(getattr(base, name), **given)})
