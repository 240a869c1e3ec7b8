"""An event that lasts while a zone is not empty, on one source and model."""

from __future__ import annotations

import queue
from typing import Any, Callable, Dict, Optional, Protocol, Set

from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import cut_out
from edgedla.runtime.outputs.event_rule import EventRule

Document = Dict[str, Any]


class Recorder(Protocol):
    """Records a source. `done` receives a document for each clip that is complete or has failed."""

    done: queue.SimpleQueue[Document]

    def put(self, result: FrameResult) -> None: ...

    def begin(self, name: str, document: Document, result: FrameResult) -> None: ...

    def end(self, name: str) -> None: ...

    def best(self, name: str, jpeg: bytes) -> str:
        """Keeps an object's best picture; returns its path, "" if it cannot be written."""
        ...

    def close(self) -> None: ...


#: Gives an event its id.
NewEvent = Callable[[str, FrameResult], Document]


class Say(Protocol):
    """Passes a document to the outputs, with a JPEG of what it is about if there is one."""

    def __call__(self, document: Document, jpeg: bytes = b"") -> None: ...


class ZoneEvents:
    """Args: say: passes a document on. recorder: makes clips, if requested."""

    def __init__(self, rule: EventRule, new: NewEvent, say: Say, recorder: Optional[Recorder]) -> None:
        self._rule, self._new, self._say, self._recorder = rule, new, say, recorder
        self.pictures = False
        self._row = self._frames = self._most = 0
        #: The document of the present event.
        self._now: Optional[Document] = None
        self._began_s = self._seen_s = 0.0
        self._best: Optional[Detection] = None
        self._tracks: Set[int] = set()

    @property
    def going_on(self) -> int:
        return int(self._now is not None)

    def step(self, name: str, result: FrameResult) -> None:
        rule, objects, seen_s = self._rule, self._rule.objects(result), result.frame.seen_s
        if objects:
            self._row += 1
            self._seen_s = seen_s
            best = max(objects, key=lambda d: d.score)
            self._best = best if self._best is None or best.score > self._best.score else self._best
            self._most = max(self._most, len(objects))
            self._tracks.update(d.track for d in objects if d.track is not None)
        else:
            self._row = 0
        if self._now is not None:
            self._frames += bool(objects)
            if seen_s - self._seen_s >= rule.end_s:
                self.end(result.frame.time_s)
        elif objects and self._row >= max(1, rule.frames):
            self._begin(name, result)
        elif not objects:
            self._forget()

    def _begin(self, name: str, result: FrameResult) -> None:
        self._now = self._new(name, result)
        self._began_s, self._frames = result.frame.seen_s, self._row
        document = {**self._now, "state": "begin", "time": round(result.frame.time_s, 3)}
        document.update(frame=result.frame.index, objects=[d.to_dict() for d in self._rule.objects(result)])
        best = max(self._rule.objects(result), key=lambda d: d.score)
        self._say(document, cut_out(result.frame, best.box_xyxy) if self.pictures else b"")
        if self._recorder is not None:
            self._recorder.begin(self._now["id"], document, result)

    def end(self, time_s: float) -> None:
        if self._now is None:
            return
        document = {**self._now, "state": "end", "time": round(time_s, 3)}
        document.update(seconds=round(self._seen_s - self._began_s, 3), frames=self._frames, most=self._most)
        if self._tracks:
            document["count"] = len(self._tracks)
        document["best"] = None if self._best is None else self._best.to_dict()
        self._say(document)
        if self._recorder is not None:
            self._recorder.end(self._now["id"])
        self._now, self._row = None, 0
        self._forget()

    def _forget(self) -> None:
        self._best, self._most, self._tracks = None, 0, set()
