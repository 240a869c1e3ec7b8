"""Events: an object is in a zone for some frames. Start and end go to outputs, and a recorder makes clips."""

from __future__ import annotations

import logging
import math
import queue
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, runtime_checkable

from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import FrameResult

log = logging.getLogger("edgedla.runtime.outputs.events")
POINTS = ("bottom", "centre")
Document = Dict[str, Any]
#: The number before 1, so that a box at the frame's edge is inside a zone that reaches the edge.
_WITHIN = 1 - 2**-53


@dataclass(frozen=True)
class EventRule:
    """When an event starts and ends.

    Attributes:
        sources, models: names of those watched; empty for all.
        classes: labels, or class numbers as text; empty for all.
        score: objects below it do not count.
        zone: corners of a polygon, [x, y] as fractions of the frame's width and height (0 to 1); empty for the whole frame.
        point: the point of a box that must be in the zone: the middle of its "bottom" edge, where objects stand, or "centre".
        frames: it starts when so many consecutive results of one source and model contain such an object.
        end_s: it ends after so many seconds without one.
    """

    sources: Tuple[str, ...] = ()
    models: Tuple[str, ...] = ()
    classes: Tuple[str, ...] = ()
    score: float = 0.5
    zone: Tuple[Tuple[float, float], ...] = ()
    point: str = "bottom"
    frames: int = 3
    end_s: float = 2.0

    def sees(self, source: str, model: str) -> bool:
        return (not self.sources or source in self.sources) and (not self.models or model in self.models)

    def objects(self, result: FrameResult) -> List[Detection]:
        """The objects of a result that count; a class of the whole frame or of a crop counts with that frame's or crop's box."""
        image = result.frame.image
        h, w = (image.shape[0] * 2 // 3 if image.ndim == 2 else image.shape[0]), image.shape[1]
        return [
            d
            for d in _detections(result.results, (0.0, 0.0, float(w), float(h)))
            if d.score >= self.score
            and (not self.classes or d.label in self.classes or str(d.cls) in self.classes)
            and (not self.zone or inside(self._place(d, w, h), self.zone))
        ]

    def _place(self, d: Detection, width: int, height: int) -> Tuple[float, float]:
        x1, y1, x2, y2 = d.box_xyxy
        x, y = (x1 + x2) / 2 / width, (y2 if self.point == "bottom" else (y1 + y2) / 2) / height
        # Boxes are clipped at the frame's edge, and a polygon's right and lower edges are outside it.
        return (_WITHIN if x == 1 else x), (_WITHIN if y == 1 else y)


def _detections(results: Sequence[object], box: Tuple[float, float, float, float]) -> List[Detection]:
    matching: List[Detection] = []
    best: Optional[ClassScore] = None
    for r in results:
        if isinstance(r, Detection):
            matching.append(r)
        elif isinstance(r, ClassScore):
            best = r if best is None or r.score > best.score else best
        elif hasattr(r, "parent"):
            matching += _detections(r.results, r.parent.box_xyxy)  # type: ignore[attr-defined]
    if best is not None:
        matching.append(Detection(box, best.score, best.cls, best.label))
    return matching


def inside(point_xy: Tuple[float, float], corners: Sequence[Tuple[float, float]]) -> bool:
    """True if the point is in the polygon, by counting edges to its right; False for NaN."""
    x, y = point_xy
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    odd = False
    for (x1, y1), (x2, y2) in zip(corners, (*corners[1:], corners[0])):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            odd = not odd
    return odd


@runtime_checkable
class EventSink(Protocol):
    """An output that also takes events. A document has no `source` in a pipeline with a single source."""

    def write_event(self, document: Document) -> None: ...


class Recorder(Protocol):
    """Records a source. `done` receives a document for each clip that is complete or has failed."""

    done: queue.SimpleQueue[Document]

    def put(self, result: FrameResult) -> None: ...

    def begin(self, name: str, document: Document, result: FrameResult) -> None: ...

    def end(self, name: str) -> None: ...

    def close(self) -> None: ...


#: Events of a source (removed or broken) end after so many seconds without frames, but not before so many times the last
#: interval between frames.
SILENT_S, SILENT_TIMES = 5.0, 3


class _Stream:
    """One event on one source and model."""

    def __init__(self) -> None:
        self.row = self.frames = 0
        #: The document of the present event.
        self.now: Optional[Document] = None
        self.began_s = self.seen_s = 0.0
        #: Time of the newest result, and its distance from the one before.
        self.last_s, self.gap_s = 0.0, 0.0
        self.best: Optional[Detection] = None


def _silent_s(rule: EventRule, stream: _Stream) -> float:
    return max(rule.end_s, SILENT_S, SILENT_TIMES * stream.gap_s)


class Events:
    """The output that detects events and passes them to other outputs.

    Args:
        tell: outputs that take events; others close them, after this one.
        recorder: makes clips, if requested.
    """

    def __init__(
        self, rules: Mapping[str, EventRule], tell: Sequence[EventSink], recorder: Optional[Recorder] = None
    ) -> None:
        self._rules, self._tell, self._recorder = dict(rules), list(tell), recorder
        self._streams: Dict[Tuple[str, str, str], _Stream] = {}
        self._count = 0
        self.began = 0

    def tell(self, sinks: Sequence[EventSink]) -> None:
        """Replaces the outputs that take events."""
        self._tell = list(sinks)

    def write(self, result: FrameResult) -> None:
        if self._recorder is not None:
            self._recorder.put(result)
        for name, rule in self._rules.items():
            if rule.sees(result.source, result.model):
                self._step(name, rule, result)
        self._end_silent(result.frame.captured_s, result.frame.time_s)
        self._tell_clips()

    def _end_silent(self, now_s: float, time_s: float) -> None:
        for (name, _, _), stream in self._streams.items():
            if stream.now is not None and now_s - stream.last_s >= _silent_s(self._rules[name], stream):
                self._end(stream, time_s)

    def _step(self, name: str, rule: EventRule, result: FrameResult) -> None:
        stream = self._streams.setdefault((name, result.source, result.model), _Stream())
        # Durations of what is seen use the scene's clock; silence of the source uses the capture clock.
        objects, at_s, seen_s = rule.objects(result), result.frame.captured_s, result.frame.seen_s
        if stream.now is not None and stream.gap_s and at_s - stream.last_s >= _silent_s(rule, stream):
            # An object present after an outage is a new event: the time between is unknown.
            self._end(stream, result.frame.time_s)
        stream.gap_s, stream.last_s = (at_s - stream.last_s if stream.last_s else 0.0), at_s
        if objects:
            stream.row += 1
            stream.seen_s = seen_s
            best = max(objects, key=lambda d: d.score)
            stream.best = best if stream.best is None or best.score > stream.best.score else stream.best
        else:
            stream.row = 0
        if stream.now is not None:
            stream.frames += bool(objects)
            if seen_s - stream.seen_s >= rule.end_s:
                self._end(stream, result.frame.time_s)
        elif objects and stream.row >= max(1, rule.frames):
            self._begin(name, stream, objects, result)
        elif not objects:
            stream.best = None

    def _begin(self, name: str, stream: _Stream, objects: Sequence[Detection], result: FrameResult) -> None:
        self._count += 1
        names = {k: v for k, v in (("source", result.source), ("model", result.model)) if v}
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(result.frame.time_s))
        parts = [result.source, name, stamp, str(self._count)]
        stream.now = {"event": name, "id": "-".join(p for p in parts if p), **names}
        stream.began_s, stream.frames = result.frame.seen_s, stream.row
        self.began += 1
        document = self._document(stream, "begin", result.frame.time_s)
        document.update(frame=result.frame.index, objects=[d.to_dict() for d in objects])
        self._say(document)
        if self._recorder is not None:
            self._recorder.begin(stream.now["id"], document, result)

    def _end(self, stream: _Stream, time_s: float) -> None:
        assert stream.now is not None
        document = self._document(stream, "end", time_s)
        document.update(seconds=round(stream.seen_s - stream.began_s, 3), frames=stream.frames)
        document["best"] = None if stream.best is None else stream.best.to_dict()
        self._say(document)
        if self._recorder is not None:
            self._recorder.end(stream.now["id"])
        stream.now, stream.best, stream.row = None, None, 0

    @staticmethod
    def _document(stream: _Stream, state: str, time_s: float) -> Document:
        assert stream.now is not None
        return {**stream.now, "state": state, "time": round(time_s, 3)}

    def _say(self, document: Document) -> None:
        for sink in self._tell:
            sink.write_event(document)

    def _tell_clips(self) -> None:
        while self._recorder is not None:
            try:
                self._say(self._recorder.done.get_nowait())
            except queue.Empty:
                return

    def close(self) -> None:
        """Ends present events, and waits for the clips' last pictures."""
        for stream in self._streams.values():
            if stream.now is not None:
                self._end(stream, time.time())
        if self._recorder is not None:
            self._recorder.close()
        self._tell_clips()

    def to_dict(self) -> Dict[str, Any]:
        going_on = sum(stream.now is not None for stream in self._streams.values())
        return {"output": "events", "began": self.began, "going_on": going_on}
