"""Pictures by RTSP: read back by our own source, encoded only while somebody watches, served again after a server crash."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from edgedla.errors import DocumentError, EnvironmentMissing, RunError
from edgedla.runtime.decode.detections import Detection
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs import rtsp as module
from edgedla.runtime.outputs.draw import picture_of
from edgedla.runtime.outputs.rtsp import Rtsp, RtspConfig, encoders
from edgedla.runtime.pipeline.config import load_config
from edgedla.runtime.sources import parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from tests.ports import free_port
from tests.runtime.waiting import until

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
BOX = Detection((20.0, 60.0, 60.0, 110.0), 0.9, 0, "person")


def has_server():
    try:
        ctypes.CDLL("libgstrtspserver-1.0.so.0")
    except OSError:
        return False
    return shutil.which("gst-launch-1.0") is not None


needs_server = pytest.mark.skipif(not has_server(), reason="GStreamer's RTSP server is not installed")


def feed(sink, stop, colours):
    """Frames whose width and height are odd: H.264 has even ones, and GStreamer pads rows."""
    i = 0
    while not stop.wait(0.03):
        for name, colour in colours.items():
            frame = Frame(i, np.full((121, 163, 3), colour, np.uint8), time.monotonic())
            sink.write(FrameResult(frame, (BOX,), "DLA0", True, 1.0, 2.0, name, "objects"))
        i += 1


@pytest.fixture
def serving():
    port, stop = free_port(), threading.Event()
    sink = Rtsp(RtspConfig(f"rtsp://127.0.0.1:{port}/site/{{source}}", rate=20), ("gate", "yard"))
    thread = threading.Thread(target=feed, args=(sink, stop, {"gate": (0, 0, 240), "yard": (240, 0, 0)}))
    thread.start()
    yield sink, f"rtsp://127.0.0.1:{port}/site/"
    stop.set()
    thread.join(10)
    sink.close()


def watch(address, channel):
    """A picture after the first key frame: a decoder shows grey before."""
    source = GstLaunchSource(parse_source(address))
    try:
        assert source.open()[0] >= 120
        for _ in range(200):
            picture = picture_of(Frame(0, source.read(), 0.0, pixels=source.pixels))[0]
            if picture[100, 140, channel] > 180:
                return picture
        raise AssertionError("no picture in the frames' colour")
    finally:
        source.close()


@needs_server
def test_each_sources_rtsp_stream_shows_its_drawn_frames(serving):
    sink, address = serving
    assert sink.to_dict()["watched"] == 0
    assert all(not pictures.latest.number or pictures.failed == 0 for pictures in sink._pictures.values())
    for name, channel in (("gate", 2), ("yard", 0)):
        picture = watch(address + name, channel).astype(int)
        plain = picture[80:110, 100:150].reshape(-1, 3).mean(axis=0)
        assert plain[channel] > 180
        assert plain[1] < 60
        # The box's left edge.
        assert abs(picture[75:105, 18:24] - plain).sum(axis=2).max() > 100
    assert until(lambda: sink.to_dict()["watched"] == 0), "nothing is encoded once nobody watches"


def play(port):
    """A viewer that plays the stream /gate by TCP, and reads nothing of it."""
    viewer, session = socket.socket(), ""
    viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    viewer.settimeout(20)
    viewer.connect(("127.0.0.1", port))
    address = f"rtsp://127.0.0.1:{port}/gate"
    for number, (verb, of, more) in enumerate(
        (("DESCRIBE", "", ""), ("SETUP", "/stream=0", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"), ("PLAY", "/", ""))
    ):
        viewer.sendall(f"{verb} {address}{of} RTSP/1.0\r\nCSeq: {number}\r\n{session}{more}\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += viewer.recv(1024)
        found = re.search(rb"Session: *([^;\r]+)", answer)
        session = f"Session: {found.group(1).decode()}\r\n" if found else session
    return viewer


@pytest.mark.long
@needs_server
@pytest.mark.parametrize("pause_s", [8.0, 13.0])
def test_a_viewer_who_stops_reading_does_not_delay_others(pause_s):
    """With 13 s the kernel has closed his connection meanwhile."""
    port, stop, rng = free_port(), threading.Event(), np.random.default_rng(0)
    sink = Rtsp(RtspConfig(f"rtsp://127.0.0.1:{port}/gate", rate=20, width=0, kbps=40_000), ("",))

    def noise():
        while not stop.wait(0.05):
            frame = Frame(0, rng.integers(0, 255, (480, 640, 3), np.uint8), time.monotonic())
            sink.write(FrameResult(frame, (), "DLA0", True, 1.0, 2.0))

    thread = threading.Thread(target=noise)
    thread.start()
    viewer, source = play(port), GstLaunchSource(parse_source(f"rtsp://127.0.0.1:{port}/gate"))
    try:
        time.sleep(pause_s)
        began = time.monotonic()
        source.open()
        for _ in range(20):
            source.read()
        assert time.monotonic() - began < 9
    finally:
        stop.set()
        thread.join(10)
        viewer.close()
        source.close()
        sink.close()


@needs_server
def test_the_rtsp_server_runs_with_few_malloc_arenas(serving):
    """As the pipeline's own: with 105 viewers, one after the other, it grew by 13 MB without, by 4 MB with it."""
    environment = Path(f"/proc/{serving[0]._process.pid}/environ").read_bytes()
    assert f"MALLOC_ARENA_MAX={os.environ.get('MALLOC_ARENA_MAX', '2')}".encode() in environment.split(b"\0")


def anonymous_mib(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


@needs_server
@pytest.mark.slow
def test_memory_is_released_when_the_last_viewer_has_left(serving):
    """glibc kept it: 8 MB became 20 with 20 viewers, of which 6 were in use; 12 once it is given back."""
    sink, address = serving
    for _ in range(3):
        watch(address + "gate", 2)
    most = anonymous_mib(sink._process.pid)
    assert until(lambda: anonymous_mib(sink._process.pid) < most - 1, 30)


@needs_server
@pytest.mark.slow
def test_a_dead_rtsp_server_is_restarted(serving, monkeypatch, caplog):
    monkeypatch.setattr(module, "AGAIN_S", 0.1)
    sink, address = serving
    watch(address + "gate", 2)
    sink._process.kill()
    assert until(lambda: sink.starts == 2)
    watch(address + "gate", 2)
    assert "started again" in caplog.text


@needs_server
def test_a_port_in_use_and_a_missing_encoder_are_reported(caplog):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        with pytest.raises(RunError, match="is it in use"):
            Rtsp(RtspConfig(f"rtsp://127.0.0.1:{s.getsockname()[1]}/x"), ("",))
    with pytest.raises(EnvironmentMissing, match="nvv4l2h264enc") as e:
        Rtsp(RtspConfig(f"rtsp://127.0.0.1:{free_port()}/x", encoder="nvv4l2h264enc"), ("",))
    assert "apt install" in str(e.value)


@needs_server
def test_a_public_rtsp_address_gives_a_warning_and_close_leaves_no_process(caplog):
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with caplog.at_level(logging.WARNING):
        sink = Rtsp(RtspConfig(f"rtsp://:{free_port()}/{{source}}"), ("gate",))
    assert "everybody who reaches this machine can watch" in caplog.text
    process = sink._process
    sink.close()
    assert process.poll() is not None
    assert until(lambda: threading.active_count() <= threads)
    assert len(os.listdir("/proc/self/fd")) <= files


def test_the_hardware_encoder_is_preferred_except_on_orin_nano(monkeypatch):
    assert encoders("auto") == ["x264enc", "openh264enc", "jpegenc"]
    assert encoders("jpegenc") == ["jpegenc"]
    monkeypatch.setattr("edgedla.targets.jetson.on_jetson", lambda: True)
    for target, first in (("agx-orin-64gb", "nvv4l2h264enc"), ("orin-nano-8gb", "x264enc"), (None, "nvv4l2h264enc")):
        monkeypatch.setattr("edgedla.targets.board.board_target", lambda target=target: target)
        assert encoders("auto")[0] == first


FILE = """
version: 2
sources: {gate: "synthetic://", yard: "synthetic://"}
models: {objects: {artifact: a, decode: yolov8}}
outputs: {rtsp: {%s}}
"""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("url: 'rtsp://:8554/one'", "a path with {source}"),
        ("url: 'rtsp://user:secret@h:8554/{source}'", "without user and password"),
        ("url: 'http://:8554/{source}'", "no address to serve at"),
        ("url: 'rtsp://:99999/{source}'", "no address to serve at"),
        ("url: 'rtsp://:8554/{model}'", "no address to serve at"),
        ("url: 'rtsp://:8554'", "no address to serve at"),
        ("url: 'rtsp://:8554/{source}', rate: 0", "rate is 0"),
        ("url: 'rtsp://:8554/{source}', width: 4", "width is 4"),
        ("url: 'rtsp://:8554/{source}', kbps: 0", "kbps is 0"),
        ("url: 'rtsp://:8554/{source}', encoder: h264", "auto, nvv4l2h264enc, x264enc, openh264enc, jpegenc"),
        ("url: 'rtsp://:8554/{source}', bitrate: 5", "unknown key 'outputs.rtsp.bitrate'"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, settings, says):
    file = tmp_path / "p.yaml"
    file.write_text(FILE % settings)
    with pytest.raises(DocumentError) as e:
        load_config(str(file))
    assert says in str(e.value)
    assert "secret" not in str(e.value)
