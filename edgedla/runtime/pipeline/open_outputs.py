"""The outputs that a config asks for. To add one, make it here and say which settings it depends on."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, Mapping, Optional, Sequence

from edgedla.runtime.outputs.by_stream import ByStream, stream_path
from edgedla.runtime.outputs.clips import Clips
from edgedla.runtime.outputs.events import Events, EventSink
from edgedla.runtime.outputs.mqtt import Mqtt
from edgedla.runtime.outputs.rtsp import Rtsp
from edgedla.runtime.outputs.segments import Segments
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, JsonLines, Sink
from edgedla.runtime.pipeline.config import sources_of_lane
from edgedla.runtime.pipeline.settings import PipelineConfig

#: Frames a second of a source, by its name; 0 where it is not known.
Rate = Callable[[str], float]


def _jsonl(config: PipelineConfig, rate_of: Rate) -> Optional[Sink]:
    out = config.outputs
    return JsonLines(out.jsonl, out.rotate_mb, out.keep) if out.jsonl else None


def _images(config: PipelineConfig, rate_of: Rate) -> Optional[Sink]:
    out = config.outputs

    def one(source: str, model: str) -> Sink:
        return AnnotatedImages(stream_path(out.images, source, model), out.every, out.limit, out.images_keep)

    return _by_stream(config, one) if out.images else None


def _video(config: PipelineConfig, rate_of: Rate) -> Optional[Sink]:
    out = config.outputs

    def one(source: str, model: str) -> Sink:
        path, rate = stream_path(out.video, source, model), rate_of(source)
        if out.segment_s or out.segment_mb:
            return Segments(path, rate, out.segment_s, out.segment_mb, out.segments_keep)
        return AnnotatedVideo(path, rate)

    return _by_stream(config, one) if out.video else None


def _by_stream(config: PipelineConfig, one: Callable[[str, str], Sink]) -> Sink:
    if not config.sources:
        return one("", "")
    several = len(config.named_models) > 1
    streams = [(s, m if several else "") for m in config.named_models for s in sources_of_lane(config, m)]
    return ByStream(one, several, streams)


def _mqtt(config: PipelineConfig, rate_of: Rate) -> Optional[Sink]:
    return Mqtt(config.outputs.mqtt) if config.outputs.mqtt.url else None


def _rtsp(config: PipelineConfig, rate_of: Rate) -> Optional[Sink]:
    return Rtsp(config.outputs.rtsp, tuple(config.named_sources)) if config.outputs.rtsp.url else None


#: In the order in which they are made.
MAKERS: Mapping[str, Callable[[PipelineConfig, Rate], Optional[Sink]]] = {
    "jsonl": _jsonl,
    "images": _images,
    "video": _video,
    "mqtt": _mqtt,
    "rtsp": _rtsp,
}


def settings_of(name: str, config: PipelineConfig) -> object:
    """What an output depends on: where it is the same, the output stays as it is."""
    out = config.outputs
    streams = (tuple(config.named_sources), tuple(config.named_models))
    return {
        "jsonl": (out.jsonl, out.rotate_mb, out.keep),
        "images": (out.images, out.every, out.limit, out.images_keep, bool(config.sources), len(config.models) > 1),
        "video": (
            out.video, out.segment_s, out.segment_mb, out.segments_keep, bool(config.sources), len(config.models) > 1
        ),
        "mqtt": out.mqtt,
        "rtsp": (out.rtsp, streams[0] if out.rtsp.url else ()),
        "events": (dict(config.events), out.clips),
    }[name]  # fmt: skip


def open_outputs(
    config: PipelineConfig,
    rate_of: Rate,
    kept: Optional[Mapping[str, Sink]] = None,
    names: Optional[Sequence[str]] = None,
) -> Dict[str, Sink]:
    """Outputs by name, in the order in which they take results and are closed. Where one cannot be made, none stays open.

    Args:
        kept: outputs that stay as they are. names: those to open; all of them if None.

    Raises:
        UsageError, RunError, EnvironmentMissing: an output cannot be opened.
    """
    made: Dict[str, Sink] = {}
    with contextlib.ExitStack() as stack:
        for name, make in MAKERS.items():
            old = (kept or {}).get(name)
            sink = make(config, rate_of) if names is None or name in names else None
            if sink is not None:
                stack.callback(sink.close)
            if sink is not None or old is not None:
                made[name] = sink or old  # type: ignore[assignment]
        events, tell = (kept or {}).get("events"), [sink for sink in made.values() if isinstance(sink, EventSink)]
        if config.events and (names is None or "events" in names):
            events = Events(config.events, tell, Clips(config.outputs.clips) if config.outputs.clips.folder else None)
        elif isinstance(events, Events):
            events.tell(tell)
        stack.pop_all()
    # First: its last words at the end go to outputs that are open still.
    return made if events is None else {"events": events, **made}
