"""Events of single objects: when they begin, what they tell, which way they crossed a line; and what follows a kill."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import pytest

from edgedla.errors import DocumentError, EnvironmentMissing, UsageError
from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs import events as events_module
from edgedla.runtime.outputs.event_objects import MOST_POINTS
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.films.left_films import CLIP
from edgedla.runtime.pipeline.cascade import CropResult
from edgedla.runtime.pipeline.config import load_config

IMAGE = np.zeros((100, 200, 3), np.uint8)
LEFT = ((0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (0.0, 1.0))
EACH = EventRule(each="object", frames=2, end_s=0.5)


def at(x: float, y: float = 0.5, track: Any = 1, score: float = 0.9, label: str = "person") -> Detection:
    """An object whose feet stand at these shares of the frame."""
    return Detection((x * 200 - 10, y * 100 - 30, x * 200 + 10, y * 100), score, 0, label, track)


def result(index: int, *objects: Any, source: str = "gate") -> FrameResult:
    frame = Frame(index, IMAGE, 1 + index * 0.1, None, 1_700_000_000 + index * 0.1)
    return FrameResult(frame, tuple(objects), "DLA0", True, 1.0, 2.0, source, "objects")


class Told:
    def __init__(self) -> None:
        self.documents: List[Any] = []
        self.pictures: List[Any] = []

    def write_event(self, document: Any) -> None:
        self.documents.append(document)

    def write_snapshot(self, document: Any, jpeg: bytes) -> None:
        self.pictures.append((document["id"], document["state"], jpeg))

    def of(self, state: str) -> List[Any]:
        return [d for d in self.documents if d["state"] == state]


def run(rule: EventRule, frames: Sequence[Sequence[Any]], state: str = "") -> Any:
    told = Told()
    events = Events({"e": rule}, [told], None, state)
    for i, objects in enumerate(frames):
        events.write(result(i, *objects))
    return told, events


def test_each_object_is_an_event_however_many_are_there() -> None:
    """A zone that is never empty would else be one event for all who come."""
    frames = [[at(0.2, track=1)] + [at(0.3, track=n) for n in (2, 3) if i >= 5 * n] for i in range(30)]
    told, events = run(EACH, frames)
    assert [d["track"] for d in told.of("new")] == [1, 2, 3]
    assert len({d["id"] for d in told.of("new")}) == 3
    assert events.to_dict()["going_on"] == 3
    events.close()
    assert [d["state"] for d in told.documents] == ["new"] * 3 + ["end"] * 3


def test_the_end_tells_class_duration_path_dwell_and_the_best_look() -> None:
    frames: List[Any] = [[at(0.1 + 0.05 * i, score=0.6 + 0.03 * min(i, 5))] for i in range(11)] + [[]] * 8
    told, _ = run(EACH, frames)
    [end] = told.of("end")
    assert (end["label"], end["track"], end["frames"]) == ("person", 1, 11)
    assert end["seconds"] == pytest.approx(0.9)
    assert end["dwell_s"] == pytest.approx(1.0)
    assert end["path"][0] == [0.0, 0.1, 0.5]
    assert end["path"][-1] == pytest.approx([1.0, 0.6, 0.5])
    assert (end["best"]["score"], end["best"]["frame"]) == (0.75, 5)
    assert told.of("update") == [], "within a second of the first look it is not told again"


def test_an_update_comes_when_an_object_is_better_seen_and_at_most_once_a_second() -> None:
    told, _ = run(EACH, [[at(0.2, score=0.5 + i / 100)] for i in range(45)])
    scores = [d["best"]["score"] for d in told.documents]
    assert [d["state"] for d in told.documents] == ["new"] + ["update"] * 4
    assert scores == sorted(scores)
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    assert [state for _, state, _ in told.pictures] == [d["state"] for d in told.documents]
    assert all(jpeg[:2] == b"\xff\xd8" for *_, jpeg in told.pictures)


@pytest.mark.parametrize(
    ("stay_s", "frames_inside", "begins"), [(0.0, 2, 1), (0.0, 1, 0), (1.0, 10, 0), (1.0, 12, 1), (1.0, 30, 1)]
)
def test_an_object_must_stay(stay_s: float, frames_inside: int, begins: int) -> None:
    rule = dataclasses.replace(EACH, zone=LEFT, stay_s=stay_s)
    told, _ = run(rule, [[at(0.2 if i < frames_inside else 0.8)] for i in range(60)])
    assert len(told.of("new")) == begins
    assert len(told.of("end")) == begins, "it left the zone, and is seen elsewhere still"


def test_passing_through_twice_does_not_add_up_to_a_stay() -> None:
    rule = dataclasses.replace(EACH, zone=LEFT, stay_s=1.0)
    told, _ = run(rule, [[at(0.2 if i % 10 < 8 else 0.8)] for i in range(60)])
    assert told.documents == []


#: From bottom to top: who walks to larger x passes to the right.
LINE = ((0.5, 1.0), (0.5, 0.0))


@pytest.mark.parametrize(
    ("steps", "direction", "crossed"),
    [
        ([0.3, 0.4, 0.6], "both", ["right"]),
        ([0.7, 0.6, 0.4], "both", ["left"]),
        ([0.3, 0.4, 0.6], "left", []),
        ([0.3, 0.4, 0.6], "right", ["right"]),
        ([0.3, 0.6, 0.3, 0.6], "both", ["right", "left", "right"]),
        ([0.3, 0.6, 0.3, 0.6], "right", ["right", "right"]),
        ([0.1, 0.2, 0.3], "both", []),
        ([0.6], "both", []),
    ],
)
def test_a_line_is_crossed_in_a_direction(steps: Any, direction: str, crossed: Any) -> None:
    rule = dataclasses.replace(EACH, line=LINE, direction=direction)
    told, events = run(rule, [[at(x)] for x in steps])
    events.close()
    assert [d["state"] for d in told.documents] == (["new"] + ["update"] * (len(crossed) - 1) + ["end"] if crossed else [])
    [counts] = events.to_dict()["crossings"]
    assert (counts["left"], counts["right"]) == (crossed.count("left"), crossed.count("right"))
    if crossed:
        assert [c["to"] for c in told.of("end")[0]["crossings"]] == crossed


def test_a_line_is_crossed_only_between_its_ends() -> None:
    rule = dataclasses.replace(EACH, line=((0.5, 1.0), (0.5, 0.6)))
    assert run(rule, [[at(0.4, 0.5)], [at(0.6, 0.5)]])[0].documents == []
    assert len(run(rule, [[at(0.4, 0.8)], [at(0.6, 0.8)]])[0].of("new")) == 1


@pytest.mark.parametrize("seed", range(5))
def test_crossings_agree_with_the_side_on_which_an_object_begins_and_ends(seed: int) -> None:
    rng = np.random.default_rng(seed)
    walk = np.clip(0.5 + np.cumsum(rng.normal(0, 0.15, 200)), 0.01, 0.99)
    told, events = run(dataclasses.replace(EACH, line=LINE, end_s=100), [[at(float(x))] for x in walk])
    [counts] = events.to_dict()["crossings"]
    assert counts["right"] - counts["left"] == int(walk[-1] > 0.5) - int(walk[0] > 0.5)
    assert counts["right"] + counts["left"] == int(np.sum((walk[1:] > 0.5) != (walk[:-1] > 0.5)))


def test_a_path_stays_short_and_reaches_from_beginning_to_end() -> None:
    told, events = run(EACH, [[at(i / 5000)] for i in range(5000)])
    events.close()
    path = told.of("end")[0]["path"]
    assert MOST_POINTS / 2 <= len(path) < MOST_POINTS
    assert path[0][0] == 0
    assert path[-1][0] > 480


def test_the_class_of_a_crop_is_an_event_of_its_detection() -> None:
    crop = CropResult(0, at(0.2, track=7), (ClassScore(2, 0.8, "red"),))
    told, _ = run(dataclasses.replace(EACH, classes=("red",)), [[crop]] * 3)
    [new] = told.of("new")
    assert (new["track"], new["label"]) == (7, "red")


def test_an_outage_ends_objects_and_detections_without_a_track_begin_none() -> None:
    told, events = run(EACH, [[at(0.2)], [at(0.2)]])
    events.write(result(2, at(0.2)))
    for i in range(80):
        events.write(dataclasses.replace(result(3 + i), source="yard"))
    assert [d["state"] for d in told.documents] == ["new", "end"]
    assert run(EACH, [[at(0.2, track=None)]] * 9)[0].documents == []


def test_the_zone_form_counts_objects_too() -> None:
    rule = EventRule(frames=1, end_s=0.3)
    told, events = run(rule, [[at(0.2, track=i // 3), at(0.3, track=99)] for i in range(9)])
    events.close()
    [end] = told.of("end")
    assert (end["count"], end["most"]) == (4, 2)


def test_ids_are_unique_between_runs_at_the_same_second_and_name_utc() -> None:
    """A board without a clock's battery begins each run at one date; an hour comes twice at the end of summer time."""
    ids = [run(EACH, [[at(0.2)]] * 3)[0].of("new")[0]["id"] for _ in range(3)]
    assert len(set(ids)) == 3
    for one in ids:
        assert re.fullmatch(r"gate-e-20231114-221320Z-[0-9a-f]{6}-1", one)
        assert CLIP.fullmatch(f"{one}.mp4")
    assert CLIP.fullmatch("gate-e-20231114-221320-1.avi"), "as before"


def test_the_end_of_an_event_comes_after_a_kill(tmp_path: Path) -> None:
    state = tmp_path / "new" / "events.json"
    told, _ = run(EACH, [[at(0.2, track=1), at(0.3, track=2)]] * 3, str(state))
    assert len(json.loads(state.read_text())["events"]) == 2
    # Killed here: nobody closes it.
    after = Told()
    Events({"e": EACH}, [after], None, str(state)).close()
    assert [(d["id"], d["state"], d["seconds"]) for d in after.documents] == [(d["id"], "end", None) for d in told.of("new")]
    assert after.documents[0]["why"] == "the run that began it was killed"
    again = Told()
    Events({"e": EACH}, [again], None, str(state))
    assert again.documents == [], "once"


def test_a_full_disk_ends_no_run_for_the_state_and_is_said_once(tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    def full(*arguments: Any) -> None:
        raise EnvironmentMissing("cannot write: No space left on device")

    monkeypatch.setattr(events_module, "write_atomic", full)
    told, events = run(EACH, [[at(0.2, track=n // 3)] for n in range(12)], str(tmp_path / "events.json"))
    events.close()
    assert len(told.of("new")) == len(told.of("end")) == 4
    assert caplog.text.count("the events that go on cannot be written") == 1


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', "notes", '{"events": 5}', '{"events": [5]}'])
def test_another_file_is_no_state_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(UsageError, match="holds something other"):
        Events({"e": EACH}, [], None, str(tmp_path / "x"))
    assert (tmp_path / "x").read_text() == text


FILE = """
version: 2
sources: {gate: "synthetic://"}
models:
  objects: {artifact: a, track: "%s", decode: {kind: yolov8}}
  colours: {artifact: b, decode: classification, crops: {of: objects}}
events: {e: %s}
"""


@pytest.mark.parametrize(
    ("track", "event", "says"),
    [
        ("bytetrack", "{each: object, line: [[0, 0], [1, 1]], direction: left, stay_s: 2}", ""),
        ("bytetrack", "{each: object, models: [colours]}", ""),
        ("", "{each: object, models: [objects]}", "its model does not track"),
        ("", "{each: object, models: [colours]}", "models.colours.track: bytetrack"),
        ("bytetrack", "{each: track}", "events.e.each is 'track'"),
        ("bytetrack", "{each: object, direction: up}", "both, left, right"),
        ("bytetrack", "{each: object, direction: left}", "direction needs a line"),
        ("bytetrack", "{each: object, line: [[0, 0]]}", "two corners"),
        ("bytetrack", "{each: object, line: [[0, 0], [0, 0]]}", "no length"),
        ("bytetrack", "{line: [[0, 0], [1, 1]]}", "line is for events of single objects"),
        ("bytetrack", "{stay_s: 2}", "stay_s is for events of single objects"),
    ],
)
def test_settings_of_object_events_are_checked(tmp_path: Path, track: str, event: str, says: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE % (track, event))
    if not says:
        assert load_config(str(file)).events["e"].each == "object"
        return
    with pytest.raises(DocumentError) as e:
        load_config(str(file))
    assert says in str(e.value)
