"""A video at an http:// address is read in full and ends; without a stated length it is a camera."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

from edgedla.runtime.pipeline.open_pipeline import make_capture
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.reader import CaptureOptions
from tests.runtime.field.field_pipelines import engine, lane, numbers, pipeline
from tests.runtime.http_served import served

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
FRAMES, RATE = 50, 25.0
GSTREAMER = (
    shutil.which("gst-launch-1.0") is not None
    and subprocess.run(["gst-inspect-1.0", "souphttpsrc"], capture_output=True).returncode == 0
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of /film.avi and /picture.jpg."""
    folder = tmp_path_factory.mktemp("www")
    writer = cv2.VideoWriter(str(folder / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (64, 48))
    for number in range(FRAMES):
        writer.write(np.full((48, 64, 3), number, np.uint8))
    writer.release()
    cv2.imwrite(str(folder / "picture.jpg"), np.zeros((48, 64, 3), np.uint8))

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *words):
            pass

        def do_GET(self):
            data = (folder / self.path[1:]).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(data)

    with served(Handler) as url:
        yield url


@pytest.fixture(params=[pytest.param("GStreamer", marks=pytest.mark.skipif(not GSTREAMER, reason="not installed")), "OpenCV"])
def _reader(request, monkeypatch):
    if request.param == "OpenCV":
        monkeypatch.setattr(shutil, "which", lambda name: None)


def read(uri, latency_ms, every_frame=None, **options):
    """(the frames that a slow model saw, the summary, seconds)."""
    config = PipelineConfig(source=SourceConfig(uri, options), capture=CaptureOptions(every_frame=every_frame))
    seen, began = [], time.monotonic()
    lanes = [lane(engine(latency_ms, decode=lambda b, g: [[] for _ in numbers(b, g)]), [""])]
    opened = pipeline([make_capture("", config)], lanes, seen)
    late = threading.Timer(30, opened.stop)
    late.start()
    summary = opened.run()
    late.cancel()
    return [r.frame for r in seen], summary, time.monotonic() - began


@pytest.mark.usefixtures("_reader")
def test_an_http_video_is_read_in_full_by_a_slow_model_and_ends(address):
    frames, summary, _ = read(f"{address}/film.avi", 15.0)
    assert [f.index for f in frames] == list(range(FRAMES))
    assert [f.clock_s for f in frames] == [n / RATE for n in range(FRAMES)]
    counts = summary["frames"]
    assert (counts["dropped"], counts["reconnects"], counts["outages"]) == (0, 0, 0)
    assert summary["sources"][0]["state"] == "ended"


@pytest.mark.usefixtures("_reader")
def test_an_http_video_that_may_drop_frames_plays_in_real_time(address):
    frames, summary, seconds = read(f"{address}/film.avi", 100.0, every_frame=False)
    assert seconds > FRAMES / RATE - 0.2
    assert 10 < len(frames) < FRAMES - 10
    assert len(frames) + summary["frames"]["dropped"] <= FRAMES


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize("place", ["picture.jpg", "nowhere"])
def test_an_http_snapshot_camera_and_an_offline_one_do_not_end(address, place):
    if place == "nowhere":
        address = "http://127.0.0.1:9"
    source = open_source(parse_source(f"{address}/{place}"))
    try:
        if place != "nowhere":
            source.open()
        assert (source.live, source.recorded) == (True, False)
    finally:
        source.close()
