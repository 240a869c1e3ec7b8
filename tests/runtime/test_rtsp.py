"""A real RTSP server that dies and returns. Needs gst-rtsp-server and its Python binding (gir1.2-gst-rtsp-server-1.0)."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from edgedla.runtime.sources import parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.reader import CaptureOptions
from tests.ports import free_port
from tests.runtime.taking import Taken

PYTHON = "/usr/bin/python3"
CAMERA = Path(__file__).resolve().parents[1] / "rtsp_camera.py"


def has_server() -> bool:
    if shutil.which("gst-launch-1.0") is None or not os.path.exists(PYTHON):
        return False
    return subprocess.run([PYTHON, CAMERA, "--probe"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not has_server(), reason="GStreamer or gst-rtsp-server's Python binding is not installed")


@pytest.fixture
def server():
    port = free_port()
    started = []

    def start():
        process = subprocess.Popen([PYTHON, CAMERA, str(port)], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "up\n"
        return process

    yield f"rtsp://user:secret@127.0.0.1:{port}/cam", start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def frames(capture, wanted, seconds=60.0):
    """The number of frames taken, at most `wanted`; a stream may take its time to start on a busy machine."""
    count, end = 0, time.monotonic() + seconds
    while count < wanted and time.monotonic() < end:
        count += capture.take(0.2) is not None
    return count


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_an_rtsp_stream_reconnects_without_leaking_threads_or_files(server, caplog):
    uri, start = server
    first = start()
    threads, files = threading.active_count(), open_files()
    parsed = parse_source(uri)
    capture = Taken(lambda: GstLaunchSource(parsed), CaptureOptions(backoff_first_s=0.1, backoff_most_s=0.5))
    capture.start()
    try:
        assert (capture.frame_hw, capture.rate) == ((120, 160), 25)
        assert frames(capture, 5) == 5
        first.kill()
        first.wait()
        end = time.monotonic() + 30
        while capture.reader.reconnects < 2 and time.monotonic() < end:
            capture.take(0.1)
        assert capture.reader.reconnects >= 2, "a camera that ends its stream is opened again"
        assert not capture.ended
        start()
        assert frames(capture, 5) == 5
    finally:
        capture.stop(5.0)
    end = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.05)
    assert threading.active_count() <= threads, "one of another test may have ended meanwhile"
    assert open_files() <= files + 1, "the second server's output is one more"
    assert "frames again after" in caplog.text
    assert "secret" not in caplog.text
