"""What a pipeline uses, and the modules and libraries that it therefore needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, FrozenSet, Iterator, List, Mapping, Sequence, Set, Tuple

from edgedla.builder.artifact.artifact import Artifact
from edgedla.runtime.pipeline.open_outputs import draws
from edgedla.runtime.pipeline.settings import PipelineConfig
from edgedla.runtime.sources import parse_source

ROOTS: FrozenSet[str] = frozenset({"edgedla.bundles.program"})


@dataclass(frozen=True)
class Choices:
    """What a pipeline uses.

    Attributes:
        runners: "host", "tensorrt", "cudla". schemes: of the sources; empty if the source is named at the start.
        draws: pictures are written, sent or shown. prometheus: metrics are served. rtsp: a stream is served.
        view: the live page is served. by_pip: libraries that outputs and the tracker need.
    """

    runners: FrozenSet[str]
    schemes: FrozenSet[str]
    draws: bool
    prometheus: bool
    rtsp: bool
    view: bool = False
    by_pip: FrozenSet[str] = frozenset()


def choices_of(config: PipelineConfig, artifacts: Sequence[Artifact]) -> Choices:
    runners = frozenset(runner for artifact in artifacts for runner in _runners(artifact))
    uris = [source.uri for source in config.named_sources.values() if source.uri]
    out, models = config.outputs, config.named_models.values()
    by_pip = {
        "paho-mqtt": out.mqtt.url,
        "pyzmq": out.zmq,
        "lap": any(model.track for model in models),
        "jinja2": config.view.port,
    }
    return Choices(
        runners,
        frozenset(parse_source(uri).scheme for uri in uris),
        draws(config) or bool(config.view.port),
        bool(config.metrics.prometheus_port),
        bool(config.outputs.rtsp.url),
        bool(config.view.port),
        frozenset(name for name, asked in by_pip.items() if asked),
    )


def _runners(artifact: Artifact) -> Iterator[str]:
    if artifact.kind == "chain":
        for stage in artifact.stages:
            yield from _runners(stage.artifact)
    else:
        yield "host" if artifact.backend == "host" else "cudla" if artifact.kind == "standalone" else "tensorrt"


#: Module that is imported when first needed -> whether these choices need it. Modules without a row are always needed.
LATE: Mapping[str, Callable[[Choices], bool]] = {
    "edgedla.runtime.runners.host": lambda c: "host" in c.runners,
    "edgedla.runtime.runners.cudla": lambda c: "cudla" in c.runners,
    "edgedla.runtime.runners.tensorrt_engine": lambda c: "tensorrt" in c.runners,
    "edgedla.runtime.sources.synthetic": lambda c: not c.schemes or "synthetic" in c.schemes,
    "edgedla.runtime.sources.opencv": lambda c: not c.schemes or c.schemes != {"synthetic"},
    "edgedla.runtime.sources.gst_launch": lambda c: not c.schemes or bool(c.schemes - {"synthetic", "images", "file"}),
    "edgedla.runtime.health.endpoint": lambda c: c.prometheus or c.view,
    "edgedla.runtime.live": lambda c: c.view,
    # Settings and devices are resolved when the bundle is made; the board's own table of modules is not read.
    "edgedla.io.strict_yaml": lambda c: False,
    # It asks the rules, which no bundle carries.
    "edgedla.runtime.loadables_in_use": lambda c: False,
    "edgedla.placement": lambda c: False,
    # Which encoder the board has, for RTSP and for clips.
    "edgedla.targets": lambda c: c.rtsp or c.draws,
    # The memory of a session was estimated when the artifact was built.
    "edgedla.quantization.memory_limit": lambda c: False,
    "edgedla.quantization.session_memory": lambda c: False,
    "edgedla.quantization.endless_loops": lambda c: False,
    "edgedla.importers.model_file.wire": lambda c: False,
    "edgedla.importers.onnx_model": lambda c: False,
    "edgedla.importers.parser_releases": lambda c: False,
    "edgedla.builder.tensorrt": lambda c: "tensorrt" in c.runners,
}


def needed(choices: Choices) -> Callable[[str], bool]:
    """A function that tells whether a late import is needed; the longest matching row of LATE decides."""

    def decide(module: str) -> bool:
        rows: List[Tuple[int, bool]] = [
            (len(name), rule(choices)) for name, rule in LATE.items() if module == name or module.startswith(f"{name}.")
        ]
        return max(rows)[1] if rows else True

    return decide


def libraries(choices: Choices) -> Tuple[str, ...]:
    """What the board must provide besides Python, in words."""
    names: Set[str] = {"numpy"}
    if "tensorrt" in choices.runners:
        names |= {"tensorrt (JetPack)", "the CUDA driver (JetPack)"}
    if "cudla" in choices.runners:
        names |= {"cuDLA (JetPack)", "the CUDA driver (JetPack)"}
    if "host" in choices.runners:
        names.add("onnxruntime")
    if choices.draws or choices.schemes & {"images", "file"}:
        names.add("OpenCV (JetPack)")
    elif choices.schemes - {"synthetic", "python"}:
        names.add("GStreamer (JetPack)")
    elif not choices.schemes:
        names.add("OpenCV for files or GStreamer for cameras (JetPack)")
    if choices.prometheus:
        names.add("prometheus_client")
    if choices.rtsp:
        names.add("GStreamer's RTSP server (libgstrtspserver-1.0-0)")
    return tuple(sorted(names | choices.by_pip))
