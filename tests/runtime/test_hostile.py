"""Bad days of boards, cameras, drivers and networks: hangs, odd exceptions, odd sizes, odd numbers, odd files."""

from __future__ import annotations

import gc
import json
import shutil
import threading
import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from edgedla.errors import DocumentError, RunError, UsageError
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.decode import BoxSettings, decode_anchors, decode_dfl, decode_ssd, top_k
from edgedla.runtime.decode.detections import Detection, NmsOptions, finish
from edgedla.runtime.decode.yolo import any_above
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs import sinks as sinks_module
from edgedla.runtime.outputs.draw import draw
from edgedla.runtime.outputs.sinks import AnnotatedImages, AnnotatedVideo, Callback, JsonLines
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.config import load_config, with_overrides
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.reading import read_labels
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.reader import MOST_STUCK, CaptureOptions
from tests.runtime.fake_runner import FakeRunner
from tests.runtime.one_model import single
from tests.runtime.taking import Taken
from tests.runtime.waiting import until

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
GEOMETRY = Geometry.fit((48, 64), (48, 64))


def echo(inputs):
    return {"y": inputs["x"]}


def pipeline(source, runners, sinks=(), limits=None, **pool):
    capture = Capture(lambda: open_source(source))
    return single(capture, lambda im: ({"x": im}, GEOMETRY), Pool(runners, **pool), lambda b, g: [], sinks, limits)


class Hanging(FakeRunner):
    """Hangs from its third inference on, until `release` is set."""

    close_timeout_s = 0.2

    def __init__(self, release, **kw):
        super().__init__((), 1.0, echo, **kw)
        self.release, self.count = release, 0

    def _infer(self, inputs):
        self.count += 1
        if self.count > 2:
            self.release.wait(120)
        return super()._infer(inputs)


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()


SLOW = "synthetic://?pattern=counter&width=64&height=48&rate=100"


def test_a_hung_runner_delays_a_stop_by_the_grace_time_only(release):
    seen = []
    p = pipeline(SLOW, [Hanging(release)], [Callback(lambda r: seen.append(r.frame.index))], Limits(grace_s=0.5))
    threading.Timer(0.5, p.stop).start()
    started = time.monotonic()
    with pytest.raises(RunError, match="still running when the end was forced"):
        p.run()
    assert time.monotonic() - started < 30
    assert len(seen) == 2
    p.lanes[0].close()


def test_a_second_signal_does_not_wait_for_a_hung_runner(release):
    p = pipeline(SLOW, [Hanging(release)], limits=Limits(grace_s=60))
    threading.Timer(0.3, p.stop).start()
    threading.Timer(0.6, p.force_stop).start()
    started = time.monotonic()
    with pytest.raises(RunError):
        p.run()
    assert time.monotonic() - started < 30


def test_a_hung_output_is_reported_with_the_frames_that_it_cost(release):
    p = pipeline(SLOW, [FakeRunner((), 1.0, echo)], [Callback(lambda r: release.wait(120))], Limits(grace_s=0.3))
    threading.Timer(0.3, p.stop).start()
    with pytest.raises(RunError, match="edgedla-finish did not end; [12] submitted frames have no result"):
        p.run()


def test_closing_a_pool_waits_once_for_all_hung_runners(release):
    pool = Pool([Hanging(release, name=f"r{i}") for i in range(5)])
    for _ in range(3):
        for m in pool._members:
            m.runner.submit({"x": np.zeros(1)})
    time.sleep(0.1)
    started = time.monotonic()
    pool.close()
    pool.close()
    assert time.monotonic() - started < 20


class Unprintable(Exception):
    def __repr__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), TimeoutError("late"), Unprintable()]
)
def test_any_exception_of_a_runner_becomes_a_run_error(error):
    def broken(inputs):
        raise error

    p = pipeline("synthetic://?width=64&height=48&frames=9", [FakeRunner((), 1.0, broken)])
    with pytest.raises(RunError, match=f"the inference failed: {type(error).__name__}"):
        p.run()


def test_a_runner_that_refuses_work_is_removed_from_the_pool(caplog):
    class Refusing(FakeRunner):
        def submit(self, inputs):
            raise OSError("the device node is gone")

    seen = []
    p = pipeline(
        "synthetic://?width=64&height=48&frames=9",
        [Refusing((), 1.0, echo, name="DLA0"), FakeRunner((), 1.0, echo, name="DLA1")],
        [Callback(lambda r: seen.append(r.frame.index))],
    )
    p.run()
    assert seen == list(range(9))
    assert "the device node is gone" in caplog.text


def test_a_slow_output_keeps_memory_flat_and_frames_fresh():
    ages = []

    def slow(result):
        ages.append(result.age_ms)
        time.sleep(0.1)

    summary = pipeline(SLOW, [FakeRunner((), 1.0, echo)], [Callback(slow)], Limits(seconds=1.5)).run()
    # Capture slot, prepared frame, inference and output: four frames are under way, whatever the source's rate.
    assert max(ages[2:]) < 500
    assert summary["frames"]["dropped"] > 50


def test_two_pipelines_in_one_process_do_not_disturb_each_other():
    seen = {0: [], 1: []}
    pipes = [
        pipeline(
            f"synthetic://?pattern=counter&width=64&height=48&frames={50 + k}",
            [FakeRunner((), 2.0, echo)],
            [Callback(lambda r, k=k: seen[k].append(r.frame.index))],
        )
        for k in (0, 1)
    ]
    threads = [threading.Thread(target=p.run) for p in pipes]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert seen == {0: list(range(50)), 1: list(range(51))}


class Camera:
    """A source of test code: `read` is called as read(camera)."""

    def __init__(self, read, hw=(48, 64), open_=None):
        self.uri, self.live, self.pixels, self.rate = "camera", True, "bgr", 0.0
        self._read, self._hw, self._open = read, hw, open_
        self.closed = False

    def open(self):
        if self._open:
            self._open()
        return self._hw

    def read(self):
        return self._read(self)

    def close(self):
        self.closed = True


def image(h=48, w=64):
    return np.zeros((h, w, 3), np.uint8)


def test_a_driver_that_never_returns_ends_the_run_before_threads_pile_up(release):
    opened = []

    def read(camera):
        if len(opened) == 1 and not hasattr(camera, "done"):
            camera.done = True
            return image()
        release.wait(120)
        return None

    def factory():
        opened.append(1)
        return Camera(read)

    capture = Taken(factory, CaptureOptions(stall_s=0.1))
    before = threading.active_count()
    capture.start()
    assert capture.take(1.0) is not None

    def failed():
        try:
            capture.take(0.01)
        except RunError as e:
            return "reads from the source never returned" in e.what
        return False

    assert until(failed)
    assert threading.active_count() - before <= MOST_STUCK + 1
    assert capture.reader.stalls == MOST_STUCK


def test_a_camera_that_hangs_once_is_opened_again_and_its_late_frame_is_ignored(release):
    cameras = []

    def read(camera):
        if camera is cameras[0]:
            if not hasattr(camera, "done"):
                camera.done = True
                return image()
            release.wait(120)
            return np.full((48, 64, 3), 9, np.uint8)
        time.sleep(0.02)
        return image()

    def factory():
        cameras.append(Camera(read))
        return cameras[-1]

    capture = Taken(factory, CaptureOptions(stall_s=0.2))
    capture.start()
    assert until(lambda: capture.captured > 5)
    release.set()
    assert until(lambda: cameras[0].closed)
    frames = [capture.take(0.5) for _ in range(5)]
    assert all(f.image.max() == 0 for f in frames)
    capture.stop(2.0)
    assert cameras[1].closed


def test_a_slow_opening_of_a_source_is_not_a_stall():
    capture = Taken(
        lambda: Camera(lambda c: time.sleep(0.01) or image(), open_=lambda: time.sleep(0.8)), CaptureOptions(stall_s=0.1)
    )
    capture.start()
    assert capture.reader.stalls == 0
    capture.stop(2.0)


def test_a_hung_close_of_a_source_does_not_block_the_stop(release):
    class Sticky(Camera):
        def close(self):
            release.wait(120)

    capture = Taken(lambda: Sticky(lambda c: time.sleep(0.01) or image()))
    capture.start()
    started = time.monotonic()
    capture.stop(0.3)
    assert time.monotonic() - started < 60


def test_a_hung_source_that_can_be_interrupted_is_closed_at_the_stop(release):
    class Pipe(Camera):
        def interrupt(self):
            release.set()

    cameras = []

    def factory():
        cameras.append(Pipe(lambda c: release.wait(120) and None))
        return cameras[-1]

    capture = Taken(factory)
    capture.start()
    capture.stop(1.0)
    assert cameras[0].closed


@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
def test_a_gstreamer_pipeline_without_data_does_not_outlive_the_capture():
    uri = parse_source("gst://videotestsrc is-live=true ! video/x-raw,framerate=1/1000")
    capture = Taken(lambda: GstLaunchSource(uri))
    capture.start()
    process = capture.reader._source._process
    assert process.poll() is None
    capture.stop(2.0)
    assert until(lambda: process.poll() is not None)


def test_a_camera_that_breaks_after_each_first_frame_is_opened_ever_less_often(caplog):
    def read(camera):
        if hasattr(camera, "done"):
            raise RunError("cable")
        camera.done = True
        return image()

    capture = Taken(lambda: Camera(read), CaptureOptions(backoff_first_s=0.02, backoff_most_s=0.64))
    capture.start()
    time.sleep(1.5)
    capture.stop(1.0)
    assert 5 <= capture.reader.reconnects <= 7


@pytest.mark.parametrize(
    "bad", ["text", np.zeros((48, 64), np.uint8), np.zeros((48, 64, 4), np.uint8), np.zeros((48, 64, 3)), image(0, 64)]
)
def test_an_invalid_frame_is_refused_and_described(bad):
    capture = Taken(lambda: Camera(lambda c: bad), CaptureOptions(reconnect=False))

    def take():
        capture.start()
        for _ in range(20):
            capture.take(0.1)

    with pytest.raises(RunError, match="the source gave"):
        take()


def test_a_source_that_returns_with_another_size_continues(caplog):
    sizes = [(48, 64), (30, 40)]

    def factory():
        hw = sizes.pop(0)
        count = []

        def read(camera):
            count.append(1)
            if len(count) > 3 and sizes:
                raise RunError("cable")
            time.sleep(0.01)
            return image(*hw)

        return Camera(read, hw)

    capture = Taken(factory, CaptureOptions(backoff_first_s=0.01))
    capture.start()
    shapes = set()
    assert until(lambda: shapes.add(getattr(getattr(capture.take(0.2), "image", None), "shape", 0)) or len(shapes) > 1)
    assert (30, 40, 3) in shapes
    capture.stop(1.0)


def test_a_jumping_wall_clock_does_not_affect_the_pipeline(monkeypatch):
    clock = iter(range(10**9, 0, -86400))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    summary = pipeline("synthetic://?width=64&height=48&frames=30", [FakeRunner((), 1.0, echo)]).run()
    assert summary["frames"]["results"] == 30
    assert 0 < summary["stages"]["age"]["max_ms"] < 5000


def left_behind(frames):
    """Bytes that a pipeline still holds after so many frames. At its end nothing is on its way, however busy this machine is."""
    gc.collect()
    tracemalloc.start()
    p = pipeline(
        f"synthetic://?pattern=counter&width=8&height=8&frames={frames}", [FakeRunner((), 0.0, echo, name=n) for n in "ab"]
    )
    seen = []
    p._sinks = [Callback(lambda result: seen.append(result.frame.index) if result.frame.index == frames - 1 else None)]
    p.run()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert seen == [frames - 1]
    return held


def test_memory_does_not_grow_with_the_number_of_frames():
    # The long way is run by hand (tens of minutes); what grows with every frame shows in thousands too.
    left_behind(100)
    few, many = left_behind(2000), left_behind(6000)
    # Windows that hold the last thousands of times grow until they are full.
    assert many - few < 80_000, f"more than 20 bytes per frame: {few} after 2,000, {many} after 6,000"


@pytest.mark.parametrize("hw", [(1, 1), (1, 4000), (4000, 1), (3, 5)])
@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
def test_preprocessing_accepts_frames_of_any_size(hw, fit):
    spec = Preprocess(hw, (3, 32, 48), fit=fit)
    assert CpuPreprocessor(spec)(np.full((*hw, 3), 200, np.uint8)).nbytes == spec.layout.size_bytes


BAD = [np.nan, np.inf, -np.inf, 1e30, -1e30]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", BAD)
def test_decoders_survive_nan_and_infinite_outputs(value):
    options = NmsOptions(score=0.25)
    v8 = np.full((1, 4 * 16 + 3, 4, 4), value, np.float32)
    v5 = np.full((1, 3 * 8, 4, 4), value, np.float32)
    loc, conf = np.full((1, 10, 4), value, np.float32), np.full((1, 10, 3), value, np.float32)
    priors = np.full((10, 4), 0.5, np.float32)
    geometry = Geometry.fit((90, 100), (32, 32))
    for found in (
        decode_dfl([v8], BoxSettings((32, 32), options, geometry)),
        decode_anchors([v5], BoxSettings((32, 32), options, geometry)),
        decode_ssd(loc, conf, priors, BoxSettings((32, 32), options, geometry)),
    ):
        for d in found:
            assert all(np.isfinite(d.box_xyxy))
            assert np.isfinite(d.score)
            assert 0 <= d.box_xyxy[0] < d.box_xyxy[2] <= 100
    scores = top_k(np.array([0.0, value, 1.0], np.float32), 3)
    assert all(np.isfinite(s.score) for s in scores)
    assert (scores[0].cls == 1) == (value > 1)


@pytest.mark.parametrize("threshold", [-8.0, -1.0986, -1e-4, 0.0, 1e-4, 0.3, 5.5])
def test_the_fp16_threshold_comparison_misses_no_candidate(threshold):
    rng = np.random.default_rng(0)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    logits = np.stack([rng.permutation(every), rng.permutation(every)]).reshape(2, -1, 16)
    got, want = any_above(logits, threshold), (logits.astype(np.float64) >= threshold).any(axis=0)
    assert (got >= want).all()
    # What it lets through in excess is the one step below the threshold.
    assert (got & ~want).sum() <= 6


def test_a_huge_box_does_not_affect_other_detections():
    boxes = np.array([[0, 0, 1e30, 1e30], [10, 10, 20, 20], [10, 10, 20, 21], [40, 40, 50, 50]], np.float64)
    found = finish(boxes, np.array([0.9, 0.8, 0.7, 0.6]), np.array([0, 1, 1, 1]), BoxSettings((32, 32)))
    assert [d.score for d in found] == [0.9, 0.8, 0.6]


def test_boxes_without_area_or_outside_the_frame_are_dropped():
    boxes = np.array([[5, 5, 5, 9], [9, 9, 5, 12], [-30, -30, -2, -2], [1, 1, 4, 4]], np.float64)
    geometry = Geometry.fit((32, 32), (32, 32))
    found = finish(boxes, np.array([0.9, 0.8, 0.7, 0.6]), np.zeros(4, int), BoxSettings((32, 32), geometry=geometry))
    assert [d.box_xyxy for d in found] == [(1.0, 1.0, 4.0, 4.0)]


@pytest.mark.parametrize("shape", [(1, 24, 0, 0), (0, 24, 4, 4), (24, 4, 4), (1, 25, 4, 4), (1, 9, 4, 4), (1, 24, 5, 4)])
def test_outputs_of_another_shape_are_refused_by_name(shape):
    with pytest.raises(RunError, match="head|an output of shape|values per candidate"):
        decode_anchors([np.zeros(shape, np.float32)], BoxSettings((32, 32)))


def result_of(frame_image, results=()):
    return FrameResult(Frame(0, frame_image, 0.0), tuple(results), "fake", True, 1.0, 1.0)


@pytest.mark.parametrize("box", [(-1e30, 0.0, 1e30, 5.0), (np.nan, 0, 1, 1), (3.0, 3.0, 3.0, 3.0)])
@pytest.mark.parametrize("hw", [(48, 64), (1, 1)])
def test_any_detection_can_be_drawn(box, hw):
    assert draw(result_of(image(*hw), [Detection(box, 0.5, 10**9)])).shape == (*hw, 3)


def test_nan_in_a_result_is_null_in_json(tmp_path):
    sink = JsonLines(str(tmp_path / "new" / "r.jsonl"))
    sink.write_document({"a": [1.0, float("nan")], "b": {"c": float("inf")}, "d": "NaN"})
    sink.close()
    assert json.loads((tmp_path / "new" / "r.jsonl").read_text()) == {"a": [1.0, None], "b": {"c": None}, "d": "NaN"}


def test_a_full_disk_leaves_no_half_image(tmp_path, monkeypatch):
    sink = AnnotatedImages(str(tmp_path / "i"))

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sinks_module.os, "replace", full)
    with pytest.raises(RunError, match="No space left"):
        sink.write(result_of(image()))
    assert list((tmp_path / "i").iterdir()) == []


def test_a_disk_that_fills_up_ends_a_video_before_it_is_broken(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks_module, "SPACE_EVERY", 5)
    sink = AnnotatedVideo(str(tmp_path / "v.avi"))
    for _ in range(5):
        sink.write(result_of(image()))
    monkeypatch.setattr(sinks_module.shutil, "disk_usage", lambda p: SimpleNamespace(free=1 << 20))
    with pytest.raises(RunError, match="almost full"):
        sink.write(result_of(image()))
    sink.close()
    capture = cv2.VideoCapture(str(tmp_path / "v.avi"))
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 5


def test_a_video_keeps_its_size_when_the_source_changes_its_own(tmp_path):
    sink = AnnotatedVideo(str(tmp_path / "v.avi"), 1e6)
    for hw in ((48, 64), (20, 20), (48, 64)):
        sink.write(result_of(image(*hw)))
    sink.close()
    assert cv2.VideoCapture(str(tmp_path / "v.avi")).get(cv2.CAP_PROP_FRAME_COUNT) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: JsonLines(f"{folder}/file/r.jsonl"),
        lambda folder: JsonLines(str(folder)),
        lambda folder: AnnotatedImages(f"{folder}/file/images"),
        lambda folder: AnnotatedVideo(f"{folder}/file/v.mp4"),
    ],
)
def test_an_unwritable_output_path_is_a_usage_error(tmp_path, make):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        make(tmp_path)


def write_yaml(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return str(path)


HEAD = "version: 1\nartifact: a\nsource: synthetic://\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 8)}]\n" for i in range(12)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x" * (10 << 20), "larger than"),
        (BOMB, "anchors and aliases"),
        (BOMB + HEAD, "anchors and aliases"),
        (BOMB.replace("\n", "\n  ").replace("a: &a", "labels:\n  a: &a") + "\n" + HEAD, "anchors and aliases"),
        ("[" * 600, "no pipeline file|not valid YAML"),
        ("? [1, 2]\n: 3\n", "is not text"),
        ("\x00", "not valid YAML"),
        ("- 1\n- 2\n", "is a mapping"),
        ("", "the file is empty"),
        (HEAD + "stop_after: {seconds: .inf}\n", "stop_after.seconds is '.inf'"),
        (HEAD + "stop_after: {frames: .nan}\n", "stop_after.frames is '.nan'"),
        (HEAD + f"stop_after: {{frames: {10**400}}}\n", "a number has 401 digits"),
        (HEAD + "capture: {stall_s: -1}\n", "capture.stall_s is -1"),
        (HEAD + "preprocess: {std: [1, .inf, 1]}\n", "preprocess.std is"),
        (HEAD + "devices: [{DLA0: 1}]\n", "devices holds"),
        (HEAD + "devices: [DLA0]\nplacement: p.json\n", "one of them"),
        (HEAD + "preprocess: {device: 1}\n", "preprocess.device is 1"),
    ],
    ids=range(17),
)
def test_a_pipeline_file_of_any_content_is_refused_fast_and_with_a_reason(tmp_path, text, says):
    started = time.monotonic()
    with pytest.raises(DocumentError, match=says) as refused:
        load_config(write_yaml(tmp_path, text))
    assert time.monotonic() - started < 60
    assert len(str(refused.value)) < 1000


def test_devices_with_artifacts_of_their_own_are_found_from_the_files_folder(tmp_path):
    config = load_config(write_yaml(tmp_path, HEAD + 'devices: [DLA0, "GPU=other", "DLA1=/abs"]\n'))
    assert config.devices == ("DLA0", f"GPU={tmp_path}/other", "DLA1=/abs")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_unreadable_labels_are_refused(tmp_path, content):
    path = tmp_path / "labels.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="labels cannot be read"):
        read_labels(str(path))
    with pytest.raises(UsageError, match="labels cannot be read"):
        load_config(write_yaml(tmp_path, HEAD + "decode: {kind: yolov8, labels: labels.txt}\n"))


def test_labels_are_read_from_a_file_or_a_list(tmp_path):
    (tmp_path / "l.txt").write_text("cat\n\ndog \n")
    assert read_labels(str(tmp_path / "l.txt")) == ("cat", "dog") == read_labels("cat, dog")
    assert load_config(write_yaml(tmp_path, HEAD + "decode: {labels: l.txt}\n")).decode.labels == ("cat", "dog")


def test_a_score_threshold_of_zero_is_not_replaced_by_the_default():
    config = with_overrides(None, artifact="a", source="s", decode={"score": 0.0, "kind": None}, stop_after={"frames": 0})
    assert config.decode.score == 0.0
    assert config.decode.kind == "none"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_limit_that_is_no_number_is_refused(value):
    with pytest.raises(UsageError, match="stop_after.seconds is"):
        with_overrides(None, artifact="a", source="s", stop_after={"seconds": value})
