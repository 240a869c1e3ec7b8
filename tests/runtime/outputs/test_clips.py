"""Clips: the seconds before, the event, the seconds after; a picture; bounded in number, length and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

from edgedla.errors import UsageError
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.films import mp4
from edgedla.runtime.outputs.films.clip_config import ClipConfig
from edgedla.runtime.outputs.films.clips import Clips
from edgedla.runtime.outputs.films.mp4 import encoder
from tests.runtime.waiting import until

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
PERSON = Detection((4.0, 2.0, 30.0, 40.0), 0.9, 0, "person")


def result(index, *objects, grey=0, source="gate"):
    frame = Frame(index, np.full((48, 64, 3), grey, np.uint8), time.monotonic(), None, time.time())
    return FrameResult(frame, objects, "DLA0", True, 1.0, 2.0, source, "objects")


class Told:
    def __init__(self):
        self.documents = []

    def write_event(self, document):
        self.documents.append(document)

    def of(self, state):
        return [d for d in self.documents if d["state"] == state]


def film(path):
    video, frames = cv2.VideoCapture(str(path)), []
    while True:
        good, image = video.read()
        if not good:
            return frames, video.get(cv2.CAP_PROP_FPS)
        frames.append(image)


def play(events, seconds, *objects, grey=0, start=0):
    end, i = time.monotonic() + seconds, start
    while time.monotonic() < end:
        events.write(result(i, *objects, grey=grey))
        i += 1
        time.sleep(0.02)
    return i


def test_a_clip_shows_the_seconds_before_and_after_and_its_picture_the_start(tmp_path):
    config = ClipConfig(str(tmp_path), format="avi", before_s=0.6, after_s=0.4, rate=10, width=0)
    told = Told()
    events = Events({"e": EventRule(frames=2, end_s=0.2)}, [told], Clips(config))
    i = play(events, 1.2, grey=40)
    i = play(events, 0.5, PERSON, grey=120, start=i)
    i = play(events, 1.0, grey=220, start=i)
    assert until(lambda: events.write(result(i, grey=220)) or told.of("clip"))
    events.close()
    [clip] = told.of("clip")
    assert clip["id"] == told.of("begin")[0]["id"]
    frames, rate = film(clip["clip"])
    # The lower right corner is free of captions and boxes.
    greys = [int(f[40:, 50:].mean() / 20) * 20 for f in frames]
    assert rate == 10
    assert 9 <= len(frames) <= 25
    order = [greys[0], *(b for a, b in zip(greys, greys[1:]) if a != b)]
    assert order == sorted(order)
    assert min(abs(g - 40) for g in greys) <= 20
    assert min(abs(g - 120) for g in greys) <= 20
    assert min(abs(g - 220) for g in greys) <= 20
    assert clip["seconds"] == pytest.approx(len(frames) / 10, abs=0.01)
    picture = cv2.imread(clip["picture"])
    assert abs(int(picture[40:, 50:].mean()) - 120) < 10
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [clip["clip"].rpartition("/")[2], clip["picture"].rpartition("/")[2]]
    ), "nothing half is left"


def test_a_long_event_is_cut_at_most_s_and_the_oldest_clips_are_removed(tmp_path):
    other = tmp_path / "mine.avi"
    other.write_bytes(b"x")
    config = ClipConfig(str(tmp_path), format="avi", before_s=0, after_s=0, most_s=0.3, rate=20, width=32, keep=2)
    told = Told()
    events = Events({"e": EventRule(frames=1, end_s=0.01)}, [told], Clips(config))
    for n in range(3):
        i = play(events, 0.6, PERSON, start=100 * n)
        play(events, 0.1, start=i)
        assert until(lambda n=n: events.write(result(0)) or len(told.of("clip")) == n + 1)
    events.close()
    films = [d["clip"] for d in told.of("clip")]
    assert all(d["seconds"] < 0.6 for d in told.of("clip"))
    assert sorted(str(p) for p in tmp_path.glob("*-e-*.avi")) == sorted(films[1:])
    assert len(list(tmp_path.glob("*.jpg"))) == 2
    assert other.exists(), "what is not ours stays"


def test_a_new_clip_is_kept_if_the_clock_is_behind_older_clips(tmp_path):
    old = [tmp_path / f"gate-e-20300101-00000{n}-1.avi" for n in range(2)]
    for path in old:
        path.write_bytes(b"x")
        os.utime(path, (2e9, 2e9))
    told = Told()
    events = Events({"e": EventRule(frames=1)}, [told], Clips(ClipConfig(str(tmp_path), format="avi", width=32, keep=2)))
    events.write(result(0, PERSON))
    events.close()
    assert sorted(tmp_path.glob("*.avi")) == sorted([old[1], type(old[0])(told.of("clip")[0]["clip"])])


def test_closing_during_a_clip_keeps_its_pictures_so_far(tmp_path):
    told = Told()
    events = Events({"e": EventRule(frames=1)}, [told], Clips(ClipConfig(str(tmp_path), format="avi", width=32)))
    events.write(result(0, PERSON))
    events.close()
    assert [d["state"] for d in told.documents] == ["begin", "end", "clip"]
    assert len(film(told.of("clip")[0]["clip"])[0]) >= 1
    assert not [t for t in threading.enumerate() if t.name.startswith("edgedla-clips")]


#: Films an event without end until it is killed. OpenCV writes a file once it holds enough: noise fills it soonest.
FILMING = """
import sys, time
from dataclasses import replace
import numpy as np
from edgedla.runtime.outputs.films.clip_config import ClipConfig
from edgedla.runtime.outputs.films.clips import Clips
from edgedla.runtime.outputs.event_rule import EventRule
from edgedla.runtime.outputs.events import Events
from tests.runtime.outputs.test_clips import PERSON, Told, result
events = Events({"e": EventRule(frames=1)}, [Told()], Clips(ClipConfig(sys.argv[1], rate=20, before_s=0)))
print(flush=True)
noise = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
for i in range(3000):
    filmed = result(i, PERSON)
    events.write(replace(filmed, frame=replace(filmed.frame, image=noise)))
    time.sleep(0.02)
"""


def test_a_clip_cut_by_a_power_failure_is_kept_and_counted(tmp_path):
    """They stayed under hidden names for ever, whatever `keep` said."""
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", FILMING, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout.readline()
        # What OpenCV holds back is lost: so it has to write for a while.
        assert until(lambda: any(p.stat().st_size for p in tmp_path.glob(".*.avi")), 30)
        held = next(tmp_path.glob(".*.avi"))
        Clips(ClipConfig(str(tmp_path), format="avi")).close()
        assert held.exists(), "another process films still"
        process.kill()
        process.wait()
    empty = tmp_path / f".e-20300101-000000-1.{'0' * 16}.avi"
    empty.touch()
    other = tmp_path / ".mine.avi"
    other.write_bytes(b"x")
    told = Told()
    events = Events({"e": EventRule(frames=1)}, [told], Clips(ClipConfig(str(tmp_path), format="avi", width=32, keep=2)))
    left = [p for p in tmp_path.glob("*.avi") if not p.name.startswith(".")]
    assert len(left) == 2
    assert all(film(p)[0] for p in left)
    assert sorted(tmp_path.glob(".*")) == [other]
    events.write(result(0, PERSON))
    events.close()
    assert len([p for p in tmp_path.glob("*.avi") if p != other]) == 2


def test_disk_errors_are_reported_and_do_not_end_the_pipeline(tmp_path, monkeypatch, caplog):
    told = Told()
    events = Events({"e": EventRule(frames=1)}, [told], Clips(ClipConfig(str(tmp_path), format="avi", width=32)))

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("edgedla.runtime.outputs.films.clips.os.replace", refuse)
    events.write(result(0, PERSON))
    events.close()
    [clip] = told.of("clip")
    assert clip["clip"] is None
    assert "No space left" in clip["why"]
    assert "fails" in caplog.text


def test_a_disk_that_is_almost_full_ends_the_clip_and_not_the_run(tmp_path, monkeypatch, caplog):
    """OpenCV says nothing: the film would be told as whole."""
    free = [1 << 40]
    usage = types.SimpleNamespace
    monkeypatch.setattr("edgedla.runtime.outputs.sinks.shutil.disk_usage", lambda _: usage(free=free[0]))
    told = Told()
    events = Events({"e": EventRule(frames=1, end_s=0.5)}, [told], Clips(ClipConfig(str(tmp_path), format="avi", width=0)))
    for i in range(200):
        free[0] = 1 << 40 if i < 100 else 5 << 20
        events.write(of_film(i, PERSON))
    events.close()
    [clip] = told.of("clip")
    assert (clip["clip"], clip["why"]) == (None, "the disk is almost full (5 MiB left)")
    assert not list(tmp_path.glob("*.avi"))
    assert len(caplog.records) == 1


def test_the_clip_thread_of_a_removed_source_ends_and_restarts_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("edgedla.runtime.outputs.films.clips.SILENT_S", 0.3)
    events = Events({}, [], Clips(ClipConfig(str(tmp_path), format="avi")))

    def threads():
        return {t.name for t in threading.enumerate() if t.name.startswith("edgedla-clips-")}

    for i, source in enumerate(("gate", "yard")):
        events.write(result(i, source=source))
    assert threads() == {"edgedla-clips-gate", "edgedla-clips-yard"}
    assert until(lambda: events.write(result(2, source="yard")) or threads() == {"edgedla-clips-yard"})
    events.write(result(3, source="gate"))
    assert threads() == {"edgedla-clips-gate", "edgedla-clips-yard"}
    events.close()
    assert not threads()


def test_clip_memory_holds_before_s_and_no_more(tmp_path):
    clips = Clips(ClipConfig(str(tmp_path), format="avi", before_s=0.3, rate=50, width=0))
    for i in range(60):
        clips.put(result(i))
        time.sleep(0.01)
    held = clips._films["gate"]._before
    assert held[-1][0] - held[0][0] <= 0.3
    assert len(held) <= 17
    clips.close()


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match="file") as e:
        Clips(ClipConfig(str(tmp_path / "file" / "clips")))
    assert not isinstance(e.value, OSError)
    with pytest.raises(UsageError):
        Clips(ClipConfig(str(tmp_path), format="avi", rate=0))


@pytest.mark.parametrize("before_s", [0, 5])
def test_a_clip_without_a_picture_behind_its_event_shows_the_event(tmp_path, before_s):
    """The event's own picture was drawn before the clip began: there was none, "is the disk full?"."""
    told = Told()
    config = ClipConfig(str(tmp_path), format="avi", before_s=before_s, width=32)
    events = Events({"e": EventRule(frames=1)}, [told], Clips(config))
    events.write(of_film(7, PERSON))
    events.close()
    [clip] = told.of("clip")
    frames, _ = film(clip["clip"])
    assert [f.shape[1] for f in frames] == [32]
    assert cv2.imread(clip["picture"]).shape[1] == 64


def test_a_video_that_opencv_does_not_write_is_no_full_disk(tmp_path, monkeypatch):
    told = Told()
    silent = types.SimpleNamespace(isOpened=lambda: True, write=lambda image: None, release=lambda: None)
    monkeypatch.setattr(cv2, "VideoWriter", lambda *_: silent)
    monkeypatch.setattr(cv2, "VideoWriter_fourcc", lambda *_: 0)
    events = Events({"e": EventRule(frames=1)}, [told], Clips(ClipConfig(str(tmp_path), format="avi")))
    events.write(of_film(7, PERSON))
    events.close()
    assert told.of("clip")[0]["why"] == "OpenCV wrote nothing, and does not say why"


def of_film(index, *objects):
    """A frame of 25 per second, read much faster."""
    frame = Frame(index, np.full((48, 64, 3), min(255, index), np.uint8), time.monotonic(), None, time.time(), index / 25)
    return FrameResult(frame, objects, "DLA0", True, 1.0, 2.0, "gate", "objects")


def test_a_clip_of_a_video_file_uses_the_files_clock(tmp_path):
    told = Told()
    config = ClipConfig(str(tmp_path), format="avi", before_s=1, after_s=1, most_s=60, rate=10, width=0)
    events = Events({"e": EventRule(frames=1, end_s=0.5)}, [told], Clips(config))
    # There from 4 to 6 s; gone for good half a second later, and a second of what follows.
    for i in range(250):
        events.write(of_film(i, *([PERSON] if 100 <= i < 150 else [])))
    events.close()
    [clip] = told.of("clip")
    assert told.of("end")[0]["seconds"] == pytest.approx(2.0, abs=0.05)
    assert clip["seconds"] == pytest.approx(1 + 2 + 0.5 + 1, abs=0.25)
    frames, rate = film(clip["clip"])
    assert (rate, len(frames)) == (10, round(clip["seconds"] * 10))
    greys = [float(f[40:, 50:].mean()) for f in frames]
    assert greys[0] == pytest.approx(75, abs=5)
    # A picture for each tenth of a second, none of them twice.
    assert all(0.8 < b - a < 4.6 for a, b in zip(greys, greys[1:])), greys


def test_an_event_at_the_end_of_a_video_file_gets_a_clip(tmp_path):
    told = Told()
    config = ClipConfig(str(tmp_path), format="avi", before_s=0, width=0)
    events = Events({"e": EventRule(frames=1)}, [told], Clips(config))
    for i in range(40):
        events.write(of_film(i, *([PERSON] if i == 39 else [])))
    events.close()
    assert len(film(told.of("clip")[0]["clip"])[0]) == 1


def test_a_camera_that_replaces_a_video_file_is_recorded_in_real_time(tmp_path):
    clips = Clips(ClipConfig(str(tmp_path), format="avi", before_s=1, width=0))
    for i in range(30):
        clips.put(of_film(i))
    first = clips._films["gate"]
    frame = Frame(30, np.zeros((48, 64, 3), np.uint8), 5.0, None, time.time(), 5.0)
    clips.put(FrameResult(frame, (), "DLA0", True, 1.0, 2.0, "gate", "objects"))
    assert (first.by_clock, clips._films["gate"].by_clock) == (True, False)
    clips.close()


FILE = """
version: 2
sources: {gate: "synthetic://?rate=30&frames=90&width=160&height=120"}
models:
  objects: {artifact: %s, decode: {kind: yolov8, reg_max: 8, labels: [a, b, c], score: 0.01}}
events:
  something: {score: 0, frames: 3}
outputs:
  jsonl: out.jsonl
  clips: {folder: clips, before_s: 1, after_s: 0, width: 0}
"""


@pytest.mark.long
def test_the_command_records_clips_and_reports_them(artifact, tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text(FILE % artifact)
    done = subprocess.run([sys.executable, "-m", "edgedla", "run", str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    events = [line for line in lines if "event" in line]
    assert [e["state"] for e in events] == ["begin", "end", "clip"]
    assert all(e["event"] == "something" and e["source"] == "gate" for e in events)
    frames, _ = film(events[-1]["clip"])
    assert len(frames) > 5
    assert cv2.imread(events[-1]["picture"]).shape == (120, 160, 3)


def test_a_clip_that_waits_to_be_encoded_is_newer_than_the_one_before(tmp_path, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow(path, limit_s):
        begun.set()
        assert go.wait(20)
        made = path.with_suffix(".mp4")
        path.rename(made)
        return made

    monkeypatch.setattr("edgedla.runtime.outputs.films.clips.to_mp4", slow)
    told = Told()
    clips = Clips(ClipConfig(str(tmp_path), after_s=0, rate=20, keep=1))
    events = Events({"e": EventRule(frames=1, end_s=0.1)}, [told], clips)
    for _ in range(2):
        i = play(events, 0.5, PERSON, grey=90)
        play(events, 0.4, start=i)
    assert begun.wait(20)
    assert until(lambda: len(list(tmp_path.glob("[!.]*.avi"))) == 2)
    go.set()
    assert until(lambda: events.write(result(0)) or len(told.of("clip")) == 2)
    events.close()
    assert [Path(t["clip"]).suffix for t in told.of("clip")] == [".mp4", ".mp4"]
    assert [str(p) for p in tmp_path.glob("*.mp4")] == [told.of("clip")[1]["clip"]]


def test_a_clip_is_mp4_with_h264_that_browsers_play(tmp_path):
    if encoder() is None:
        pytest.skip("GStreamer has no H.264 encoder here")
    folder = tmp_path / 'a "folder"'
    told = Told()
    events = Events({"e": EventRule(frames=1, end_s=0.1)}, [told], Clips(ClipConfig(str(folder), after_s=0, rate=20, keep=1)))
    for _ in range(2):
        i = play(events, 0.5, PERSON, grey=90)
        play(events, 0.4, start=i)
    assert until(lambda: events.write(result(0)) or len(told.of("clip")) == 2)
    events.close()
    clip = told.of("clip")[1]
    assert clip["clip"].endswith(".mp4")
    frames, rate = film(clip["clip"])
    assert rate == 20
    assert abs(len(frames) / 20 - clip["seconds"]) < 0.11
    data = Path(clip["clip"]).read_bytes()
    assert b"avc1" in data
    assert data.index(b"moov") < data.index(b"mdat"), "it plays while it is loaded"
    assert [p.suffix for p in folder.iterdir() if p.suffix != ".jpg"] == [".mp4"], "no .avi, and of two clips the newest"


@pytest.mark.skipif(encoder() is None, reason="GStreamer has no H.264 encoder here")
@pytest.mark.parametrize(("width", "height"), [(64, 47), (63, 48), (63, 47)])
def test_a_clip_of_an_odd_size_is_mp4_of_an_even_one(tmp_path, width, height):
    path = tmp_path / "gate-e-20300101-000000Z-abcdef-1.avi"
    # OpenCV's own writer, which a Jetson has, keeps the size; FFmpeg's makes it even.
    writer = cv2.VideoWriter(str(path), cv2.CAP_OPENCV_MJPEG, cv2.VideoWriter_fourcc(*"MJPG"), 10, (width, height))
    for i in range(10):
        writer.write(np.full((height, width, 3), 20 * i, np.uint8))
    writer.release()
    made = mp4.to_mp4(path)
    assert made.suffix == ".mp4"
    assert [p.name for p in tmp_path.iterdir()] == [made.name]
    frames, _ = film(made)
    assert len(frames) == 10
    assert all(n % 2 == 0 and abs(n - given) <= 1 for n, given in zip(frames[0].shape, (height, width)))


def test_a_clip_that_cannot_be_encoded_stays_an_avi(tmp_path, monkeypatch, caplog):
    path = tmp_path / "gate-e-20300101-000000Z-abcdef-1.avi"
    path.write_bytes(b"no film")
    monkeypatch.setattr(mp4, "encoder", lambda: "x264enc")
    assert mp4.to_mp4(path, 5.0) == path
    assert "stays as it is" in caplog.text
    monkeypatch.setattr(mp4, "encoder", lambda: None)
    assert mp4.to_mp4(path) == path
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
