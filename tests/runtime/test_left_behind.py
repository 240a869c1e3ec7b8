"""No GStreamer process outlives the reader of its frames. Needs GStreamer."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
#: A camera that stands there and gives nothing.
CODE = """
from edgedla.runtime.sources import parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
source = GstLaunchSource(parse_source("gst://videotestsrc is-live=true ! valve drop=true"))
source.open()
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(child) for child in f.read().split()]


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def camera_of(pid):
    """The child that reads the camera, or None; other children may come and go before it."""
    for child in children(pid):
        try:
            if b"gst_child" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
        except OSError:
            continue
    return None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_silent_cameras_process_ends_with_its_parent(number):
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert until(lambda: camera_of(process.pid))
        child = camera_of(process.pid)
    finally:
        process.send_signal(number)
        process.wait()
    assert until(lambda: gone(child), 20)
    assert process.returncode == -number
