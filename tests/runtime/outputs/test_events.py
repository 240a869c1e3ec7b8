"""Events: when they begin and end, in which zone, their documents, and invalid settings."""

from __future__ import annotations

import dataclasses
import json
import threading

import numpy as np
import pytest

from edgedla.errors import DocumentError
from edgedla.runtime.decode.dense import ClassScore
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.event_rule import EventRule, inside
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.sinks import JsonLines
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.cascade import CropResult
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.sources import open_source
from tests.runtime.field.field_pipelines import counter, engine, lane, pipeline
from tests.runtime.waiting import until

PERSON = Detection((40.0, 20.0, 60.0, 80.0), 0.9, 0, "person")
IMAGE = np.zeros((100, 200, 3), np.uint8)


def result(index, *objects, source="gate", model="objects", seconds_a_frame=0.1):
    frame = Frame(index, IMAGE, index * seconds_a_frame, None, 1_700_000_000 + index * seconds_a_frame)
    return FrameResult(frame, objects, "DLA0", True, 1.0, 2.0, source, model)


class Told:
    def __init__(self):
        self.documents = []

    def write_event(self, document):
        self.documents.append(document)

    @property
    def states(self):
        return [(d["event"], d.get("source"), d["state"]) for d in self.documents]


def run(rules, results):
    told = Told()
    events = Events(rules, [told])
    for r in results:
        events.write(r)
    return told, events


@pytest.mark.parametrize(("frames", "seen", "begins"), [(3, 2, 0), (3, 3, 1), (1, 1, 1), (3, 9, 1)])
def test_an_event_begins_after_its_number_of_consecutive_frames(frames, seen, begins):
    told, _ = run({"e": EventRule(frames=frames)}, [result(i, PERSON) for i in range(seen)])
    assert told.states == [("e", "gate", "begin")] * begins


def test_a_gap_restarts_the_count_and_a_short_gap_ends_no_event():
    seen = [1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0]
    told, _ = run({"e": EventRule(frames=3, end_s=0.3)}, [result(i, *[PERSON] * n) for i, n in enumerate(seen)])
    assert told.states == [("e", "gate", "begin")]
    assert told.documents[0]["frame"] == 8


def test_the_end_of_an_event_has_duration_count_and_best_score():
    better = dataclasses.replace(PERSON, score=0.97)
    results = [result(0, PERSON), result(1, better), result(2), result(3, PERSON), *(result(i) for i in range(4, 10))]
    told, events = run({"e": EventRule(frames=2, end_s=0.5)}, results)
    begin, end = told.documents
    assert (begin["state"], end["state"]) == ("begin", "end")
    assert begin["id"] == end["id"]
    assert begin["objects"] == [better.to_dict()]
    assert (end["seconds"], end["frames"], end["best"]["score"]) == (0.2, 3, 0.97)
    assert events.to_dict() == {"output": "events", "began": 1, "going_on": 0}


def test_the_best_object_of_an_interrupted_row_is_not_of_the_next_event():
    better = dataclasses.replace(PERSON, score=0.97)
    results = [result(0, better), result(1), result(2, PERSON), result(3, PERSON), *(result(i) for i in range(4, 10))]
    told, _ = run({"e": EventRule(frames=2, end_s=0.5)}, results)
    assert [d["state"] for d in told.documents] == ["begin", "end"]
    assert told.documents[1]["best"]["score"] == PERSON.score


@pytest.mark.parametrize(("end_s", "last", "ended"), [(0.5, 54, False), (0.5, 55, True), (8.0, 79, False), (8.0, 85, True)])
def test_the_event_of_a_source_without_frames_ends(end_s, last, ended):
    gate = [result(i, PERSON) for i in range(6)]
    yard = [result(i, source="yard") for i in range(6, last + 1)]
    told, _ = run({"e": EventRule(end_s=end_s)}, gate + yard)
    assert told.states == [("e", "gate", "begin")] + [("e", "gate", "end")] * ended
    if ended:
        assert told.documents[-1]["seconds"] == pytest.approx(0.5 - 0.1 * told.documents[0]["frame"])


def test_the_event_of_the_only_camera_ends_while_it_is_silent(monkeypatch):
    """Home Assistant would else show somebody for as long as the camera is broken."""
    monkeypatch.setattr("edgedla.runtime.outputs.events.SILENT_S", 0.5)
    told, silent, source = Told(), threading.Event(), open_source(counter(rate=50))
    read = source.read
    source.read = lambda *a, **k: read(*a, **k) if len(told.documents) < 1 else silent.wait(20) and None
    p = pipeline([Capture(lambda: source, name="gate")], [lane(engine(decode=lambda b, g: [[PERSON]] * len(g)), ["gate"])])
    p.add_sink(Events({"e": EventRule(frames=3, end_s=0.1)}, [told]))
    thread = threading.Thread(target=p.run, daemon=True)
    thread.start()
    try:
        assert until(lambda: len(told.documents) == 2, 10)
        assert told.states == [("e", "gate", "begin"), ("e", "gate", "end")]
    finally:
        silent.set()
        p.stop()
        thread.join(10)


def test_an_object_present_after_an_outage_is_a_new_event():
    told, events = run({"e": EventRule(frames=2, end_s=2.0)}, [result(i, PERSON) for i in [*range(1, 6), *range(36000, 36005)]])
    assert [d["state"] for d in told.documents] == ["begin", "end", "begin"]
    assert told.documents[1]["seconds"] == pytest.approx(0.3)
    assert told.documents[2]["frame"] == 36001


def test_a_slow_model_ends_no_event_between_its_frames():
    told = Told()
    events = Events({"e": EventRule(frames=1, models=("slow",))}, [told])
    for i in range(1, 400):
        events.write(result(i, model="objects"))
        if i % 100 == 1:
            events.write(result(i, PERSON, model="slow"))
    assert [d["state"] for d in told.documents][-1] == "begin"
    assert len(told.documents) <= 3, "once, before it is known how slow it is"


def test_closing_ends_present_events():
    told, events = run({"e": EventRule(frames=1)}, [result(0, PERSON)])
    events.close()
    assert [d["state"] for d in told.documents] == ["begin", "end"]


def test_events_of_different_sources_and_models_are_separate():
    rules = {"gate-only": EventRule(sources=("gate",), frames=2), "all": EventRule(models=("objects",), frames=2)}
    results = [result(i, PERSON, source=s, model=m) for i in range(2) for s in ("gate", "yard") for m in ("objects", "other")]
    told, _ = run(rules, results)
    begun = {(d["event"], d["source"], d["model"]) for d in told.documents}
    assert begun == {
        ("gate-only", "gate", "objects"),
        ("gate-only", "gate", "other"),
        ("all", "gate", "objects"),
        ("all", "yard", "objects"),
    }
    assert len({d["id"] for d in told.documents}) == 4


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        (EventRule(classes=("person",)), True),
        (EventRule(classes=("0",)), True),
        (EventRule(classes=("car", "1")), False),
        (EventRule(score=0.91), False),
        # The feet stand at (50, 80) of 200x100; the centre is at (50, 50).
        (EventRule(zone=((0.2, 0.7), (0.3, 0.7), (0.3, 0.9), (0.2, 0.9))), True),
        (EventRule(zone=((0.2, 0.4), (0.3, 0.4), (0.3, 0.6), (0.2, 0.6))), False),
        (EventRule(zone=((0.2, 0.4), (0.3, 0.4), (0.3, 0.6), (0.2, 0.6)), point="centre"), True),
    ],
)
def test_event_rules_filter_by_class_score_and_zone(rule, counts):
    assert bool(rule.objects(result(0, PERSON))) == counts


@pytest.mark.parametrize(
    ("box", "point"),
    [((40.0, 20.0, 60.0, 100.0), "bottom"), ((0.0, 20.0, 0.0, 100.0), "bottom"), ((200.0, 100.0, 200.0, 100.0), "centre")],
)
def test_an_object_at_the_frames_edge_is_in_a_zone_that_reaches_it(box, point):
    at_the_edge = result(0, dataclasses.replace(PERSON, box_xyxy=box))
    whole = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
    assert EventRule(zone=whole, point=point).objects(at_the_edge)
    assert not EventRule(zone=tuple((x, y * 0.9) for x, y in whole), point=point).objects(at_the_edge)


def test_an_event_of_a_class_uses_the_box_of_its_crop_or_frame():
    crop = CropResult(0, PERSON, (ClassScore(2, 0.8, "red"), ClassScore(1, 0.1, "blue")))
    [found] = EventRule(classes=("red",)).objects(result(0, crop))
    assert (found.box_xyxy, found.label, found.score) == (PERSON.box_xyxy, "red", 0.8)
    assert EventRule(classes=("blue",), score=0.05).objects(result(0, crop)) == [], "only the best class is what it is"
    [found] = EventRule().objects(result(0, ClassScore(3, 0.7, "fire")))
    assert found.box_xyxy == (0, 0, 200, 100)


def test_nv12_frames_have_two_thirds_of_their_rows():
    nv12 = dataclasses.replace(result(0, PERSON), frame=Frame(0, np.zeros((150, 200), np.uint8), 0.0, pixels="nv12"))
    assert EventRule(zone=((0, 0.7), (1, 0.7), (1, 0.9), (0, 0.9))).objects(nv12)


def winding(x, y, corners):
    """The other way to ask: the sum of the angles under which the edges are seen."""
    total = 0.0
    for (x1, y1), (x2, y2) in zip(corners, (*corners[1:], corners[0])):
        a, b = complex(x1 - x, y1 - y), complex(x2 - x, y2 - y)
        total += np.angle(b / a)
    return abs(total) > 1


def test_points_in_polygons_agree_with_a_second_method():
    rng = np.random.default_rng(3)
    for _ in range(30):
        angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 9)))
        corners = [(0.5 + r * np.cos(a) / 2, 0.5 + r * np.sin(a) / 2) for a, r in zip(angles, rng.uniform(0.2, 1, len(angles)))]
        for x, y in rng.uniform(0, 1, (40, 2)):
            assert inside((x, y), corners) == winding(x, y, corners)
    assert not inside((float("nan"), 0.5), [(0, 0), (1, 0), (1, 1)])


def test_events_are_written_to_the_json_lines(tmp_path):
    lines = JsonLines(str(tmp_path / "r.jsonl"))
    events = Events({"e": EventRule(frames=1)}, [lines])
    for i in range(2):
        events.write(result(i, PERSON))
        lines.write(result(i, PERSON))
    events.close()
    lines.close()
    found = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert [d.get("state", "result") for d in found] == ["begin", "result", "result", "end"]


FILE = """
version: 2
sources: {gate: "synthetic://", yard: "synthetic://"}
models:
  objects: {artifact: a, decode: {kind: yolov8, labels: [person, car]}}
  colours: {artifact: b, decode: classification, crops: {of: objects}}
  whole: {artifact: c, decode: classification}
  depth: {artifact: d, decode: depth}
events: {e: %s}
outputs: %s
"""


@pytest.mark.parametrize(
    ("event", "outputs", "says"),
    [
        ("{classes: [persn], models: [objects]}", "{}", "did you mean person?"),
        ("{sources: [gat]}", "{}", "events.e.sources names 'gat'"),
        ("{models: [nothing]}", "{}", "events.e.models names 'nothing'"),
        ("{score: 2}", "{}", "events.e.score is 2"),
        ("{frames: 0}", "{}", "events.e.frames is 0"),
        ("{point: top}", "{}", "bottom, centre"),
        ("{models: [depth]}", "{}", "no model that it watches gives classes"),
        ("{models: [whole], zone: [[0, 0], [1, 0], [1, 1]]}", "{}", "no position"),
        ("{zone: [[0, 0], [1, 0]]}", "{}", "three or more corners"),
        ("{zone: [[0, 0], [1, 0], [1, 2]]}", "{}", "has the corner [1, 2]"),
        ("{zone: [[0, 0], [1, 0], [1, .nan]]}", "{}", "has the corner"),
        ("{zone: [[0, 0], [1, 0], [1, true]]}", "{}", "has the corner"),
        ("{zone: everywhere}", "{}", "events.e.zone is 'everywhere'"),
        ("{zoen: []}", "{}", "did you mean zone?"),
        ("{end_s: -1}", "{}", "events.e.end_s is -1"),
        ("5", "{}", "events.e is 5"),
        ("{}", "{clips: {folder: c, rate: 0}}", "outputs.clips.rate is 0"),
        ("{}", "{clips: {folder: c, width: 3}}", "outputs.clips.width is 3"),
        ("{}", "{clips: {folder: c, before_s: 4000}}", "which is 300 s"),
        ("{}", "{clips: {folder: c, most_s: 0}}", "outputs.clips.most_s is 0"),
        ("{}", "{clips: {foldr: c}}", "did you mean folder?"),
        ("{}", "{mqtt: {url: 'mqtt://h', event_topic: 'a/#'}}", "the topic 'a/#'"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, event, outputs, says):
    file = tmp_path / "p.yaml"
    file.write_text(FILE % (event, outputs))
    with pytest.raises(DocumentError) as e:
        load_config(str(file))
    assert says in str(e.value)
    assert str(file) in str(e.value)


def test_event_and_clip_settings_are_read(tmp_path):
    file = tmp_path / "p.yaml"
    event = "{sources: gate, models: [objects, colours], classes: [person], zone: [[0, 0], [1, 0], [1, 1]], frames: 2}"
    file.write_text(FILE % (event, "{clips: {folder: c, rate: 5}}"))
    config = load_config(str(file))
    assert config.events["e"].zone == ((0, 0), (1, 0), (1, 1))
    assert config.events["e"].sources == ("gate",)
    assert config.outputs.clips.folder == str(tmp_path / "c")
    file.write_text(FILE.replace("events: {e: %s}", "").replace("%s", "{clips: {folder: c}}"))
    with pytest.raises(DocumentError, match="records events, and the file has none"):
        load_config(str(file))


@pytest.mark.parametrize("speed", [0.1, 1.0, 20.0])
def test_events_of_a_video_file_last_by_the_files_clock(speed):
    seen = [1] * 10 + [0] * 8 + [1] * 10 + [0] * 12
    results = []
    for i, n in enumerate(seen):
        made = result(i, *[PERSON] * n, seconds_a_frame=0.1 / speed)
        results.append(dataclasses.replace(made, frame=dataclasses.replace(made.frame, clock_s=i * 0.1)))
    told, _ = run({"e": EventRule(frames=1, end_s=0.5)}, results)
    assert [d["state"] for d in told.documents] == ["begin", "end", "begin", "end"]
    assert [d["seconds"] for d in told.documents if d["state"] == "end"] == [0.9, 0.9]
