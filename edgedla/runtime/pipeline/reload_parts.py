"""Applies changed sources and outputs of a pipeline file to a running pipeline; leaves the others alone."""

from __future__ import annotations

import dataclasses
import logging
from typing import Dict, List, Tuple

from edgedla.errors import EdgedlaError, RunError, described
from edgedla.runtime.outputs.sinks import Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import sources_of_lane
from edgedla.runtime.pipeline.open_outputs import follow, names_changed, open_outputs
from edgedla.runtime.pipeline.open_pipeline import Opened, make_capture
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.runtime.pipeline.slots import Share

log = logging.getLogger("edgedla.runtime.pipeline.reload")
#: Time for a stopped source to close its camera.
STOP_S = 3.0
#: Time for a new source to open. A camera is retried later; a file that cannot be read is refused.
OPEN_S = 10.0


def reload_outputs(opened: Opened, old: PipelineConfig, new: PipelineConfig) -> List[str]:
    """Opens changed outputs beside the running ones, then switches between two results. The others go on with the new events.

    An RTSP server's port and the events' file cannot be shared: there the old one ends first, and is reopened if the new one fails.

    Returns:
        names of the outputs that were opened, closed or replaced.

    Raises:
        EdgedlaError: an output cannot be opened; everything runs as before.
    """
    changed = names_changed(old, new)
    before: Dict[str, Sink] = {n: s for n, s in opened.outputs.items() if n in changed}
    unchanged = {n: s for n, s in opened.outputs.items() if n not in changed}

    def rate_of(source: str) -> float:
        capture = opened.pipeline.captures.get(source)
        return capture.rate if capture is not None else 0.0

    alone = {n: s for n, s in before.items() if n in ("rtsp", "events")}
    opened.pipeline.replace_sinks(list(alone.values()), [])
    for name, sink in alone.items():
        _close(name, sink)
    try:
        after = open_outputs(new, rate_of, unchanged, changed)
    except EdgedlaError:
        again = open_outputs(old, rate_of, {n: s for n, s in opened.outputs.items() if n not in alone}, list(alone))
        opened.pipeline.replace_sinks([], list(again.values()))
        opened.outputs = again
        raise
    was, opened.outputs = opened.outputs, after
    opened.pipeline.replace_sinks(list(was.values()), list(after.values()), lambda: follow(was, after, new))
    for name in [n for n in before if n not in alone]:
        _close(name, before[name])
    return list(dict.fromkeys([*changed, *(["events"] if old.events != new.events else [])]))


def _close(name: str, sink: Sink) -> None:
    try:
        sink.close()
    except EdgedlaError as e:
        log.error("closing the output %s: %s", name, e)


def reload_sources(opened: Opened, old: PipelineConfig, new: PipelineConfig) -> Tuple[List[str], Dict[str, str]]:
    """Adds, removes and replaces sources. A camera cannot be opened twice, so the old one ends before the new one opens.

    Returns:
        (names of changed sources, source -> why its change failed; a failed source runs as before).
    """
    was, now = old.named_sources, new.named_sources
    changed, failed = [], {}
    for name in (*(n for n in was if n not in now), *now):
        if name in was and name in now and was[name] == now[name] and _records(old) == _records(new):
            continue
        try:
            _change(opened, name, old, new)
            changed.append(name)
        except Exception as e:
            # Whatever it is: the sources that were changed already must be known as such.
            failed[name] = str(e) if isinstance(e, EdgedlaError) else described(e)
    return changed, failed


def _change(opened: Opened, name: str, old: PipelineConfig, new: PipelineConfig) -> None:
    was, now = old.named_sources.get(name), new.named_sources.get(name)
    if now is None:
        _remove(opened, name)
        return
    if was is None:
        _add(opened, name, new)
    elif _place(was) == _place(now) and _records(old) == _records(new):
        opened.pipeline.captures[name].cap.rate = now.max_rate
    else:
        _replace(opened, name, old, new)
    for lane in opened.pipeline.lanes:
        if name in sources_of_lane(new, lane.name):
            lane.admit(name, Share(now.weight, now.priority))


def _records(config: PipelineConfig) -> Tuple[str, float]:
    return config.outputs.record, config.outputs.record_s


def _place(source: SourceConfig) -> SourceConfig:
    """The source's settings without those that can change while its camera is open."""
    return dataclasses.replace(source, weight=1.0, priority=0, max_rate=0.0)


def _remove(opened: Opened, name: str) -> None:
    capture = opened.pipeline.captures[name]
    # First, while its slots can tell what they dropped.
    opened.pipeline.set_capture(name, None)
    for lane in opened.pipeline.lanes:
        lane.dismiss(name)
    capture.stop(STOP_S)


def _replace(opened: Opened, name: str, old: PipelineConfig, new: PipelineConfig) -> None:
    before = opened.pipeline.captures[name]
    after = _made(opened, name, new)
    before.stop(STOP_S)
    try:
        _open(opened, name, after, before.index)
    except EdgedlaError:
        after.stop(STOP_S)
        _open(opened, name, _made(opened, name, old), before.index)
        raise


def _add(opened: Opened, name: str, new: PipelineConfig) -> None:
    capture = _made(opened, name, new)
    try:
        _open(opened, name, capture, 0)
    except EdgedlaError:
        capture.stop(STOP_S)
        raise


def _made(opened: Opened, name: str, config: PipelineConfig) -> Capture:
    """A capture with all models that get its frames; it does not read yet."""
    capture = make_capture(name, config)
    has_model = False
    for lane in opened.pipeline.lanes:
        if lane.crops is None and name in sources_of_lane(config, lane.name):
            capture.feed(lane.slots, config.named_models[lane.name].every)
            has_model = True
    if not has_model:
        raise RunError(f"no running model takes frames of the source {name}", hint="this needs a restart")
    return capture


def _open(opened: Opened, name: str, capture: Capture, index: int) -> None:
    capture.index = index
    capture.start(OPEN_S)
    opened.pipeline.set_capture(name, capture)
