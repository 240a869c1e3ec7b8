"""Events: an object is in a zone for some frames, or crosses a line. They go to outputs, and a recorder makes clips."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import time
from dataclasses import replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Protocol, Tuple, Type, Union, runtime_checkable

from edgedla.errors import EdgedlaError, UsageError
from edgedla.io.files import make_folder, write_atomic
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.event_objects import ObjectEvents
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.event_zone import Document, Recorder, ZoneEvents

log = logging.getLogger("edgedla.runtime.outputs.events")
Stream = Union[ZoneEvents, ObjectEvents]


@runtime_checkable
class EventSink(Protocol):
    """An output that also takes events. A document has no `source` in a pipeline with a single source."""

    def write_event(self, document: Document) -> None: ...


#: Events of a source (removed or broken) end after so many seconds without frames, but not before so many times the last
#: interval between frames.
SILENT_S, SILENT_TIMES = 5.0, 3


class Events:
    """The output that detects events and passes them to other outputs.

    Args:
        sinks: outputs; others close them, after this one. Those with `write_event` take events, and with `write_snapshot(document,
            jpeg)` pictures of objects too.
        recorder: makes clips, if requested.
        state: a file with the events that go on; those that a killed process left in it end now. "": none.
    """

    def __init__(
        self, rules: Mapping[str, EventRule], sinks: Iterable[object], recorder: Optional[Recorder] = None, state: str = ""
    ) -> None:
        self._rules, self._recorder, self._state = dict(rules), recorder, state
        #: Not the only output of a pipeline, unless it records.
        self.stores = recorder is not None
        self._streams: Dict[Tuple[str, str, str], Stream] = {}
        self._last: Dict[Tuple[str, str, str], Tuple[float, float]] = {}
        #: No two runs give the same id, whatever a board without a clock believes the time to be.
        self._run, self._count = os.urandom(3).hex(), 0
        self._open: Dict[str, Document] = {}
        self._told_unwritten = False
        self.began = 0
        self.follow(rules, sinks)
        self._end_left()

    def follow(self, rules: Mapping[str, EventRule], sinks: Iterable[object]) -> List[Document]:
        """Goes on with other rules and outputs; the events that go on. One ends where its rule changed, or no longer sees it."""
        self.sinks = [sink for sink in sinks if isinstance(sink, EventSink)]
        self._pictures = self._recorder is not None or any(hasattr(sink, "write_snapshot") for sink in self.sinks)
        for key, stream in list(self._streams.items()):
            rule, before = rules.get(key[0]), self._rules[key[0]]
            if rule is None or not rule.sees(*key[1:]) or rule != replace(before, sources=rule.sources, models=rule.models):
                stream.end(time.time())
                del self._streams[key]
        self._rules = dict(rules)
        return list(self._open.values())

    def write(self, result: FrameResult) -> None:
        if self._recorder is not None:
            self._recorder.put(result)
        for name, rule in self._rules.items():
            if rule.sees(result.source, result.model):
                self._step(name, rule, result)
        self.idle(result.frame.captured_s, result.frame.time_s)

    def _step(self, name: str, rule: EventRule, result: FrameResult) -> None:
        key = (name, result.source, result.model)
        stream = self._streams.get(key)
        if stream is None:
            kind: Type[Stream] = ObjectEvents if rule.each == "object" else ZoneEvents
            stream = self._streams[key] = kind(rule, self._new, self._say, self._recorder)
        stream.pictures = self._pictures
        # Durations of what is seen use the scene's clock; silence of the source uses the capture clock.
        at_s, (last_s, gap_s) = result.frame.captured_s, self._last.get(key, (0.0, 0.0))
        if gap_s and at_s - last_s >= _silent_s(rule, gap_s):
            # An object present after an outage is a new event: the time between is unknown.
            stream.end(result.frame.time_s)
        self._last[key] = at_s, (at_s - last_s if last_s else 0.0)
        stream.step(name, result)

    def idle(self, now_s: float, time_s: float) -> None:
        """Ends events of silent sources, and tells of clips: with each result, and while none comes from any source."""
        for key, stream in self._streams.items():
            last_s, gap_s = self._last[key]
            if stream.going_on and now_s - last_s >= _silent_s(self._rules[key[0]], gap_s):
                stream.end(time_s)
        while self._recorder is not None:
            try:
                self._say(self._recorder.done.get_nowait())
            except queue.Empty:
                return

    def _new(self, name: str, result: FrameResult) -> Document:
        """What all documents of a new event begin with."""
        self._count += 1
        self.began += 1
        names = {k: v for k, v in (("source", result.source), ("model", result.model)) if v}
        stamp = time.strftime("%Y%m%d-%H%M%SZ", time.gmtime(result.frame.time_s))
        parts = [result.source, name, stamp, self._run, str(self._count)]
        return {"event": name, "id": "-".join(p for p in parts if p), **names}

    def _say(self, document: Document, jpeg: bytes = b"") -> None:
        for sink in self.sinks:
            sink.write_event(document)
            if jpeg and hasattr(sink, "write_snapshot"):
                sink.write_snapshot(document, jpeg)
        if document["state"] in ("begin", "new"):
            self._open[document["id"]] = {k: document[k] for k in ("event", "id", "source", "model") if k in document}
        elif document["state"] != "end" or self._open.pop(document["id"], None) is None:
            return
        self._keep_state()

    def _keep_state(self) -> None:
        if self._state:
            try:
                write_atomic(self._state, json.dumps({"events": list(self._open.values())}).encode())
                self._told_unwritten = False
            except (EdgedlaError, OSError) as e:
                if not self._told_unwritten:
                    log.error("the events that go on cannot be written; after a kill their end will not be told: %s", e)
                self._told_unwritten = True

    def _end_left(self) -> None:
        """Ends the events of a process that was killed. When they ended is not known."""
        if not self._state:
            return
        make_folder(os.path.dirname(os.path.abspath(self._state)))
        left = _left_in(self._state)
        ended = {"state": "end", "time": round(time.time(), 3), "seconds": None, "why": "the run that began it was killed"}
        for document in left:
            self._say({**document, **ended})
        if left:
            self._keep_state()

    def close(self) -> None:
        """Ends present events, and waits for the clips' last pictures."""
        for stream in self._streams.values():
            stream.end(time.time())
        if self._recorder is not None:
            self._recorder.close()
        self.idle(time.monotonic(), time.time())

    def to_dict(self) -> Dict[str, Any]:
        going_on = sum(stream.going_on for stream in list(self._streams.values()))
        told: Dict[str, Any] = {"output": "events", "began": self.began, "going_on": going_on}
        counts = [
            {"event": name, "source": source, "model": model, **stream.crossings}
            for (name, source, model), stream in list(self._streams.items())
            if isinstance(stream, ObjectEvents) and stream.crossings
        ]
        return {**told, "crossings": counts} if counts else told


def _silent_s(rule: EventRule, gap_s: float) -> float:
    return max(rule.end_s, SILENT_S, SILENT_TIMES * gap_s)


def _left_in(path: str) -> List[Document]:
    with contextlib.suppress(FileNotFoundError):
        try:
            with open(path, "rb") as f:
                left = json.loads(f.read(1 << 20) or b'{"events": []}')["events"]
            return [{str(k): str(v) for k, v in d.items()} for d in left if {"event", "id"} <= set(d)]
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UsageError(
                "this file exists and holds something other than the events of `edgedla run`",
                where=path,
                allowed="a new file, or one that `edgedla run` wrote",
                hint="give outputs.events_state another file",
            ) from e
    return []
