"""Sources, streams and films of GStreamer on a machine that lacks it: scripts and small fakes take the place of its processes and
libraries."""

from __future__ import annotations

import ctypes
import json
import os
import stat
import struct
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest

from edgedla.errors import EdgedlaError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.outputs import rtsp
from edgedla.runtime.outputs.films import mp4
from edgedla.runtime.outputs.mqtt_config import ONLY
from edgedla.runtime.outputs.rtsp import Rtsp, RtspConfig, address_of, check_rtsp, encoders
from edgedla.runtime.outputs.rtsp_child import ENCODERS, Stream, clean_up, encoder_of
from edgedla.runtime.sources import gst_child, gst_launch, open_source
from edgedla.runtime.sources.base import CameraDenied
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.gstreamer import pipeline_head
from edgedla.runtime.sources.uri import parse_source


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


# --- The text of a pipeline

QUEUE = "queue name=edgedla-queue leaky=downstream max-size-buffers=1 max-size-bytes=0 max-size-time=0"
RAW = "video/x-raw,format={NV12,I420}"
RTSP = 'rtspsrc name=edgedla-source location="rtsp://c/1" latency=%d drop-on-latency=true protocols=tcp ! application/x-rtp,media=video ! '


@pytest.mark.parametrize(
    ("source", "jetson", "text"),
    [
        (
            "csi://0?width=1280&height=720&rate=30",
            True,
            "nvarguscamerasrc sensor-id=0 ! video/x-raw(memory:NVMM),width=1280,height=720,framerate=30/1,format=NV12 ! "
            f"{QUEUE} ! nvvidconv flip-method=0 ! video/x-raw,format=NV12",
        ),
        (
            "csi://1?width=640&height=480&rate=29.97&flip=rotate-90",
            True,
            "nvarguscamerasrc sensor-id=1 ! video/x-raw(memory:NVMM),width=640,height=480,framerate=29970/1000,format=NV12 ! "
            f"{QUEUE} ! nvvidconv flip-method=3 ! video/x-raw,format=NV12",
        ),
        (
            "v4l2:///dev/video2?width=640&height=480&rate=30",
            False,
            f'v4l2src device="/dev/video2" ! video/x-raw,width=640,height=480,framerate=30/1 ! {QUEUE} ! videoconvert ! {RAW}',
        ),
        (
            "v4l2:///dev/video2?codec=mjpeg&width=640&height=480&flip=vertical",
            False,
            f'v4l2src device="/dev/video2" ! image/jpeg,width=640,height=480 ! {QUEUE} ! jpegdec ! videoflip video-direction=vert ! '
            f"videoconvert ! {RAW}",
        ),
        (
            "v4l2:///dev/video2?codec=mjpeg&width=640&height=480",
            True,
            f'v4l2src device="/dev/video2" ! image/jpeg,width=640,height=480 ! {QUEUE} ! nvjpegdec ! video/x-raw ! videoconvert ! {RAW}',
        ),
        (
            "rtsp://c/1?codec=h264&latency=50",
            False,
            RTSP % 50 + "rtph264depay ! h264parse config-interval=0 ! avdec_h264 name=edgedla-decoder output-corrupt=false ! "
            f"{QUEUE} ! videoconvert ! {RAW}",
        ),
        (
            "rtsp://c/1?codec=h265&latency=50",
            True,
            RTSP % 50 + f"rtph265depay ! h265parse config-interval=0 ! nvv4l2decoder ! {QUEUE} ! nvvidconv flip-method=0 ! "
            "video/x-raw,format=NV12",
        ),
        (
            "rtsp://c/1?codec=mjpeg&latency=50&rate=5&flip=horizontal",
            False,
            RTSP % 50 + f"rtpjpegdepay ! jpegdec ! {QUEUE} ! videorate drop-only=true ! video/x-raw,framerate=5/1 ! "
            f"videoflip video-direction=horiz ! videoconvert ! {RAW}",
        ),
        ("http://c/a?b=9", False, f'uridecodebin uri="http://c/a?b=9" ! videoconvert ! {QUEUE} ! videoconvert ! {RAW}'),
        (
            "http://c/live",
            True,
            f'uridecodebin uri="http://c/live" ! {QUEUE} ! nvvidconv flip-method=0 ! video/x-raw,format=NV12',
        ),
        ("gst://videotestsrc", True, f"videotestsrc ! {QUEUE} ! videoconvert ! video/x-raw,format={{NV12,I420,BGR}}"),
    ],
)
def test_a_source_is_this_pipeline(source: str, jetson: bool, text: str) -> None:
    assert pipeline_head(parse_source(source), jetson) == text


def test_a_recording_branches_off_undecoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 0, 0, 0)))
    monkeypatch.setattr(os, "urandom", lambda n: b"\xab" * n)
    uri = replace(parse_source("rtsp://c/1?codec=h264"), record=str(tmp_path / "a"), record_s=60.0)
    assert (
        "h264parse config-interval=-1 ! tee name=edgedla-tee edgedla-tee. ! queue ! splitmuxsink muxer-factory=matroskamux "
        f'max-size-time=60000000000 location="{tmp_path}/a-20260102-030405Z-abab-%05d.mkv" edgedla-tee. ! queue ! avdec_h264'
    ) in pipeline_head(uri, False)


# --- Frames of a source

_CHILD = """import json, mmap, os, sys, time
filled, free, memory = map(int, sys.argv[1:4])
here = os.path.dirname(__file__)
with open(here + "/started.json", "w") as f:
    json.dump({"pipeline": sys.stdin.read(), "more": sys.argv[4:]}, f)
for action, value in json.load(open(here + "/plan.json")):
    if action == "say":
        os.write(1, value.encode())
    elif action == "err":
        os.write(2, value.encode())
    elif action == "wait":
        time.sleep(value)
    elif action == "exit":
        sys.exit(value)
    elif action == "frame":
        size, byte = value
        slot = os.read(free, 1)
        os.ftruncate(memory, size * 12)
        with mmap.mmap(memory, 0) as mapped:
            mapped[slot[0] * size : (slot[0] + 1) * size] = bytes([byte]) * size
        os.write(filled, slot)
"""
Plan = Sequence[Tuple[str, Any]]
Opened = Callable[..., GstLaunchSource]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(address, plan, options) -> a source whose child does what the plan says."""
    (tmp_path / "gst_child.py").write_text(_CHILD)
    program(tmp_path / "gst-launch-1.0", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gst_launch, "__file__", str(tmp_path / "gst_launch.py"))
    monkeypatch.setattr(gst_launch, "on_jetson", lambda: False)
    sources: List[GstLaunchSource] = []

    def made(address: str, plan: Plan, options: Optional[Dict[str, Any]] = None) -> GstLaunchSource:
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        sources.append(GstLaunchSource(parse_source(address, options or {})))
        return sources[-1]

    yield made
    for source in sources:
        source.close()


def caps(width: int, height: int, more: str = ", format=(string)BGR, framerate=(fraction)30/1") -> Tuple[str, str]:
    return "say", f"edgedla: caps = video/x-raw, width=(int){width}, height=(int){height}{more}\n"


def test_frames_of_a_pipeline_end_with_it(played: Opened, tmp_path: Path) -> None:
    film = ("say", "edgedla: film\n")
    source = played("gst://own pipeline", [film, caps(4, 2), ("frame", [24, 1]), ("frame", [24, 2])])
    assert source.open() == (2, 4)
    assert (source.pixels, source.rate, source.live, source.recorded) == ("bgr", 30.0, True, False)
    frames = [source.read(), source.read()]
    assert [f.shape for f in frames if f is not None] == [(2, 4, 3)] * 2
    assert [int(f.max()) for f in frames if f is not None] == [1, 2]
    assert source.read() is None
    started = json.loads((tmp_path / "started.json").read_text())
    assert started["more"] == [gst_child.OF_USER]
    head = pipeline_head(parse_source("gst://own pipeline"), False)
    assert started["pipeline"] == f"{head} ! fakesink name=edgedla sync=false signal-handoffs=true"


@pytest.mark.parametrize(
    ("kind", "hw", "opened", "pixels", "shape"),
    [
        ("format=(string)NV12, colorimetry=(string)bt601", (3, 5), (2, 4), "nv12", (3, 4)),
        ("format=(string)NV12, colorimetry=(string)bt709", (4, 4), (4, 4), "nv12-709", (6, 4)),
        ("format=(string)NV12, colorimetry=(string)1:4:0:0", (4, 4), (4, 4), "nv12-full", (6, 4)),
        ("format=(string)NV12", (4, 4), (4, 4), "nv12", (6, 4)),
        ("format=(string)BGR", (3, 5), (3, 5), "bgr", (3, 5, 3)),
        ("", (3, 5), (3, 5), "bgr", (3, 5, 3)),
    ],
)
def test_a_source_says_what_its_pixels_are(
    kind: str, hw: Tuple[int, int], opened: Tuple[int, int], pixels: str, shape: Tuple[int, ...], played: Opened
) -> None:
    source = played("rtsp://c/1", [caps(hw[1], hw[0], f", {kind}"), ("frame", [96, 7]), ("wait", 9)], {"rate": 4})
    assert source.open() == opened
    assert (source.pixels, source.rate) == (pixels, 4.0)
    frame = source.read()
    assert frame is not None
    assert frame.shape == shape


@pytest.mark.parametrize(
    ("said", "options", "recorded", "live", "more"),
    [
        ("film", {}, True, False, ["--may-end"]),
        ("film", {"rate": 5}, True, True, ["--may-end", "--paced"]),
        ("camera", {}, False, True, ["--may-end"]),
        ("camera", {"tls": "unchecked"}, False, True, ["--may-end", "--tls-unchecked"]),
    ],
)
def test_an_address_may_be_a_films(
    said: str, options: Dict[str, Any], recorded: bool, live: bool, more: List[str], played: Opened, tmp_path: Path
) -> None:
    address = "https://c/1" if "tls" in options else "http://c/1"
    source = played(address, [("say", f"edgedla: {said}\n"), caps(4, 2), ("frame", [24, 1])], options)
    source.open()
    assert (source.recorded, source.live) == (recorded, live)
    assert json.loads((tmp_path / "started.json").read_text())["more"] == more
    assert source.read() is not None
    if recorded:
        assert source.read() is None
        return
    with pytest.raises(RunError, match="it gives no more frames"):
        source.read()


def test_no_more_frames_than_asked_for(played: Opened) -> None:
    frames: Plan = [("frame", [24, n]) for n in range(4)]
    source = played("gst://p", [caps(4, 2), *frames], {"frames": 2})
    source.open()
    assert [source.read() is None for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(("film", "error"), [(True, UsageError), (False, RunError)])
def test_frames_do_not_change_their_size(film: bool, error: type, played: Opened) -> None:
    kind = ("say", f"edgedla: {'film' if film else 'camera'}\n")
    source = played("http://c/1", [kind, caps(4, 2), caps(0, 0), caps(4, 2), ("frame", [24, 1]), caps(8, 6), ("frame", [24, 1])])

    def played_on() -> None:
        source.open()
        source.read()
        source.read()

    with pytest.raises(error, match="8x6"):
        played_on()


@pytest.mark.parametrize(
    ("address", "words", "what", "hint"),
    [
        (
            "gst://p",
            'ERROR: from element /GstPipeline:p/a:0: no element "avdec_h264"\n',
            'a:0: no element "avdec_h264"',
            "apt install gstreamer1.0-libav",
        ),
        ("gst://p", 'no element "h264parse"', 'no element "h264parse"', "apt install gstreamer1.0-plugins-bad"),
        ("gst://p", 'no element "h265parse"', 'no element "h265parse"', "apt install gstreamer1.0-plugins-bad"),
        (
            "gst://p",
            'no element "nvvidconv"',
            'no element "nvvidconv"',
            "apt install nvidia-l4t-gstreamer (on a Jetson; in containers --runtime nvidia)",
        ),
        ("gst://p", 'no element "videorate"', 'no element "videorate"', "apt install gstreamer1.0-plugins-base"),
        ("gst://p", 'no element "other"', 'no element "other"', "apt install gstreamer1.0-plugins-good"),
        (
            "gst://p",
            "it is missing a plug-in.",
            "it is missing a plug-in",
            "apt install gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav",
        ),
        (
            "v4l2:///dev/video0",
            "not-negotiated",
            "not-negotiated",
            "the camera lacks this size, rate or format: `v4l2-ctl --list-formats-ext` lists them; try codec=mjpeg",
        ),
        ("rtsp://c/1?codec=h264", "not-linked", "not-linked", "the stream is not h264: leave `codec` out to take its own"),
        ("rtsp://c/1", "not-linked", "not-linked", None),
        ("gst://p", "a\nWARNING: from element /GstPipeline:p/q: b\ngst.c(12): c\nAdditional debug info:\na\n", "a; q: b", None),
        ("gst://p", "1\n2\n3\n4\n5\n", "2; 3; 4; 5", None),
        ("gst://p", "", "", None),
    ],
)
def test_a_pipeline_that_ends_says_why_and_what_helps(
    address: str, words: str, what: str, hint: Optional[str], played: Opened
) -> None:
    source = played(address, [("err", words), ("exit", 1)])
    with pytest.raises(RunError) as caught:
        source.open()
    assert caught.value.what == (f"it does not start: {what}" if what else "it does not start")
    assert (caught.value.where, caught.value.hint) == (source.uri, hint)


@pytest.mark.parametrize("words", ["Unauthorized", "Forbidden", "x (401)", "x (403)", "Not authorized"])
def test_a_camera_that_denies_is_named_so(words: str, played: Opened) -> None:
    source = played("rtsp://user:secret@c/1", [("err", f"rtsp://user:secret@c/1 {words}"), ("exit", 1)])
    with pytest.raises(CameraDenied) as caught:
        source.open()
    assert "secret" not in str(caught.value)


def test_a_certificate_that_nobody_signed_has_a_way(played: Opened) -> None:
    for options, said in (({}, True), ({"tls": "unchecked"}, False)):
        source = played("rtsps://c/1", [("err", "TLS failed"), ("exit", 1)], options)
        with pytest.raises(RunError) as caught:
            source.open()
        assert ("tls: unchecked" in (caught.value.hint or "")) is said


def test_a_source_without_frames_is_given_up(played: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gst_launch, "OPEN_S", 0.2)
    with pytest.raises(RunError, match="no frame within 0 s"):
        played("rtsp://c/1", [("wait", 30)]).open()
    monkeypatch.setattr(gst_launch, "OPEN_S", 30.0)
    monkeypatch.setattr(gst_launch, "TIMEOUT_S", 0.2)
    source = played("rtsp://c/1", [caps(4, 2), ("wait", 30)])
    source.open()
    with pytest.raises(RunError, match="no frame for 0 s"):
        source.read()
    source.interrupt()
    with pytest.raises(RunError, match="it gives no more frames"):
        source.read()
    source.close()
    assert source.read() is None


def test_a_full_disk_is_not_recorded_on(
    played: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for free, recorded in ((64 << 20, True), ((64 << 20) - 1, False)):
        monkeypatch.setattr(
            "edgedla.runtime.sources.gst_launch.shutil.disk_usage", lambda folder, free=free: SimpleNamespace(free=free)
        )
        source = played("rtsp://c/1?codec=h264", [caps(4, 2), ("wait", 9)])
        source._spec = replace(source._spec, record=str(tmp_path / "a"), record_s=60.0)
        source.open()
        assert ("splitmuxsink" in json.loads((tmp_path / "started.json").read_text())["pipeline"]) is recorded
    assert "the disk is almost full (63 MiB left)" in caplog.text


def test_without_gstreamer_the_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentMissing, match="gst-launch-1.0 is not installed") as caught:
        open_source("gst://p")
    assert "gstreamer1.0-tools" in (caught.value.hint or "")


# --- The child's properties of elements


class Properties:
    """g_object_set of a class that has these properties."""

    def __init__(self, *names: bytes) -> None:
        self.names, self.put = names, []  # type: ignore[var-annotated]

    def g_object_class_find_property(self, kind: Any, name: bytes) -> bool:
        return name in self.names

    def g_object_set(self, to: Any, name: bytes, value: Any, end: Any) -> None:
        self.put.append((name, getattr(value, "value", value)))


@pytest.mark.parametrize(
    ("more", "names", "put"),
    [
        ([], (b"tls-validation-flags",), []),
        (["--tls-unchecked"], (b"tls-validation-flags",), [(b"tls-validation-flags", 0)]),
        (["--tls-unchecked"], (b"ssl-strict",), [(b"ssl-strict", 0)]),
        (["--tls-unchecked"], (), []),
        (["--tls-ca-file=/a b"], (b"ssl-ca-file", b"tls-database"), [(b"ssl-ca-file", b"/a b")]),
        (["--tls-ca-file=/a"], (), []),
    ],
)
def test_elements_take_the_certificate_that_the_arguments_allow(
    more: List[str], names: Tuple[bytes, ...], put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["child", "3", "4", "5", *more])
    properties = Properties(*names)
    gst_child.set_tls(properties, ctypes.c_void_p(1), 1)  # type: ignore[arg-type]
    assert properties.put == put


class Pipeline(Properties):
    """GStreamer's states: of a film, a camera, or a pipeline that fails."""

    def __init__(self, paused: int, length_ns: int) -> None:
        super().__init__()
        self.paused, self.length_ns, self.states = paused, length_ns, []  # type: ignore[var-annotated]

    def gst_bin_get_by_name(self, pipeline: Any, name: bytes) -> int:
        return 7

    def gst_element_set_state(self, pipeline: Any, state: int) -> int:
        self.states.append(state)
        return min(self.paused, 1) if state == gst_child.PAUSED else 2

    def gst_element_get_state(self, *arguments: Any) -> int:
        assert arguments[3].value == 5 * 10**9
        return self.paused

    def gst_element_query_duration(self, pipeline: Any, form: int, ns: Any) -> bool:
        assert form == 3
        ns._obj.value = self.length_ns
        return self.length_ns != 0


@pytest.mark.parametrize(
    ("more", "paused", "length_ns", "said", "put"),
    [
        (["--of-user"], 1, 0, "film", [(b"leaky", 0), (b"sync", 1)]),
        (["--of-user"], 3, 0, "camera", [(b"leaky", 0), (b"leaky", 2)]),
        (["--may-end"], 1, 9, "film", [(b"leaky", 0), (b"sync", 0)]),
        (["--may-end", "--paced"], 1, 9, "film", [(b"leaky", 0), (b"sync", 1)]),
        (["--may-end"], 1, 0, "camera", [(b"leaky", 0), (b"leaky", 2)]),
        (["--may-end"], 1, -9, "camera", [(b"leaky", 0), (b"leaky", 2)]),
        (["--may-end"], 2, 9, "camera", [(b"leaky", 0), (b"leaky", 2)]),
        (["--may-end"], 0, 9, "camera", [(b"leaky", 0), (b"leaky", 2)]),
    ],
)
def test_a_film_keeps_every_frame_and_a_camera_the_newest(
    more: List[str], paused: int, length_ns: int, said: str, put: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    gst: Any = Pipeline(paused, length_ns)
    assert gst_child.play(gst, gst, 1, more) == 2
    assert (gst.put, gst.states) == (put, [gst_child.PAUSED, gst_child.PLAYING])
    assert capfd.readouterr().out == f"edgedla: {said}\n"


def test_another_source_plays_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    gst: Any = Pipeline(1, 9)
    assert gst_child.play(gst, gst, 1, ["--tls-unchecked"]) == 2
    assert (gst.put, gst.states, capfd.readouterr().out) == ([], [gst_child.PLAYING], "")


# --- Streams by RTSP


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("rtsp://:8000/{source}", ("0.0.0.0", 8000, "/{source}")),
        ("rtsp://127.0.0.1/a/b-1.x", ("127.0.0.1", 8554, "/a/b-1.x")),
        ("rtsp://[::1]:9/x{source}", ("::1", 9, "/x{source}")),
        ("http://h/x", None),
        ("rtsp://h/x?y", None),
        ("rtsp://u:p@h/x", None),
        ("rtsp://h", None),
        ("rtsp://h/", None),
        ("rtsp://h/a b", None),
        ("rtsp://h:99999/x", None),
        ("rtsp://h/{other}", None),
    ],
)
def test_an_address_to_serve_at(url: str, address: Any) -> None:
    if address is None:
        with pytest.raises(UsageError, match="no address to serve at") as caught:
            address_of(RtspConfig(url))
        assert caught.value.where == "outputs.rtsp.url"
    else:
        assert address_of(RtspConfig(url)) == address


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("rate", (0.1, 60.0), (0.0, 60.1, -1.0)),
        ("width", (0, 16, 8192), (15, 8193, -1)),
        ("kbps", (1, 200_000), (0, 200_001)),
        ("encoder", ("auto", *ENCODERS), ("x265enc", "")),
    ],
)
def test_settings_of_a_stream_have_limits(key: str, good: Tuple[Any, ...], bad: Tuple[Any, ...]) -> None:
    def config(value: Any) -> RtspConfig:
        options: Dict[str, Any] = {key: value}
        return RtspConfig("rtsp://:1/{source}", **options)

    for value in good:
        check_rtsp(config(value), ["a", "b"])
    for value in bad:
        with pytest.raises(UsageError, match=f"outputs.rtsp.{key} is"):
            check_rtsp(config(value), ["a"])


def test_sources_need_a_path_each() -> None:
    check_rtsp(RtspConfig("rtsp://:1/x"), ["a"])
    with pytest.raises(UsageError, match="serves 2 sources at one path"):
        check_rtsp(RtspConfig("rtsp://:1/x"), ["a", "b"])


def test_defaults_of_a_stream() -> None:
    c = RtspConfig()
    assert (c.url, c.rate, c.width, c.kbps, c.encoder) == ("", 15.0, 1280, 2000, "auto")


_SERVER = """import json, os, sys, time
here = os.path.dirname(__file__)
settings = json.loads(sys.stdin.readline())
with open(here + "/settings.json", "w") as f:
    json.dump(settings, f)
plan = json.load(open(here + "/plan.json"))
if "error" in plan:
    print(plan["error"], file=sys.stderr)
    sys.exit(plan["code"])
print("up x264enc", flush=True)
for n in range(len(settings["streams"])):
    print(f"view {n} 1", flush=True)
data = b""
for _ in range(plan["pictures"]):
    data += os.read(settings["streams"][0]["fd"], 1 << 16)
with open(here + "/data.part", "wb") as f:
    f.write(data)
os.rename(here + "/data.part", here + "/data")
print("view 0 0", flush=True)
sys.stdin.read()
"""


def served(plan: Dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rtsp:
    (tmp_path / "rtsp_child.py").write_text(_SERVER)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    monkeypatch.setattr(rtsp, "__file__", str(tmp_path / "rtsp.py"))
    return Rtsp(RtspConfig("rtsp://:8123/x/{source}", 20.0, encoder="jpegenc"), ["a", ""])


def waited(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_pictures_go_to_the_server_with_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = served({"pictures": 1}, tmp_path, monkeypatch)
    try:
        assert "everybody who reaches this machine can watch" in caplog.text
        waited(lambda: out.to_dict()["watched"] == 2)
        assert out.to_dict() == {"output": "rtsp", "encoder": "x264enc", "watched": 2, "starts": 1}
        picture = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
        out._send("a", picture[:4, :6])
        waited(lambda: (tmp_path / "data").exists())
        assert (tmp_path / "data").read_bytes() == struct.pack("<II", 6, 4) + picture[:4, :6].tobytes()
        settings = json.loads((tmp_path / "settings.json").read_text())
        paths = [s["path"] for s in settings["streams"]]
        assert paths == ["/x/a", f"/x/{ONLY}"]
        del settings["streams"]
        assert settings == {"host": "0.0.0.0", "port": 8123, "rate": 20.0, "kbps": 2000, "encoders": ["jpegenc"]}
        waited(lambda: out.to_dict()["watched"] == 1)
    finally:
        out.close()


@pytest.mark.parametrize(("code", "error"), [(3, EnvironmentMissing), (1, RunError)])
def test_a_server_that_does_not_start_says_why(code: int, error: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(error, match="the last line") as caught:
        served({"error": "first\nthe last line", "code": code}, tmp_path, monkeypatch)
    found: Any = caught.value
    assert isinstance(found, EdgedlaError)
    assert found.where == ("outputs.rtsp" if code == 3 else "outputs.rtsp.url")
    assert ("libgstrtspserver" in (found.hint or "")) is (code == 3)


@pytest.mark.parametrize(
    ("jetson", "target", "first"),
    [(True, "agx-orin-64gb", "nvv4l2h264enc"), (True, "orin-nano-8gb", "x264enc"), (False, "", "x264enc")],
)
def test_hardware_encodes_where_there_is_one(jetson: bool, target: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgedla.targets.jetson.on_jetson", lambda: jetson)
    monkeypatch.setattr("edgedla.targets.board.board_target", lambda: target)
    names = encoders("auto")
    assert names[0] == first
    assert names[-3:] == ["x264enc", "openh264enc", "jpegenc"]


class Recorded:
    """A library: every function is there, and says with what it was called."""

    def __init__(self, calls: List[Tuple[str, Tuple[Any, ...]]], **answers: Any) -> None:
        self._calls, self._answers = calls, answers

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> Any:
            self._calls.append((name, tuple(getattr(a, "value", a) for a in arguments)))
            answer = self._answers.get(name, 7)
            return answer(*arguments) if callable(answer) else answer

        return called


def stream(level: List[int]) -> Tuple[Any, List[Tuple[str, Tuple[Any, ...]]], int]:
    """A stream on fakes with a viewer; the descriptor that its pictures come from."""
    calls: List[Tuple[str, Tuple[Any, ...]]] = []
    app = Recorded(calls, gst_app_src_get_current_level_bytes=lambda source: level[0])
    names = SimpleNamespace(
        gst=Recorded(calls), app=app, rtsp=Recorded(calls), gobject=Recorded(calls, g_type_name_from_instance=b"GstAppSink")
    )
    fd, theirs = os.pipe()
    made = Stream(names, 4, fd, "/cam", "( launch )", 9)  # type: ignore[arg-type]
    made._configure(None, 1, None)
    return made, calls, theirs


def of(calls: Sequence[Tuple[str, Tuple[Any, ...]]], name: str) -> List[Tuple[Any, ...]]:
    return [arguments for called, arguments in calls if called == name]


def test_a_stream_is_set_up_for_its_path_and_says_who_watches(capfd: pytest.CaptureFixture[str]) -> None:
    made, calls, _ = stream([0])
    assert of(calls, "gst_rtsp_media_factory_set_launch") == [(7, b"( launch )")]
    assert of(calls, "gst_rtsp_media_factory_set_shared") == [(7, 1)]
    assert of(calls, "gst_rtsp_mount_points_add_factory") == [(9, b"/cam", 7)]
    signals = [arguments[1] for arguments in of(calls, "g_signal_connect_data")]
    assert signals == [b"media-configure", b"element-added", b"unprepared"]
    made._added(1, 2, None)
    assert [s.value for s in made._sinks] == [7]
    assert not made.left
    made._unprepared(1, None)
    assert made.left
    assert made._sinks == []
    assert capfd.readouterr().out == "view 4 1\nview 4 0\n"


@pytest.mark.parametrize(("width", "rows"), [(4, 12), (5, 16), (1, 4)])
def test_rows_are_padded_to_four_bytes(width: int, rows: int) -> None:
    made, calls, _ = stream([0])
    made._push(bytes(range(width * 3)) * 2, width, 2)
    (filled,) = of(calls, "gst_buffer_fill")
    row = bytes(range(width * 3)).ljust(rows, b"\0")
    assert filled == (7, 0, row * 2, rows * 2)
    assert of(calls, "gst_buffer_new_allocate") == [(None, rows * 2, None)]
    text = f"video/x-raw,format=BGR,width={width},height=2,framerate=0/1".encode()
    assert of(calls, "gst_caps_from_string") == [(text,)]
    made._push(bytes(width * 6), width, 2)
    assert len(of(calls, "gst_caps_from_string")) == 1
    assert len(of(calls, "gst_app_src_push_buffer")) == 2


def test_two_pictures_wait_at_most_and_one_packet_is_let_go_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    level, now = [24], [100.0]
    made, calls, _ = stream(level)
    monkeypatch.setattr("edgedla.runtime.outputs.rtsp_child.time.monotonic", lambda: now[0])
    made._added(1, 2, None)
    made._push(bytes(12), 4, 1)
    assert len(of(calls, "gst_app_src_push_buffer")) == 1
    level[0] = 25
    for at_s, dropped in ((100.0, []), (100.9, []), (101.0, [1]), (101.1, [1, 0]), (101.9, [1, 0]), (102.0, [1, 0, 1])):
        now[0] = at_s
        made._push(bytes(12), 4, 1)
        assert [arguments[2] for arguments in of(calls, "g_object_set") if arguments[1] == b"drop"] == dropped
    assert len(of(calls, "gst_app_src_push_buffer")) == 1
    level[0] = 0
    made._push(bytes(12), 4, 1)
    assert len(of(calls, "gst_app_src_push_buffer")) == 2


def test_pictures_come_through_the_pipe() -> None:
    made, calls, theirs = stream([0])
    os.write(theirs, struct.pack("<II", 4, 1) + bytes(range(12)))
    waited(lambda: bool(of(calls, "gst_app_src_push_buffer")))
    assert of(calls, "gst_buffer_fill")[0][2] == bytes(range(12))
    made._source = None
    os.write(theirs, struct.pack("<II", 4, 1) + bytes(12))
    assert len(of(calls, "gst_app_src_push_buffer")) == 1


def test_the_first_encoder_that_is_there_is_taken() -> None:
    calls: List[Any] = []
    gst = Recorded(calls, gst_element_factory_find=lambda name: name == b"b")
    assert encoder_of(SimpleNamespace(gst=gst), ["a", "b", "c"]) == "b"  # type: ignore[arg-type]
    assert [arguments for _, arguments in calls] == [(b"a",), (b"b",)]


def test_viewers_that_vanished_are_cleaned_up_and_their_memory_is_given_back() -> None:
    calls: List[Any] = []
    libraries: Any = SimpleNamespace(rtsp=Recorded(calls), gobject=Recorded(calls))
    streams: Any = [SimpleNamespace(left=True), SimpleNamespace(left=False)]
    assert clean_up(libraries, 3, streams)(None) == 1
    assert [s.left for s in streams] == [False, False]
    assert [name for name, _ in calls] == ["gst_rtsp_server_get_session_pool", "gst_rtsp_session_pool_cleanup", "g_object_unref"]


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_take_rate_and_key_frames(name: str) -> None:
    chain = ENCODERS[name] % {"kbps": 3, "bps": 3000, "gop": 15}
    assert f"{name}" in chain
    if name != "jpegenc":
        assert f"bitrate={3 if name == 'x264enc' else 3000} " in chain
        assert chain.endswith("rtph264pay name=pay0 pt=96 config-interval=1")
        assert "15" in chain
    else:
        assert chain.endswith("rtpjpegpay name=pay0 pt=26")


# --- Films


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """(elements, what gst-launch-1.0 does) -> the folder that PATH names alone."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program(bin_folder / "nice", '#!/bin/sh\nshift 2\nexec "$@"\n')
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setattr(mp4, "encoders", lambda choice: ["x264enc", "openh264enc", "jpegenc"])
    mp4.encoder.cache_clear()

    def made(elements: str, launch: str = "exit 0", without: str = "") -> Path:
        program(bin_folder / "gst-inspect-1.0", f'#!/bin/sh\ncase " {elements} " in *" $2 "*) exit 0;; esac\nexit 1\n')
        program(bin_folder / "gst-launch-1.0", f'#!/bin/sh\necho "$@" > {tmp_path}/command\n{launch}\n')
        if without:
            (bin_folder / without).unlink()
        return bin_folder

    yield made
    mp4.encoder.cache_clear()


NEEDED = "mp4mux avidemux jpegdec h264parse"


@pytest.mark.parametrize(
    ("elements", "without", "name"),
    [
        (f"{NEEDED} x264enc openh264enc", "", "x264enc"),
        (f"{NEEDED} openh264enc", "", "openh264enc"),
        (f"{NEEDED} jpegenc", "", None),
        (f"{NEEDED} x264enc", "gst-inspect-1.0", None),
        (f"{NEEDED} x264enc", "gst-launch-1.0", None),
        *((f"{NEEDED} x264enc".replace(n, ""), "", None) for n in NEEDED.split()),
    ],
)
def test_films_are_encoded_where_all_elements_are(elements: str, without: str, name: Optional[str], installed: Any) -> None:
    installed(elements, without=without)
    assert mp4.encoder() == name


_WRITES = 'for a in "$@"; do case "$a" in location=*) last=${a#location=}; esac; done; eval "f=$last"; echo film > "$f"'


@pytest.mark.parametrize(
    ("launch", "suffix", "said"),
    [
        (_WRITES, ".mp4", ""),
        (f"{_WRITES}; echo bad >&2; exit 1", ".avi", "GStreamer's x264enc does not encode it: bad"),
        (f"{_WRITES}; exit 4", ".avi", "does not encode it: exit code 4"),
        (": ", ".avi", "stays as it is"),
        ("while :; do :; done", ".avi", "its time was up"),
    ],
)
def test_a_clip_becomes_mp4_or_stays(
    launch: str, suffix: str, said: str, installed: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    installed(f"{NEEDED} x264enc", launch)
    clip = tmp_path / "a clip.avi"
    clip.write_bytes(b"x")
    kept = mp4.to_mp4(clip, 0.5 if "while" in launch else 20.0)
    assert kept == clip.with_suffix(suffix)
    assert [p.name for p in tmp_path.iterdir() if p.suffix in (".avi", ".mp4")] == [kept.name]
    assert said in caplog.text
    command = (tmp_path / "command").read_text()
    assert command.startswith(
        f'-q filesrc location="{clip}" ! avidemux ! jpegdec ! {mp4.EVEN} ! videoconvert ! video/x-raw,format=I420 ! x264enc '
    )
    assert "! h264parse ! mp4mux faststart=true ! filesink location=" in command


def test_without_time_a_clip_stays(installed: Any, tmp_path: Path) -> None:
    installed(f"{NEEDED} x264enc")
    assert mp4.to_mp4(tmp_path / "a.avi", 0.0) == tmp_path / "a.avi"
    assert not (tmp_path / "command").exists()
