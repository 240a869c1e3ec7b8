"""One event for each tracked object, on one source and model: it appears, gets better seen, crosses a line, leaves."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import cut_out
from edgedla.runtime.outputs.event_rule import EventRule, Point, inside
from edgedla.runtime.outputs.event_zone import Document, NewEvent, Recorder, Say

#: A picture is better when its score is higher by this; an update is told at most this often, in seconds.
BETTER, UPDATE_S = 0.05, 1.0
#: Most points of a path; beyond, every second one is left out.
MOST_POINTS = 128


class _Object:
    def __init__(self, result: FrameResult) -> None:
        #: The document of its event, once it has begun.
        self.now: Optional[Document] = None
        self.row = self.frames = 0
        self.first_s = self.seen_s = self.began_s = result.frame.seen_s
        #: Since when it is in the zone; how long it has been there in all, and when that was last added to.
        self.in_zone_s: Optional[float] = None
        self.dwell_s = 0.0
        self.place: Optional[Point] = None
        self.path: List[Tuple[float, float, float]] = []
        self.every = self.skipped = 0
        self.crossings: List[Document] = []
        self.best: Optional[Detection] = None
        self.best_at: Document = {}
        self.jpeg, self.told_score, self.told_s = b"", 0.0, 0.0


class ObjectEvents:
    """Args: as of ZoneEvents.

    Attributes:
        crossings: how many objects crossed the line, to each side; empty without a line.
        pictures: whether anybody wants pictures of objects.
    """

    def __init__(self, rule: EventRule, new: NewEvent, say: Say, recorder: Optional[Recorder]) -> None:
        self._rule, self._new, self._say, self._recorder = rule, new, say, recorder
        self._objects: Dict[int, _Object] = {}
        self.crossings: Dict[str, int] = {"left": 0, "right": 0} if rule.line else {}
        self.pictures = False

    @property
    def going_on(self) -> int:
        return sum(o.now is not None for o in self._objects.values())

    def step(self, name: str, result: FrameResult) -> None:
        now_s, seen = result.frame.seen_s, set()
        for d, place in self._rule.placed(result):
            # A detection without a number is none of a track yet.
            if d.track is not None and d.track not in seen:
                seen.add(d.track)
                self._see(name, self._objects.setdefault(d.track, _Object(result)), d, place, result)
        for track, o in list(self._objects.items()):
            if track not in seen:
                o.row, o.in_zone_s = 0, None
            if now_s - o.seen_s >= self._rule.end_s:
                self._end(self._objects.pop(track), result.frame.time_s)

    def _see(self, name: str, o: _Object, d: Detection, place: Point, result: FrameResult) -> None:
        rule, now_s = self._rule, result.frame.seen_s
        side = rule.crossed(o.place, place) if rule.line and o.place is not None else ""
        within = not rule.zone or inside(place, rule.zone)
        o.place = place
        if not within:
            o.row, o.in_zone_s = 0, None
            # An object that has not begun need not be remembered beyond `end_s` outside, except for its place at a line.
            o.seen_s = now_s if rule.line and o.now is None else o.seen_s
            return
        if o.in_zone_s is not None:
            o.dwell_s += now_s - o.seen_s
        o.in_zone_s = now_s if o.in_zone_s is None else o.in_zone_s
        o.row, o.frames, o.seen_s = o.row + 1, o.frames + 1, now_s
        _walk(o, round(now_s - o.first_s, 2), place)
        better = o.best is None or d.score >= o.best.score + BETTER
        if o.best is None or d.score > o.best.score:
            o.best, o.best_at = d, {"frame": result.frame.index, "time": round(result.frame.time_s, 3)}
        if better and self.pictures:
            o.jpeg = cut_out(result.frame, d.box_xyxy)
        if side:
            self.crossings[side] += 1
            o.crossings.append({"to": side, "time": round(result.frame.time_s, 3)})
        due = bool(o.crossings) if rule.line else o.row >= max(1, rule.frames)
        if o.now is None:
            if due and now_s - o.in_zone_s >= rule.stay_s:
                self._begin(name, o, d, result)
        elif side or (o.best.score >= o.told_score + BETTER and now_s - o.told_s >= UPDATE_S):
            self._tell(o, "update", result.frame.time_s, d)

    def _begin(self, name: str, o: _Object, d: Detection, result: FrameResult) -> None:
        o.now, o.began_s = self._new(name, result), result.frame.seen_s
        document = self._tell(o, "new", result.frame.time_s, d)
        if self._recorder is not None:
            self._recorder.begin(o.now["id"], document, result)

    def _tell(self, o: _Object, state: str, time_s: float, d: Optional[Detection] = None) -> Document:
        assert o.now is not None
        assert o.best is not None
        best = {**o.best.to_dict(), **o.best_at}
        what: Dict[str, Any] = {"track": o.best.track, "class": o.best.cls, "label": o.best.label, "best": best}
        document = {**o.now, "state": state, "time": round(time_s, 3), **what, "dwell_s": round(o.dwell_s, 3)}
        if d is not None:
            document["object"] = d.to_dict()
        if self._rule.line:
            document.update(crossings=o.crossings, counts=dict(self.crossings))
        if state == "end":
            document.update(seconds=round(o.seen_s - o.began_s, 3), frames=o.frames, path=[list(p) for p in o.path])
            if o.jpeg and self._recorder is not None:
                document["picture"] = self._recorder.best(o.now["id"], o.jpeg) or None
        o.told_score, o.told_s = o.best.score, o.seen_s
        self._say(document, o.jpeg)
        return document

    def _end(self, o: _Object, time_s: float) -> None:
        if o.now is not None:
            self._tell(o, "end", time_s)
            if self._recorder is not None:
                self._recorder.end(o.now["id"])

    def end(self, time_s: float) -> None:
        objects, self._objects = self._objects, {}
        for o in objects.values():
            self._end(o, time_s)


def _walk(o: _Object, at_s: float, place: Point) -> None:
    """Adds a point (seconds since it was first seen, x, y) to the path, which keeps its length by getting coarser."""
    o.skipped += 1
    if o.skipped <= o.every:
        return
    o.skipped = 0
    o.path.append((at_s, round(place[0], 4), round(place[1], 4)))
    if len(o.path) >= MOST_POINTS:
        o.path, o.every = o.path[::2], o.every * 2 + 1
