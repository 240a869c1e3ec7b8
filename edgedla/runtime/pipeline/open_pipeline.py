"""From a PipelineConfig to a running pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.errors import DocumentError
from edgedla.io.files import make_folder
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.mqtt_config import ONLY
from edgedla.runtime.outputs.sinks import Callback, Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import check_names, load_config, sources_of_lane
from edgedla.runtime.pipeline.devices import placed_together
from edgedla.runtime.pipeline.engine import Engine
from edgedla.runtime.pipeline.lane import Lane
from edgedla.runtime.pipeline.open_engine import Model, Preparers, open_engine, read_model
from edgedla.runtime.pipeline.open_outputs import open_outputs
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.settings import PipelineConfig
from edgedla.runtime.pipeline.slots import Share
from edgedla.runtime.sources import Source, open_source, parse_source
from edgedla.runtime.track.bytetrack import ByteTracker

log = logging.getLogger("edgedla.runtime.pipeline.open_pipeline")
Pools = Union[None, Pool, Mapping[str, Pool]]


@typed
@contextlib.contextmanager
def open_pipeline(
    pipeline: Union[str, Path, PipelineConfig], *, on_result: Optional[Callable[[FrameResult], object]] = None, pool: Pools = None
) -> Iterator[Pipeline]:
    """Context manager: opens a pipeline with its outputs, metrics and live page, and closes everything at the end.

        with edgedla.open_pipeline("pipeline.yaml", on_result=print) as p:
            summary = p.run()

    Args:
        pipeline: a pipeline file or a PipelineConfig.
        on_result: called with every FrameResult, in frame order of each source and model, on output threads in turn.
        pool: runners to use instead of the config's devices, or those of each model by its name (tests use fake ones).

    Raises:
        DocumentError: the file or the artifact is wrong. EnvironmentMissing: a library or device is missing.
        RunError: the only source cannot be opened (with several cameras, a missing one is tried again), or a port is in use.
    """
    config = pipeline if isinstance(pipeline, PipelineConfig) else load_config(str(pipeline))
    with opened_parts(config, on_result, pool) as parts, watched(parts.pipeline, config):
        yield parts.pipeline


@contextlib.contextmanager
def watched(opened: Pipeline, config: PipelineConfig, title: str = "") -> Iterator[Optional[str]]:
    """Writes and serves the metrics and the live page that the config asks for; the page's address, None without one."""
    page: Optional[str] = None
    with contextlib.ExitStack() as stack:
        if config.metrics.jsonl or config.metrics.prometheus_port:
            from edgedla.runtime.health.metrics import serve_metrics

            stack.enter_context(serve_metrics(opened, config.metrics))
        if config.view.port:
            from edgedla.runtime.live.server import serve_view

            page = stack.enter_context(serve_view(opened, config.view, title))
        yield page


@dataclass
class Opened:
    """A pipeline with its outputs by name: what a reload exchanges parts of."""

    pipeline: Pipeline
    outputs: Dict[str, Sink]


@contextlib.contextmanager
def opened_parts(
    config: PipelineConfig, on_result: Optional[Callable[[FrameResult], object]] = None, pool: Pools = None
) -> Iterator[Opened]:
    """As open_pipeline."""
    check_names(config)
    models, damaged = readable_models(config)
    devices = devices_of(config, models)
    with contextlib.ExitStack() as stack:
        captures = {name: make_capture(name, config) for name in config.named_sources}
        for capture in captures.values():
            stack.callback(capture.stop, 2.0)
        lanes, preparers = [], []
        for model, names in zip(models, devices):
            given = pool if isinstance(pool, Pool) or pool is None else pool[model.name]
            engine, preparing = open_engine(model, names, given)
            lanes.append(_lane(config, model, engine))
            preparers.append(preparing)
            stack.callback(lanes[-1].close)
        every = {model.name: model.config.every for model in models}
        opened = Pipeline(list(captures.values()), lanes, [], config.stop_after, every)
        opened.damaged, opened.absent = damaged, tuple(damaged)
        opened.start()
        _prepare_open_sources(captures, lanes, preparers)
        outputs = open_outputs(config, lambda source: captures[source].rate)
        for sink in outputs.values():
            opened.add_sink(sink)
        if on_result is not None:
            opened.add_sink(Callback(on_result))
        # A reload may have put others in their place.
        stack.callback(_stop_all, opened)
        yield Opened(opened, outputs)


def end_on_signals(pipeline: Pipeline, *names: str) -> None:
    """The first of these signals lets the pipeline finish, and a second one does not wait: unless it is SIGHUP, which a closed
    terminal sends twice, as the shell passes it on. `nohup` ignores it."""

    def end(number: int, frame: object) -> None:
        again = pipeline.stopping and number != getattr(signal, "SIGHUP", None)
        (pipeline.force_stop if again else pipeline.stop)()

    for number in (getattr(signal, name) for name in names if hasattr(signal, name)):
        if number in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def readable_models(config: PipelineConfig) -> Tuple[List[Model], Dict[str, str]]:
    """(models whose artifact can be read, model -> why another cannot): one damaged artifact must not keep all cameras off.

    Raises:
        DocumentError: of the only model, of all of them, or of one in a placement, which is one plan for all.
    """
    models: List[Model] = []
    wrong: Dict[str, str] = {}
    first: Optional[DocumentError] = None
    for name, model in config.named_models.items():
        if model.crops.of in wrong:
            wrong[name] = f"it takes crops of {model.crops.of}"
            continue
        try:
            models.append(read_model(name, model))
        except DocumentError as e:
            if config.placement or not config.models:
                raise
            first, wrong[name] = first or e, str(e)
            log.error("the model %s does not run: %s; the others go on", name, e)
    if first is not None and not models:
        raise first
    return models, wrong


def _stop_all(pipeline: Pipeline) -> None:
    for capture in pipeline.captures.values():
        capture.stop(2.0)


def devices_of(config: PipelineConfig, models: Sequence[Model]) -> List[Sequence[str]]:
    """The devices of each model: its own, or the placement's.

    Raises:
        UsageError: a model does not fit the placement.
    """
    devices: List[Sequence[str]] = [model.config.devices for model in models]
    if config.placement:
        devices = list(placed_together(config.placement, [model.artifact for model in models], bool(config.models)))
    if len(models) > 1:
        try:
            from edgedla.runtime.loadables_in_use import warn_of_loadables
        except ModuleNotFoundError:
            # A bundle carries no rules.
            return devices
        warn_of_loadables([(model.artifact, names) for model, names in zip(models, devices)])
    return devices


def make_capture(name: str, config: PipelineConfig) -> Capture:
    """A source that has not been started."""
    # As a service too: nobody reads why it ended, and a camera may lock an account that is tried every few seconds.
    source, patient = config.named_sources[name], len(config.named_sources) > 1 or bool(os.environ.get("NOTIFY_SOCKET"))
    own_pace = config.capture.every_frame is False

    out = config.outputs
    if out.record:
        # Not when it is opened again: a full disk must not keep the camera away.
        make_folder(out.record)

    def made() -> Source:
        uri = dataclasses.replace(parse_source(source.uri, source.options), own_pace=own_pace)
        if out.record and uri.scheme == "rtsp":
            uri = dataclasses.replace(uri, record=os.path.join(out.record, name or ONLY), record_s=out.record_s)
        return open_source(uri)

    return Capture(made, config.capture, name, source.max_rate, patient)


def _lane(config: PipelineConfig, model: Model, engine: Engine) -> Lane:
    sources, settings = config.named_sources, model.config
    rule = settings.crops
    lane_sources = sources_of_lane(config, model.name)
    shares = {n: Share(sources[n].weight, sources[n].priority) for n in lane_sources}
    track = ByteTracker if settings.track else None
    if track is not None:
        # That its library is missing is said now, and not at the first frame.
        track()
    return Lane(engine, shares, model.name, rule if rule.of else None, settings.batch_wait_ms / 1e3, track)


def _prepare_open_sources(captures: Mapping[str, Capture], lanes: Sequence[Lane], preparers: Sequence[Preparers]) -> None:
    """Sets up preprocessing for the sources that are open: what cannot work is said before the run."""
    for lane, preparing in zip(lanes, preparers):
        for source in lane.slots.names:
            hw = captures[source].frame_hw
            if hw != (0, 0):
                preparing.make(source, hw, captures[source].pixels)
