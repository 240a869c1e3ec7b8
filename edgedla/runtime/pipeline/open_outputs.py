"""The outputs that a config asks for. To add one, make it here and say which settings it depends on."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, List, Mapping, Optional

from edgedla.runtime.outputs.by_stream import ByStream, stream_path
from edgedla.runtime.outputs.clips import Clips
from edgedla.runtime.outputs.events import Events, EventSink
from edgedla.runtime.outputs.mqtt import Mqtt
from edgedla.runtime.outputs.rtsp import Rtsp
from edgedla.runtime.outputs.segments import Segments
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, JsonLines, Sink
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
    return ByStream(one, len(config.named_models) > 1) if config.sources else one("", "")


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


def open_outputs(config: PipelineConfig, rate_of: Rate) -> Dict[str, Sink]:
    """Outputs by name, in the order in which they take results and are closed. Where one cannot be made, none stays open.

    Raises:
        UsageError, RunError, EnvironmentMissing: an output cannot be opened.
    """
    made: Dict[str, Sink] = {}
    with contextlib.ExitStack() as stack:
        for name, make in MAKERS.items():
            sink = make(config, rate_of)
            if sink is not None:
                made[name] = sink
                stack.callback(sink.close)
        if config.events:
            # First: its last words at the end go to outputs that are open still.
            made = {"events": make_events(config, made), **made}
        stack.pop_all()
    return made


def make_events(config: PipelineConfig, others: Mapping[str, Sink]) -> Sink:
    tell: List[EventSink] = [sink for sink in others.values() if isinstance(sink, EventSink)]
    return Events(config.events, tell, Clips(config.outputs.clips) if config.outputs.clips.folder else None)
