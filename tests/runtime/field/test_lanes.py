"""Several sources and models: attribution of results, shares, batches, cascades, and the effect of a bad camera on the others."""

from __future__ import annotations

import collections
import threading
import time

import numpy as np
import pytest

from edgedla.errors import DataError, RunError
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.outputs.sinks import Callback
from edgedla.runtime.pipeline.cascade import CropRule
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.slots import Share
from tests.runtime.field.field_pipelines import SIDE, camera, counter, engine, lane, number, numbers, pipeline

pytest.importorskip("cv2", reason="OpenCV is not installed")


def by_source(seen, model=""):
    found = collections.defaultdict(list)
    for r in seen:
        if r.model == model:
            found[r.source].append((r.frame.index, r.results[0]))
    return found


@pytest.mark.parametrize("batch", [1, 4])
def test_every_frame_of_each_source_is_returned_in_order(batch):
    seen = []
    made = engine(1.0, batch)
    p = pipeline(
        [camera(n, counter(f)) for n, f in (("a", 7), ("b", 30), ("c", 1))], [lane(made, "abc", batch_wait_s=0.01)], seen
    )
    summary = p.run()
    assert by_source(seen) == {n: [(i, i) for i in range(f)] for n, f in (("a", 7), ("b", 30), ("c", 1))}
    assert summary["frames"]["results"] == 38, "padding is no result"
    assert {s["name"]: s["state"] for s in summary["sources"]} == dict.fromkeys("abc", "ended")


def test_a_batch_mixes_sources_and_is_padded_with_zeros():
    batches = []

    def compute(given):
        batches.append(np.array(given["x"]).reshape(4, 3))
        return {"y": np.array(given["x"])}

    p = pipeline([camera(n, counter(31)) for n in "ab"], [lane(engine(1.0, 4, compute), "ab", batch_wait_s=0.2)])
    summary = p.run()
    assert summary["frames"]["results"] == 62
    assert len(batches) < 31, "frames of two sources share an inference"
    # Its buffer held other frames before.
    assert not batches[-1][2:].any()


def test_each_model_gets_its_sources_and_every_nth_frame():
    seen = []
    lanes = [lane(engine(), "ab", name="all"), lane(engine(), "b", name="third")]
    p = pipeline([camera(n, counter(9)) for n in "ab"], lanes, seen, every={"third": 3})
    p.run()
    assert {n: len(r) for n, r in by_source(seen, "all").items()} == {"a": 9, "b": 9}
    assert by_source(seen, "third") == {"b": [(0, 0), (3, 3), (6, 6)]}


def test_under_overload_sources_share_results_by_weight():
    shares = {"a": Share(2.5), "b": Share(2.0), "c": Share(0.5)}
    seen = []
    captures = [camera(n, counter(rate=200)) for n in "abc"]
    p = pipeline(captures, [lane(engine(10.0), "abc", shares=shares)], seen, Limits(frames=150))
    p.run()
    counts = collections.Counter(r.source for r in seen)
    total = sum(counts.values())
    for name, share in shares.items():
        assert counts[name] / total == pytest.approx(share.weight / 5, abs=0.05)


def test_a_rate_cap_skips_frames_and_drops_none():
    seen = []
    capture = camera("a", counter(60, rate=100), max_rate=20.0)
    summary = pipeline([capture], [lane(engine(), "a")], seen).run()
    assert 10 <= len(seen) <= 16
    assert summary["frames"]["skipped"] == 60 - len(seen)
    assert summary["frames"]["dropped"] == 0


def test_every_nth_frame_counts_frames_after_the_rate_cap():
    seen = []
    lanes = [lane(engine(), "a", name="all"), lane(engine(), "a", name="third")]
    # Of 60 frames per second 20 pass: numbers 2, 5, 8 and so on, none of which 3 divides.
    p = pipeline([camera("a", counter(90, rate=60), max_rate=20.0)], lanes, seen, every={"third": 3})
    p.run()
    passed = [index for index, _ in by_source(seen, "all")["a"]]
    assert [index for index, _ in by_source(seen, "third")["a"]] == passed[::3]


def test_a_frame_limit_ends_within_a_batch():
    seen = []
    captures = [camera(n, counter()) for n in "abc"]
    p = pipeline(captures, [lane(engine(5.0, 4), "abc", batch_wait_s=0.5)], seen, Limits(frames=10))
    assert p.run()["frames"]["dropped"] == 0, "files' frames that came too late for the limit replaced none"
    assert len(seen) == 10


def test_the_last_frame_of_a_limit_waits_for_a_slow_runner():
    seen = []
    pipeline([camera("a", counter())], [lane(engine(600.0), "a")], seen, Limits(frames=2)).run()
    assert [r.frame.index for r in seen] == [0, 1]


class Broken:
    """A camera that refuses, or that hangs in its first read until `release`."""

    live, pixels, rate, uri = True, "bgr", 0.0, "broken"

    def __init__(self, release=None):
        self.release = release

    def open(self):
        if self.release is None:
            raise RunError("no such camera", where="broken")
        return SIDE, SIDE

    def read(self):
        self.release.wait(10)
        return None

    def close(self):
        pass


def broken(name, release=None):
    from edgedla.runtime.pipeline.capture import Capture

    return Capture(lambda: Broken(release), name=name, patient=True)


@pytest.mark.parametrize("hangs", [True, False])
def test_an_offline_camera_does_not_affect_other_sources(hangs):
    release, seen = threading.Event(), []
    p = pipeline(
        [broken("dead", release if hangs else None), camera("good", counter(4000, rate=200))],
        [lane(engine(1.0), ["dead", "good"])],
        seen,
        Limits(frames=20, seconds=30.0),
    )
    summary = p.run()
    release.set()
    assert len(seen) >= 20
    assert {r.source for r in seen} == {"good"}
    state = {s["name"]: s["state"] for s in summary["sources"]}
    assert state["dead"] == ("open" if hangs else "opening")


def test_a_file_that_is_missing_ends_the_start():
    p = pipeline([camera("a", counter(3)), camera("b", "/no/such/film.mp4", patient=True)], [lane(engine(), "ab")])
    with pytest.raises(DataError):
        p.run()


def test_a_source_that_fails_permanently_ends_alone_and_is_reported():
    seen = []

    class Dies(Broken):
        live = False

        def read(self):
            raise RunError("the film is torn", where="film")

    from edgedla.runtime.pipeline.capture import Capture

    torn = Capture(lambda: Dies(threading.Event()), name="torn")
    p = pipeline([torn, camera("good", counter(20))], [lane(engine(), ["torn", "good"])], seen)
    with pytest.raises(RunError, match="the film is torn"):
        p.run()
    assert len(seen) == 20


def boxes(buffers, geometries):
    """Two detections an image: a car whose left edge is the frame's number, and a dog."""
    found = []
    for (n,) in numbers(buffers, geometries):
        left = float(n % 4)
        found.append([Detection((left, 2, left + 8, 12), 0.9, 0, "car"), Detection((0, 0, 6, 6), 0.8, 1, "dog")])
    return found


@pytest.mark.parametrize("batch", [1, 3])
def test_crops_are_passed_to_the_second_model_with_their_parent(batch):
    seen, sizes = [], []

    def crop_prepare(image, out=None, pixels="bgr"):
        sizes.append(image.shape[:2])
        row = image[0, 0]
        if out is None:
            return {"x": np.array(row)}, None
        out[:] = row
        return {"x": out}, None

    second = engine(0.0, batch, decode=lambda b, g: [[Detection((1, 1, 2, 2), 0.5, 7)] for _ in g])
    second._prepare = lambda source: crop_prepare
    rule = CropRule("objects", ("car", "dog"), min_size=4, margin=0.0, most=2)
    lanes = [lane(engine(decode=boxes), "ab", name="objects"), lane(second, "ab", name="plates", crops=rule)]
    p = pipeline([camera("a", counter(8)), camera("b", counter(5))], lanes, seen)
    p.run()
    plates = [r for r in seen if r.model == "plates"]
    assert collections.Counter(r.source for r in plates) == {"a": 8, "b": 5}
    for r in plates:
        assert [c.of for c in r.results] == [0, 1]
        assert [c.parent.label for c in r.results] == ["car", "dog"]
        left = int(r.results[0].parent.box_xyxy[0]) // 2 * 2
        assert r.results[0].results[0].box_xyxy == (left + 1, 3, left + 2, 4), "in pixels of the frame"
        assert r.to_dict()["results"][0]["parent"]["label"] == "car"
    assert set(sizes) <= {(10, 8), (10, 10), (6, 6)}


def test_crops_of_crops_cover_all_parents_in_frame_coordinates():
    def found(buffers, geometries):
        return [[Detection((1, 1, 3, 5), 0.5, 7), Detection((0, 0, 2, 2), 0.4, 8)] for _ in geometries]

    seen, rule = [], CropRule("objects", ("car", "dog"), min_size=2, margin=0.0)
    lanes = [
        lane(engine(decode=boxes), "a", name="objects"),
        lane(engine(decode=found), "a", name="faces", crops=rule),
        lane(engine(decode=found), "a", name="eyes", crops=CropRule("faces", ("7", "8"), min_size=2, margin=0.0)),
    ]
    pipeline([camera("a", counter(3))], lanes, seen).run()
    eyes = [r for r in seen if r.model == "eyes"]
    assert [r.frame.index for r in eyes] == [0, 1, 2]
    # The faces of the car at (0, 2), then those of the dog at (0, 0), the better ones first.
    assert [(c.of, c.parent.box_xyxy) for c in eyes[0].results] == [
        (0, (1, 3, 3, 7)),
        (2, (1, 1, 3, 5)),
        (1, (0, 2, 2, 4)),
        (3, (0, 0, 2, 2)),
    ]
    assert eyes[0].results[0].results[0].box_xyxy == (1, 3, 3, 7)


def test_a_stop_finishes_the_crops_of_detected_objects():
    seen = []
    second = engine(2.0, decode=lambda b, g: [[1] for _ in g])
    second._prepare = lambda source: lambda image, out=None, pixels="bgr": ({"x": np.array(image[0, 0])}, None)
    lanes = [
        lane(engine(1.0, decode=boxes), "a", name="objects"),
        lane(second, "a", name="crops", crops=CropRule("objects", ("car",), min_size=4)),
    ]
    p = pipeline([camera("a", counter(10_000))], lanes, seen)
    threading.Timer(0.4, p.stop).start()
    p.run()
    counts = collections.Counter(r.model for r in seen)
    assert counts["objects"] == counts["crops"] > 5, "a file's crops are never dropped"


def test_a_slow_second_model_does_not_slow_the_first_one_down():
    seen = []
    second = engine(100.0, decode=lambda b, g: [[1] for _ in g])
    lanes = [
        lane(engine(1.0, decode=boxes), "a", name="objects"),
        lane(second, "a", name="crops", crops=CropRule("objects", ("car",), min_size=4)),
    ]
    pipeline([camera("a", counter(rate=100))], lanes, seen, Limits(frames=80)).run()
    counts = collections.Counter(r.model for r in seen)
    assert counts["objects"] == 80
    assert 0 < counts["crops"] < 40


def test_a_model_is_replaced_between_two_frames_and_no_frame_is_lost():
    seen = []
    first = engine(2.0, decode=lambda b, g: [[("old", *n)] for n in numbers(b, g)])
    only = lane(first, "a")
    p = pipeline([camera("a", counter(200))], [only], seen)
    threading.Timer(0.1, lambda: only.swap(engine(1.0, decode=lambda b, g: [[("new", *n)] for n in numbers(b, g)]))).start()
    summary = p.run()
    found = [r.results[0] for r in seen]
    assert [n for _, n in found] == list(range(200))
    which = [w for w, _ in found]
    assert which == sorted(which, reverse=True), "each frame by one of them, in order"
    assert set(which) == {"old", "new"}
    assert summary["models"][0]["swaps"] == 1
    with pytest.raises(RunError, match="closed"):
        first.pool.submit({})


def test_an_output_that_fails_ends_all_models():
    def full(result):
        raise RunError("the disk is full")

    p = pipeline([camera(n, counter(10_000)) for n in "ab"], [lane(engine(), "a", name="x"), lane(engine(), "b", name="y")])
    p.add_sink(Callback(full))
    started = time.monotonic()
    with pytest.raises(RunError, match="the disk is full"):
        p.run()
    assert time.monotonic() - started < 60


def test_frame_counter_images_decode_to_their_number():
    assert number(np.array([1, 2, 0], np.uint8)) == 513


def test_prometheus_labels_sources_and_models():
    core = pytest.importorskip("prometheus_client.core", reason="prometheus-client is not installed")
    from prometheus_client import generate_latest

    from edgedla.runtime.health.metrics import PipelineCollector

    p = pipeline([camera("a", counter(5)), camera("b", counter(3))], [lane(engine(), "ab", name="objects")])
    p.run()
    registry = core.CollectorRegistry()
    registry.register(PipelineCollector(p.summary))
    text = generate_latest(registry).decode()
    assert 'edgedla_source_captured_total{source="a"} 5.0' in text
    assert 'edgedla_model_results_total{model="objects",source="b"} 3.0' in text
    assert 'edgedla_source_open{source="a"} 0.0' in text
    assert 'edgedla_model_age_ms{model="objects",quantile="p99",source="a"}' in text
