"""A camera that sends JPEG pictures by HTTP, good ones and broken ones. Needs GStreamer."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import time
from types import SimpleNamespace

import numpy as np
import pytest

from edgedla.errors import RunError
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.reader import CaptureOptions, Reader
from tests.runtime.http_served import served
from tests.runtime.waiting import until

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
pytestmark = pytest.mark.skipif(
    shutil.which("gst-launch-1.0") is None
    or subprocess.run(["gst-inspect-1.0", "souphttpsrc"], capture_output=True).returncode != 0,
    reason="GStreamer or its HTTP source is not installed",
)
LEVEL = 4


def jpeg(number, hw=(48, 64)):
    return cv2.imencode(".jpg", np.full((*hw, 3), number * LEVEL % 256, np.uint8))[1].tobytes()


class Camera(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "multipart/x-mixed-replace;boundary=b")
        self.end_headers()
        try:
            for number in range(600):
                data = jpeg(number, (96, 128) if self.path == "/grows" and number > 9 else (48, 64))
                if self.path == "/broken" and number % 4 == 3:
                    data = (b"", b"\xff\xd8 no picture", data[:-9])[number // 4 % 3]
                if self.path == "/headless" and number == 9:
                    data = data[:100]
                head = f"--b\r\nContent-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
                self.wfile.write(head.encode() + data + b"\r\n")
                time.sleep(0.02)
        except OSError:
            pass


@pytest.fixture(scope="module")
def address():
    with served(Camera) as url:
        yield url


def levels(uri, count):
    """(seconds to the first picture, the numbers of the pictures that follow)."""
    source = GstLaunchSource(parse_source(uri))
    began = time.monotonic()
    try:
        rows, _ = source.open()
        opened_s = time.monotonic() - began
        assert (source.live, source.recorded) == (True, False), "it does not say when it ends"
        return opened_s, [round(float(source.read()[:rows].mean()) / LEVEL) for _ in range(count)]
    finally:
        source.close()


def test_every_small_mjpeg_image_is_delivered_without_delay(address):
    opened_s, numbers = levels(f"{address}/good", 40)
    # Their 2 MB would take minutes.
    assert opened_s < 5
    assert numbers[0] < 20
    assert sum(b - a == 1 for a, b in zip(numbers, numbers[1:])) > 30


def test_broken_mjpeg_images_are_skipped(address):
    _, numbers = levels(f"{address}/broken", 30)
    assert numbers[-1] > 25
    assert len({n for n in numbers if n % 4 != 3}) > 20


def test_a_camera_that_changes_its_size_is_reported(address):
    with pytest.raises(RunError, match="the frames changed to 128x96"):
        levels(f"{address}/grows", 40)


def test_an_mjpeg_image_without_header_reopens_the_stream(address):
    """jpegdec ends the pipeline with it."""
    seen, ended = [], []
    handler = SimpleNamespace(
        opened=lambda hw, source: seen.append(0),
        finished=ended.append,
        number=lambda image, source: seen.__setitem__(-1, seen[-1] + 1),
    )
    uri = f"{address}/headless"
    reader = Reader(open_source(uri), lambda: open_source(uri), CaptureOptions(backoff_first_s=0.05), handler, False)
    reader.begin()
    try:
        assert until(lambda: len(seen) > 1 and seen[1] > 2)
    finally:
        reader.stop()
        reader.join(2.0)
    assert not ended
