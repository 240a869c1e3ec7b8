"""`source: module:function`: frames of the user's, with the time of their capture; and pictures of an HTTP camera."""

from __future__ import annotations

import http.server
import re
import time
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from edgedla.errors import RunError, UsageError
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.base import CameraDenied
from tests.runtime.http_served import served
from tests.runtime.taking import Taken

FILE = """
import numpy as np
IMAGE = np.zeros((20, 30, 3), np.uint8)
def frames(rate):
    for n in range(3):
        yield IMAGE, 1000.0 + n / rate
frames.live = False
def nv12():
    yield np.zeros((30, 30), np.uint8)
nv12.pixels = "nv12"
def fails():
    yield IMAGE
    raise KeyError("camera")
def wrong(): yield np.zeros((20, 30), np.float32)
def empty(): yield from ()
def none(): pass
def leaves():
    raise SystemExit(2)
    yield
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


def test_frames_carry_the_time_of_their_capture(mine: str) -> None:
    parsed = parse_source(f"{mine}:frames", {"rate": 10})
    capture = Taken(lambda: open_source(parsed))
    capture.start()
    times: List[float] = []
    while not capture.ended:
        frame = capture.take()
        times += [frame.time_s] if frame is not None else []
    assert times == [1000.0, 1000.1, 1000.2], "live = False waits until a frame is taken"
    assert capture.frame_hw == (20, 30)


def test_a_function_may_give_nv12(mine: str) -> None:
    source = open_source(f"{mine}:nv12")
    assert (source.open(), source.pixels) == ((20, 30), "nv12")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wrong", "the source gave float32"),
        ("empty", "yields no frame"),
        ("none", "it returned NoneType"),
        ("leaves", "SystemExit"),
    ],
)
def test_what_is_no_source_of_frames_is_named(mine: str, name: str, says: str) -> None:
    source = open_source(f"{mine}:{name}")
    with pytest.raises(RunError, match=says) as e:
        source.open()
    assert f"mine.py:{name}" in str(e.value)


def test_a_function_that_fails_midway_is_a_broken_source(mine: str) -> None:
    source = open_source(f"{mine}:fails")
    source.open()
    assert source.read() is not None
    with pytest.raises(RunError, match="the source fails: KeyError"):
        source.read()


@pytest.mark.parametrize("text", ["no_such_module_here:frames", "/no/such.py:frames"])
def test_no_such_function_is_wrong_use(text: str) -> None:
    with pytest.raises(UsageError):
        open_source(text)


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("cameras.front:frames", "python"),
        ("front.py:frames", "python"),
        ("rtmp://h/live", "rtmp"),
        ("srt://h:9000", "srt"),
        ("udp://0.0.0.0:5000", "udp"),
        ("clip.mp4", "file"),
    ],
)
def test_addresses_and_their_kind(text: str, scheme: str) -> None:
    assert parse_source(text).scheme == scheme


class Camera(http.server.BaseHTTPRequestHandler):
    """/snapshot.jpg with a picture whose grey grows; wants cam:pw."""

    asked: List[float] = []

    def do_GET(self) -> None:
        cv2 = pytest.importorskip("cv2")
        if self.path == "/text.jpg":
            body = b"hello"
        elif self.headers.get("Authorization") != "Basic Y2FtOnB3":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="camera"')
            self.end_headers()
            return
        else:
            self.asked.append(time.monotonic())
            body = cv2.imencode(".jpg", np.full((20, 30, 3), 40 * len(self.asked), np.uint8))[1].tobytes()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


def test_a_snapshot_is_asked_for_at_the_rate() -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    Camera.asked = []
    with served(Camera) as address:
        place = address.partition("://")[2]
        source = open_source(f"http://cam:pw@{place}/snapshot.jpg", {"rate": 10, "frames": 4, "flip": "rotate-270"})
        assert source.open() == (30, 20)
        greys = [int(frame.mean()) for frame in (source.read() for _ in range(4))]
        assert source.read() is None
        assert greys == pytest.approx([40, 80, 120, 160], abs=2)
        assert Camera.asked[-1] - Camera.asked[0] >= 0.2
        assert source.live, "a failure is retried, and the newest picture wins"
        refused = open_source(f"http://cam:no@{place}/snapshot.jpg")
        with pytest.raises(CameraDenied, match="the camera answers 401") as e:
            refused.open()
        assert not re.search("cam:no|snapshot", str(e.value))
        with pytest.raises(RunError, match="not a picture"):
            open_source(f"http://{place}/text.jpg").open()
    with pytest.raises(RunError, match="no answer"):
        open_source(f"http://{place}/snapshot.jpg").open()
