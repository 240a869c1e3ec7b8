"""The user's own pipelines: a video keeps its pace and all frames; a camera's late frames are dropped."""

from __future__ import annotations

import shutil
import time
from types import SimpleNamespace

import pytest

from edgedla.errors import UsageError
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.reader import CaptureOptions, Reader
from tests.runtime.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
#: Larger than the pipe between the processes holds more than one of.
SIZE = "width=800,height=600"


def read(pipeline, pause_s):
    """(frames up to the end, seconds) with a pause after each."""
    source = GstLaunchSource(parse_source(f"gst://{pipeline}"))
    source.open()
    began, count = time.monotonic(), 0
    try:
        while source.read() is not None:
            count += 1
            time.sleep(pause_s)
    finally:
        source.close()
    return count, time.monotonic() - began


def test_a_gstreamer_video_pipeline_is_read_in_real_time():
    count, seconds = read(f"videotestsrc num-buffers=20 ! video/x-raw,{SIZE},framerate=20/1", 0.0)
    assert count == 20
    assert seconds > 0.8


def test_a_gstreamer_video_pipeline_waits_for_its_reader():
    assert read(f"videotestsrc num-buffers=20 ! video/x-raw,{SIZE},framerate=50/1", 0.05)[0] == 20


def test_a_gstreamer_video_that_changes_its_size_is_refused():
    parts = [f"videotestsrc num-buffers=4 ! video/x-raw,width={w},height=48,framerate=50/1 ! c." for w in (64, 32)]
    seen, ended = [], []
    handler = SimpleNamespace(opened=lambda hw, source: seen.append(hw), number=lambda image, source: None, finished=ended.append)
    uri = f"gst://{' '.join(parts)} concat name=c"
    reader = Reader(open_source(uri), lambda: open_source(uri), CaptureOptions(), handler, False)
    reader.begin()
    assert until(lambda: ended)
    reader.join(2.0)
    assert isinstance(ended[0], UsageError)
    assert "changed from 64x48 to 32x48" in str(ended[0])
    assert seen == [(48, 64)]


def test_a_camera_does_not_wait_for_its_reader():
    count, _ = read(f"videotestsrc is-live=true num-buffers=60 ! video/x-raw,{SIZE},framerate=60/1", 0.1)
    assert 1 <= count < 45
