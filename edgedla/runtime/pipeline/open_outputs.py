"""The outputs that a config asks for. To add one: its file in outputs/, its settings in OutputConfig, its row in OUTPUTS here."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.errors import UsageError
from edgedla.runtime.outputs.by_stream import ByStream, stream_path
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.films.clips import Clips
from edgedla.runtime.outputs.films.segments import Segments
from edgedla.runtime.outputs.guarded import Guarded
from edgedla.runtime.outputs.home_assistant import HomeAssistant
from edgedla.runtime.outputs.mqtt import Mqtt
from edgedla.runtime.outputs.own import Own
from edgedla.runtime.outputs.published import Published
from edgedla.runtime.outputs.retention import Retention, clips_of, films_of, lines_of, pictures_of, recordings_of
from edgedla.runtime.outputs.rtsp import Rtsp
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, Callback, JsonLines, Sink
from edgedla.runtime.pipeline.config import sources_of_lane
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.runtime.sources.uri import parse_source

#: Frames a second of a source, by its name; 0 where it is not known.
Rate = Callable[[str], float]


class Output(NamedTuple):
    """One kind of output.

    Attributes:
        asked: whether a pipeline's settings ask for it. make: opens it.
        depends_on: the settings that it is made of; where they are the same, a reload leaves it as it is.
        writes: the files and folders that it may write.
        draws: it makes pictures, for which a board needs OpenCV.
        again: opens it after a failure, beside what was written before; None: `make` does.
        old: its complete files, which may be removed to make room.
    """

    asked: Callable[[PipelineConfig], bool]
    make: Callable[[PipelineConfig, Rate], Sink]
    depends_on: Callable[[PipelineConfig], object]
    writes: Callable[[PipelineConfig], Sequence[str]] = lambda _: ()
    draws: bool = False
    again: Optional[Callable[[PipelineConfig, Rate], Sink]] = None
    old: Callable[[PipelineConfig], Iterable[Tuple[Path, ...]]] = lambda _: ()


def _images(config: PipelineConfig, rate_of: Rate) -> Sink:
    out = config.outputs

    def one(source: str, model: str) -> Sink:
        return AnnotatedImages(stream_path(out.images, source, model), out.every, out.limit, out.images_keep)

    return _by_stream(config, one)


def _video(config: PipelineConfig, rate_of: Rate, again: bool = False) -> Sink:
    """Args: again: a video without segments goes on in a file of its own, so that the one before it stays."""
    out = config.outputs

    def one(source: str, model: str) -> Sink:
        path, rate = stream_path(out.video, source, model), _film_rate(config, rate_of(source), source, model)
        if again or out.segment_s or out.segment_mb:
            return Segments(path, rate, out.segment_s, out.segment_mb, out.segments_keep)
        return AnnotatedVideo(path, rate)

    return _by_stream(config, one)


def _home(config: PipelineConfig) -> Optional[HomeAssistant]:
    mqtt = config.outputs.mqtt
    return HomeAssistant(mqtt, tuple(config.named_sources), config.events) if mqtt.url and mqtt.discovery else None


def _retention(config: PipelineConfig, rate_of: Rate) -> Sink:
    out = config.outputs

    def files() -> Iterator[Tuple[Path, ...]]:
        for output in OUTPUTS.values():
            yield from output.old(config)
        if out.clips.folder:
            yield from clips_of(out.clips.folder)

    written = [path for paths in written_by(config).values() for path in paths if path]
    folders = [Path(path) if os.path.isdir(path) else Path(os.path.abspath(path)).parent for path in written]
    return Retention(files, folders, out.keep_days, out.keep_gb, out.free_gb)


def _old(find: Callable[[str], Iterable[Tuple[Path, ...]]], paths: Sequence[str]) -> Iterator[Tuple[Path, ...]]:
    for path in dict.fromkeys(paths):
        yield from find(path) if path else ()


def _film_rate(config: PipelineConfig, rate: float, source: str, model: str) -> float:
    """How many of a source's `rate` frames per second a model sees, without those that it drops; 0 where it is not known."""
    # A source that a reload added is not in these settings.
    most, models = config.named_sources.get(source, SourceConfig()).max_rate, config.named_models
    model_config = models[model or next(iter(models))]
    while model_config.crops.of:
        model_config = models[model_config.crops.of]
    return (min(rate or most, most) if most else rate) / model_config.every


def _by_stream(config: PipelineConfig, one: Callable[[str, str], Sink]) -> Sink:
    if not config.sources:
        return one("", "")
    several = len(config.named_models) > 1
    streams = [(s, m if several else "") for m in config.named_models for s in sources_of_lane(config, m)]
    return ByStream(one, several, streams)


def _stream_paths(config: PipelineConfig, path: str) -> List[str]:
    """What `_by_stream` may make of a path."""
    streams = [(s, m) for s in config.named_sources for m in ("", *config.named_models)]
    return [path, *(stream_path(path, *stream) for stream in streams)]


def _several(config: PipelineConfig) -> Tuple[bool, bool]:
    """What the names of files of one stream follow from."""
    return bool(config.sources), len(config.models) > 1


#: Settings that write a file, and not a folder.
FILES = ("outputs.jsonl", "outputs.video", "metrics.jsonl", "outputs.events_state")
#: In the order in which they are made.
OUTPUTS: Mapping[str, Output] = {
    "jsonl": Output(
        lambda c: bool(c.outputs.jsonl),
        lambda c, _: JsonLines(c.outputs.jsonl, c.outputs.rotate_mb, c.outputs.keep),
        lambda c: (c.outputs.jsonl, c.outputs.rotate_mb, c.outputs.keep),
        writes=lambda c: [c.outputs.jsonl],
        old=lambda c: lines_of(c.outputs.jsonl),
    ),
    "images": Output(
        lambda c: bool(c.outputs.images),
        _images,
        lambda c: (c.outputs.images, c.outputs.every, c.outputs.limit, c.outputs.images_keep, _several(c)),
        writes=lambda c: _stream_paths(c, c.outputs.images),
        draws=True,
        old=lambda c: _old(pictures_of, _stream_paths(c, c.outputs.images)),
    ),
    "video": Output(
        lambda c: bool(c.outputs.video),
        _video,
        lambda c: (c.outputs.video, c.outputs.segment_s, c.outputs.segment_mb, c.outputs.segments_keep, _several(c)),
        writes=lambda c: _stream_paths(c, c.outputs.video),
        draws=True,
        again=lambda c, rate_of: _video(c, rate_of, again=True),
        old=lambda c: _old(films_of, _stream_paths(c, c.outputs.video)),
    ),
    "mqtt": Output(lambda c: bool(c.outputs.mqtt.url), lambda c, _: Mqtt(c.outputs.mqtt, _home(c)), lambda c: c.outputs.mqtt),
    "rtsp": Output(
        lambda c: bool(c.outputs.rtsp.url),
        lambda c, _: Rtsp(c.outputs.rtsp, tuple(c.named_sources)),
        lambda c: (c.outputs.rtsp, tuple(c.named_sources) if c.outputs.rtsp.url else ()),
        draws=True,
    ),
    "zmq": Output(lambda c: bool(c.outputs.zmq), lambda c, _: Published(c.outputs.zmq), lambda c: c.outputs.zmq),
    "call": Output(lambda c: bool(c.outputs.call), lambda c, _: Own(c.outputs.call), lambda c: c.outputs.call),
    # Made by the sources themselves, which have the encoded stream.
    "record": Output(
        lambda c: False,
        lambda c, _: Callback(lambda result: None),
        lambda c: (c.outputs.record, c.outputs.record_s),
        writes=lambda c: [c.outputs.record],
        old=lambda c: recordings_of(c.outputs.record, tuple(c.named_sources)),
    ),
    "retention": Output(
        lambda c: bool(c.outputs.keep_days or c.outputs.keep_gb or c.outputs.free_gb),
        _retention,
        lambda c: c.outputs if c.outputs.keep_days or c.outputs.keep_gb or c.outputs.free_gb else None,
    ),
}


def names_changed(old: PipelineConfig, new: PipelineConfig) -> List[str]:
    """Outputs whose settings differ."""
    changed = [n for n, output in OUTPUTS.items() if output.depends_on(old) != output.depends_on(new)]
    # Events are made of all that is open, behind the others.
    return [*changed, *(["events"] if _of_events(old) != _of_events(new) else [])]


def _of_events(config: PipelineConfig) -> object:
    """Without the rules, which `follow` exchanges."""
    return bool(config.events), config.outputs.clips, config.outputs.events_state


def follow(before: Mapping[str, Sink], after: Mapping[str, Sink], config: PipelineConfig) -> None:
    """Outputs go on with a config's sources and events."""
    events, home = after.get("events"), _home(config)
    for document in events.follow(config.events, after.values()) if isinstance(events, Events) else ():
        if home is not None:
            home.told({**document, "state": "begin"})
    old, new = (getattr(outputs.get("mqtt"), "sink", None) for outputs in (before, after))
    if isinstance(old, Mqtt):
        old.give_up(home)
    if isinstance(new, Mqtt):
        new.announce(home)


def draws(config: PipelineConfig) -> bool:
    """Whether anything that the pipeline writes is a picture."""
    return bool(config.outputs.clips.folder) or any(o.draws and o.asked(config) for o in OUTPUTS.values())


def written_by(config: PipelineConfig) -> Dict[str, Sequence[str]]:
    """The files and folders that each setting writes."""
    return {
        **{f"outputs.{name}": output.writes(config) for name, output in OUTPUTS.items()},
        "metrics.jsonl": [config.metrics.jsonl],
        "outputs.clips.folder": [config.outputs.clips.folder],
        "outputs.events_state": [config.outputs.events_state],
    }


def require_apart(config: PipelineConfig) -> None:
    """Lets a pipeline pass none of whose outputs is written over another, or over the film or into the folder of pictures
    that it reads.

    Raises:
        UsageError: names both.
    """
    written = written_by(config)
    # Folders of pictures and of clips may be one.
    files = {name: os.path.realpath(written[name][0]) for name in FILES if any(written[name][:1])}
    for name, path in files.items():
        other = next((n for n in files if n != name and files[n] == path), None)
        if other is not None:
            raise UsageError(f"{other} writes to the same file", where=f"{name}: {path}", hint="give it another file")
    for source in [parse_source(s.uri) for s in config.named_sources.values() if s.uri]:
        if source.scheme not in ("file", "images") or not os.path.exists(source.place):
            continue
        for setting, paths in written.items():
            if any(os.path.exists(path) and os.path.samefile(path, source.place) for path in paths if path):
                raise UsageError(
                    "this output would overwrite the source",
                    where=f"{setting}: {source.text}",
                    hint="give the output another file",
                )


def _opened(name: str, output: Output, config: PipelineConfig, rate_of: Rate) -> Sink:
    again = output.again or output.make
    return Guarded(name, output.make(config, rate_of), lambda: again(config, rate_of))


def open_outputs(
    config: PipelineConfig, rate_of: Rate, kept: Optional[Mapping[str, Sink]] = None, names: Optional[Sequence[str]] = None
) -> Dict[str, Sink]:
    """Outputs by name, in the order in which they take results and are closed. Where one cannot be made, none stays open.

    Args:
        kept: outputs that stay as they are. names: those to open; all of them if None.

    Raises:
        UsageError: an output would replace what a source reads. UsageError, RunError, EnvironmentMissing: one cannot be opened.
    """
    require_apart(config)
    made: Dict[str, Sink] = {}
    with contextlib.ExitStack() as stack:
        for name, output in OUTPUTS.items():
            old = (kept or {}).get(name)
            requested = output.asked(config) and (names is None or name in names)
            sink = _opened(name, output, config, rate_of) if requested else None
            if sink is not None:
                stack.callback(sink.close)
            if sink is not None or old is not None:
                made[name] = sink or old  # type: ignore[assignment]
        events = (kept or {}).get("events")
        if config.events and (names is None or "events" in names):
            clips = Clips(config.outputs.clips) if config.outputs.clips.folder else None
            events = Events(config.events, made.values(), clips, config.outputs.events_state)
        stack.pop_all()
    # First: its last words at the end go to outputs that are open still.
    return made if events is None else {"events": events, **made}
