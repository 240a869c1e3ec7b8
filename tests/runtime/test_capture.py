"""Newest frame first, drops counted, reconnect with backoff, watchdog."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, RunError
from edgedla.runtime.sources.reader import CaptureOptions
from tests.runtime.taking import Taken


class Scripted:
    """A source that plays a list of steps: "frame", an exception, ("wait", seconds), or "end"."""

    def __init__(self, steps, live=True):
        self.uri, self.live, self.pixels, self.rate = "scripted", live, "bgr", 0.0
        self.steps, self.closed = steps, 0

    def open(self):
        if self.steps and isinstance(self.steps[0], type) is False and self.steps[0] == "refuse":
            self.steps.pop(0)
            raise RunError("it refuses", where=self.uri)
        return 4, 6

    def read(self):
        while self.steps:
            step = self.steps.pop(0)
            if step == "frame":
                return np.zeros((4, 6, 3), np.uint8)
            if isinstance(step, tuple):
                time.sleep(step[1])
            elif isinstance(step, Exception):
                raise step
            else:
                return None
        return None

    def close(self):
        self.closed += 1


def drain(capture, seconds=5.0):
    frames, end = [], time.monotonic() + seconds
    while not capture.ended and time.monotonic() < end:
        frame = capture.take(0.1)
        if frame is not None:
            frames.append(frame)
    return frames


def take_forever(capture):
    end = time.monotonic() + 10
    while time.monotonic() < end:
        capture.take(0.1)


def test_a_live_source_keeps_the_newest_frame_and_counts_the_dropped():
    capture = Taken(lambda: Scripted(["frame"] * 50))
    capture.start()
    time.sleep(0.2)
    frames = drain(capture)
    assert [f.index for f in frames] == [49]
    assert (capture.captured, capture.dropped) == (50, 49)


def test_a_file_source_drops_no_frame_with_a_slow_reader():
    capture = Taken(lambda: Scripted(["frame"] * 20, live=False))
    capture.start()
    frames = []
    while not capture.ended:
        frame = capture.take(0.1)
        if frame is not None:
            time.sleep(0.005)
            frames.append(frame.index)
    assert frames == list(range(20))
    assert capture.dropped == 0


def test_a_source_reconnects_after_failures():
    steps = ["frame", RunError("unplugged"), "refuse", "refuse", "frame", "end"]
    capture = Taken(lambda: Scripted(steps), CaptureOptions(backoff_first_s=0.01))
    capture.start()
    frames = drain(capture)
    assert [f.index for f in frames] == [0, 1]
    assert capture.reader.reconnects == 3


def test_the_backoff_doubles_up_to_its_limit():
    waits = []
    steps = [RunError("x"), *["refuse"] * 5, "end"]
    capture = Taken(lambda: Scripted(steps), CaptureOptions(backoff_first_s=1, backoff_most_s=4))
    capture.reader._stop = _Recorder(waits)
    capture.reader._run(Scripted(["frame", RunError("x")]), capture.reader._generation)
    assert waits == [1, 2, 4, 4, 4, 4, 4]


class _Recorder(threading.Event):
    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def wait(self, timeout=None):
        self.waits.append(timeout)
        return False


def test_a_stalled_source_is_opened_again_by_the_watchdog():
    scripts = [["frame", ("wait", 2.0), "frame"], ["frame", "end"]]
    capture = Taken(lambda: Scripted(scripts.pop(0)), CaptureOptions(stall_s=0.2))
    capture.start()
    frames = drain(capture)
    assert len(frames) == 2
    assert capture.reader.stalls == 1


class Hanging(Scripted):
    """Fills a frame and hangs, until it is interrupted."""

    half_read = []

    def read(self):
        if self.steps:
            return super().read()
        frame = np.zeros((4, 6, 3), np.uint8)
        self.half_read.append(weakref.ref(frame))
        self.interrupted = threading.Event()
        self.interrupted.wait(5)
        raise RunError("it gives no more frames")

    def interrupt(self):
        self.interrupted.set()


@pytest.mark.parametrize("stall_s", [0.05, 60.0], ids=["left behind", "stopped"])
def test_a_frame_of_a_hung_read_is_not_delivered(stall_s):
    Hanging.half_read.clear()
    capture = Taken(lambda: Hanging(["frame"]), CaptureOptions(stall_s=stall_s))
    gc.disable()
    try:
        capture.start()
        end = time.monotonic() + 5
        while len(Hanging.half_read) < (3 if stall_s < 1 else 1) and time.monotonic() < end:
            time.sleep(0.01)
        capture.stop(0.2)
        # The thread that read last may still be ending.
        while any(frame() is not None for frame in Hanging.half_read) and time.monotonic() < end:
            time.sleep(0.01)
        assert Hanging.half_read
        assert sum(frame() is not None for frame in Hanging.half_read) == 0
    finally:
        gc.enable()


def test_a_source_that_cannot_be_opened_at_all_fails_at_the_start():
    with pytest.raises(RunError, match="refuses"):
        Taken(lambda: Scripted(["refuse"])).start()


def test_a_missing_library_is_not_retried():
    capture = Taken(lambda: Scripted(["frame", EnvironmentMissing("no OpenCV")]))
    capture.start()
    with pytest.raises(EnvironmentMissing):
        take_forever(capture)


def test_any_exception_of_a_source_becomes_an_error_of_ours():
    capture = Taken(lambda: Scripted(["frame", ValueError("driver says no")], live=False))
    capture.start()
    with pytest.raises(RunError, match="driver says no"):
        take_forever(capture)


def test_a_source_is_given_up_after_its_timeout():
    def factory(first=[True]):  # noqa: B006
        if first:
            first.clear()
            return Scripted(["frame", RunError("gone")])
        return Scripted(["refuse"])

    capture = Taken(factory, CaptureOptions(backoff_first_s=0.02, backoff_most_s=0.02, give_up_s=0.1))
    capture.start()
    with pytest.raises(RunError):
        take_forever(capture)
