"""Source URIs, pipelines for GStreamer, and the sources that need no camera."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from edgedla.errors import DataError, EnvironmentMissing, RunError, UsageError
from edgedla.runtime.frames import Frame
from edgedla.runtime.outputs.draw import picture_of
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource
from edgedla.runtime.sources.gstreamer import LEAKY, pipeline_head
from edgedla.runtime.sources.opencv import OpenCvSource
from edgedla.text.addresses import has_secret, shown, without_secrets

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


@pytest.mark.parametrize(
    ("text", "scheme", "place"),
    [
        ("csi://0", "csi", "0"),
        ("v4l2:///dev/video2?width=1280&height=720&rate=30", "v4l2", "/dev/video2"),
        ("rtsp://user:pw@cam/stream?channel=1&codec=h265", "rtsp", "rtsp://user:pw@cam/stream?channel=1"),
        ("synthetic://?rate=30", "synthetic", ""),
        ("film.mp4", "file", "film.mp4"),
        ("photo.JPG", "images", "photo.JPG"),
        ("file:///tmp/film.mp4", "file", "/tmp/film.mp4"),
        ("file:///tmp/my%20film.mp4", "file", "/tmp/my film.mp4"),
        ("file:///dev", "images", "/dev"),
        ("v4l2://2", "v4l2", "/dev/video2"),
        ("v4l2://", "v4l2", "/dev/video0"),
        ("csi://", "csi", ""),
        ("rtsps://cam/1", "rtsp", "rtsps://cam/1"),
        ("https://cam/video.mjpg?id=7&rate=5", "http", "https://cam/video.mjpg?id=7"),
        ("rtsp://cam/1?token=a%26b+c&video&rate=5", "rtsp", "rtsp://cam/1?token=a%26b+c&video"),
        ("gst://videotestsrc pattern=ball ! video/x-raw,width=64", "gst", "videotestsrc pattern=ball ! video/x-raw,width=64"),
    ],
)
def test_common_spellings_of_source_addresses_are_parsed(text, scheme, place):
    uri = parse_source(text)
    assert (uri.scheme, uri.place) == (scheme, place)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("v4l://0", "did you mean v4l2"),
        ("csi://0?witdh=3", "did you mean width"),
        ("csi://0?width=wide", "a number"),
        ("csi://0?flip=left", "rotate-180"),
        ("csi://front", "a number"),
        ("csi://0?width=640", "both or neither"),
        ("csi://0?width=640&height=0", "both or neither"),
        ("csi://0?width=100000&height=480", "at most 32768"),
        ("csi://0?frames=1.5", "a whole number"),
        ("csi://0?codec=h264", "csi:// has no option 'codec'"),
        ("synthetic://?flip=horizontal", "synthetic:// has no option 'flip'"),
        ("v4l2://0?codec=h264", "auto, raw, mjpeg"),
        ("synthetic://?width=-5", "0 to 1000000"),
    ],
)
def test_an_invalid_source_address_names_the_allowed_forms(text, says):
    with pytest.raises(UsageError, match=says):
        parse_source(text)


@pytest.mark.parametrize(
    "text",
    [
        "csi://0?width=1920&height=1080&rate=30&flip=rotate-180",
        "v4l2:///dev/video0?codec=mjpeg",
        "rtsp://cam/1?codec=h265",
        "rtsp://cam/1?codec=mjpeg",
    ],
)
@pytest.mark.parametrize("jetson", [True, False])
def test_every_live_pipeline_is_bounded_and_leaky(text, jetson):
    pipeline = pipeline_head(parse_source(text), jetson)
    assert LEAKY in pipeline
    assert any(e in pipeline for e in ("nvarguscamerasrc", "nvv4l2decoder", "nvjpegdec")) == (jetson or text.startswith("csi"))


def test_a_file_name_with_quotes_cannot_add_elements_to_the_pipeline():
    uri = parse_source('rtsp://cam/a" ! filesink location=/tmp/x ! "')
    assert '\\"' in pipeline_head(uri, False)


def test_a_missing_file_and_an_empty_folder_are_data_errors(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        open_source(str(tmp_path / "no.mp4")).open()
    with pytest.raises(DataError, match="no images"):
        open_source(str(tmp_path)).open()


def test_a_broken_video_file_is_a_data_error(tmp_path):
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    film = tmp_path / "x.mp4"
    film.write_bytes(b"nothing of the kind" * 9)
    with pytest.raises(DataError, match="check that the video file is complete"):
        open_source(str(film)).open()


def test_images_come_in_the_order_of_their_names(tmp_path):
    for i, name in enumerate(["b.png", "a.png", "c.png"]):
        cv2.imwrite(str(tmp_path / name), np.full((8, 10, 3), 10 * i, np.uint8))
    source = open_source(str(tmp_path))
    assert source.open() == (8, 10)
    assert [int(source.read()[0, 0, 0]) for _ in range(3)] == [10, 0, 20]
    assert source.read() is None


def test_a_broken_image_names_its_file(tmp_path):
    (tmp_path / "x.png").write_bytes(b"not a png")
    with pytest.raises(DataError, match=r"x\.png"):
        open_source(str(tmp_path)).open()


def test_a_broken_image_in_a_folder_is_skipped(tmp_path, caplog):
    for name in ("a.png", "c.png"):
        cv2.imwrite(str(tmp_path / name), np.zeros((8, 10, 3)))
    for name in ("0.png", "b.png", "d.png"):
        (tmp_path / name).write_bytes(b"not a png")
    source = open_source(str(tmp_path))
    assert source.open() == (8, 10)
    assert len(list(frames_of(source))) == 2
    assert [name for name in ("0.png", "b.png", "d.png") if name not in caplog.text] == []
    looped = open_source(str(tmp_path), {"loop": "true", "frames": 5})
    looped.open()
    assert len(list(frames_of(looped))) == 5


def test_a_looped_folder_whose_images_break_ends_with_an_error(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((8, 10, 3)))
    source = open_source(str(tmp_path), {"loop": "true"})
    source.open()
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(RunError, match="no image is left"):
        source.read()


def frames_of(source):
    frame = source.read()
    while frame is not None:
        yield frame
        frame = source.read()


def test_a_video_file_ends_and_can_loop(tmp_path):
    path = str(tmp_path / "v.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 24))
    for i in range(5):
        writer.write(np.full((24, 32, 3), i * 40 % 256, np.uint8))
    writer.release()
    source = open_source(path)
    assert source.open() == (24, 32)
    assert len(list(frames_of(source))) == 5
    source.close()
    looped = open_source(path, {"loop": "true", "frames": 12})
    looped.open()
    assert len(list(frames_of(looped))) == 12


#: Addresses as cameras and people write them; "S3cret" stands for what nobody else may read.
SECRET_SOURCES = [
    ("rtsp://user:S3cret@cam:554/1?latency=50", "rtsp://cam:554/..."),
    ("rtsp://user:p:S3cret@cam:554/1", "rtsp://cam:554/..."),
    ("rtsp://user:a/S3cret@cam/1", "rtsp://..."),
    ("rtsp://user:a?S3cret@cam/1", "rtsp://..."),
    ("rtsp://user:a#S3cret@cam/1", "rtsp://..."),
    ("rtsp://user:a@S3cret@cam/1", "rtsp://cam/..."),
    ("rtsp://user:a@b/S3cret@cam/1", "rtsp://..."),
    ("rtsp://user:S3cret@[fe80::1]:554/1", "rtsp://[fe80::1]:554/..."),
    ("rtsp://S3cret@cam/1", "rtsp://cam/..."),
    ("rtsps://user:S3cret@cam", "rtsps://cam"),
    ("rtsp://user:S3cret", "rtsp://..."),
    ("RTSP://user:S3cret@cam/1", "RTSP://cam/..."),
    ("rtsp://cam/live?user=admin&password=S3cret", "rtsp://cam/..."),
    ("rtsp://cam/live?password=a@S3cret", "rtsp://..."),
    ("rtsp://cam/user=admin_password=S3cret_channel=1_stream=0.sdp", "rtsp://cam/..."),
    ("rtsp://cam/S3cret/live", "rtsp://cam/..."),
    ("http://cam/video?token=S3cret", "http://cam/..."),
    ("https://user:S3cret@cam/video", "https://cam/..."),
    ("http://cam:8080/?pwd=S3cret", "http://cam:8080/..."),
    ("gst://rtspsrc location=rtsp://cam/1 user-id=admin user-pw=S3cret ! decodebin", "gst://rtspsrc ! decodebin"),
    ('gst://rtspsrc location=rtsp://cam/1 user-pw="a !S3cret! \\" !S3cret! b" ! decodebin', "gst://rtspsrc ! decodebin"),
    ("gst://souphttpsrc location=http://a:S3cret@cam/ ! jpegdec", "gst://souphttpsrc ! jpegdec"),
]


@pytest.mark.parametrize(("text", "expected"), SECRET_SOURCES)
def test_a_password_reaches_the_camera_but_no_log(text, expected):
    uri = parse_source(text)
    assert uri.text == expected
    assert "S3cret" in uri.place
    assert "S3cret" not in repr(uri)
    said = without_secrets(f'Could not open resource "{uri.place}": refused. {uri.place}'.replace(uri.place, uri.text))
    assert "S3cret" not in said
    if uri.scheme != "gst":
        assert "S3cret" not in without_secrets(f"ERROR: cannot resolve {text}; again: '{text}'")
    with pytest.raises(UsageError) as refused:
        parse_source(text, {"colour": "red"})
    assert "S3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "rtps://user:S3cret@cam/1",
        "srtp://cam:9000?passphrase=S3cret",
        "rtsp:user:S3cret@cam",
        "rtsp:/S3cret@cam",
        "user:S3cret@cam",
        "user:S3cret/a@cam:554/1",
        "rtsp//user:S3cret@cam/1",
        "//user:S3cret@cam/1",
        "rtsp://user:S3cret@[::1/x",
    ],
)
def test_a_refused_address_with_a_secret_is_not_printed(text):
    with pytest.raises(UsageError) as refused:
        parse_source(text)
    assert "S3cret" not in str(refused.value)
    assert has_secret(text)
    assert "S3cret" not in shown(text)


def test_opencv_does_not_print_the_address(capfd):
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    source = OpenCvSource(parse_source("http://user:%20S3cret@127.0.0.1:9/1"))
    with pytest.raises(RunError, match="OpenCV cannot open the source"):
        source.open()
    assert "S3cret" not in "".join(capfd.readouterr())


def test_addresses_without_secrets_stay_readable():
    assert parse_source("rtsp://cam:554").text == "rtsp://cam:554"
    assert parse_source("csi://0").text == "csi://0"
    assert parse_source("file:///data/a@b.mp4").text == "file:///data/a@b.mp4"
    assert parse_source("synthetic://?rate=5").text == "synthetic://?rate=5"
    assert parse_source("gst://videotestsrc num-buffers=7 ! video/x-raw,width=4").text == "gst://videotestsrc ! ..."
    assert without_secrets("ERROR: udpsrc0: no data from 10.0.0.1") == "ERROR: udpsrc0: no data from 10.0.0.1"


@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
def test_no_argument_of_a_process_holds_the_address():
    source = GstLaunchSource(parse_source("gst://videotestsrc name=S3cret is-live=true ! video/x-raw,width=32,height=24"))
    try:
        assert source.open() == (24, 32)
        lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.is_file()]
        assert any(b"gst_child" in line for line in lines)
        assert not any(b"S3cret" in line and b"pytest" not in line for line in lines)
    finally:
        source.close()


gstreamer = pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer's gst-launch-1.0 is not installed")


@gstreamer
@pytest.mark.parametrize(("w", "h"), [(70, 30), (71, 31), (640, 480)])
def test_real_gstreamer_delivers_frames_in_the_size_of_the_pipeline(w, h):
    source = GstLaunchSource(
        parse_source(f"gst://videotestsrc num-buffers=7 pattern=white ! video/x-raw,width={w},height={h},framerate=20/1")
    )
    try:
        assert source.open() == (h, w)
        assert source.rate == 20
        frames = list(frames_of(source))
    finally:
        source.close()
    assert len(frames) == 7, "what is no camera is read in full"
    assert all(f.shape == (h, w, 3) and f.min() > 230 for f in frames)


@gstreamer
@pytest.mark.parametrize(("flip", "bright"), [("none", "top"), ("vertical", "bottom"), ("rotate-180", "bottom")])
def test_real_gstreamer_scales_rotates_and_limits_the_rate(flip, bright):
    # videobox makes an image whose upper half is white.
    pipeline = "videotestsrc is-live=true pattern=white ! video/x-raw,width=64,height=32,framerate=50/1 ! videobox bottom=-32"
    source = GstLaunchSource(parse_source(f"gst://{pipeline}", {"width": 32, "height": 24, "rate": 10, "flip": flip}))
    try:
        assert source.open() == (24, 32)
        assert source.rate == 10
        frame = source.read()
    finally:
        source.close()
    halves = {"top": frame[:10].mean(), "bottom": frame[14:24].mean()}
    assert max(halves, key=halves.get) == bright


@gstreamer
def test_a_broken_gstreamer_pipeline_reports_gstreamers_message():
    source = GstLaunchSource(parse_source("gst://nosuchelement"))
    with pytest.raises(RunError, match='it does not start: no element "nosuchelement"'):
        source.open()
    source.close()
    with pytest.raises(UsageError, match="the address holds no pipeline"):
        parse_source("gst:// ")


@gstreamer
@pytest.mark.parametrize(
    ("uri", "says"),
    [("rtsp://127.0.0.1:9/x", "Failed to connect"), ("v4l2:///dev/video99", "Cannot identify device '/dev/video99'")],
)
def test_a_missing_camera_is_an_error_at_opening(uri, says):
    source = GstLaunchSource(parse_source(uri))
    with pytest.raises(RunError, match=says) as refused:
        source.open()
    source.close()
    assert ".c(" not in str(refused.value), "places in GStreamer's sources"


@gstreamer
def test_a_cameras_end_of_stream_is_an_interruption():
    for scheme, ends in (("gst", True), ("rtsp", False)):
        source = GstLaunchSource(parse_source("gst://videotestsrc num-buffers=2"))
        source.open()
        object.__setattr__(source._spec, "scheme", scheme)
        if ends:
            assert len(list(frames_of(source))) <= 2
        else:
            with pytest.raises(RunError, match="gives no more frames"):
                list(frames_of(source))
        source.close()


@gstreamer
def test_a_stream_that_changes_its_size_is_opened_anew():
    source = GstLaunchSource(parse_source("gst://videotestsrc is-live=true num-buffers=3"))
    source.open()
    with pytest.raises(RunError, match="changed to 8x6"):
        source._hear(b"edgedla: caps = video/x-raw, format=(string)I420, width=(int)8, height=(int)6")
    source.close()


@gstreamer
@pytest.mark.parametrize("format", ["I420", "NV12", "BGR", "RGB", "Y42B"])
@pytest.mark.parametrize("size", [(320, 240), (322, 243), (331, 241), (1280, 720)])
@pytest.mark.parametrize("full", [False, True])
def test_colours_are_gstreamers_in_every_format_size_and_range(format, size, full):
    """The bars of videotestsrc: white, yellow, cyan, green, magenta, red, blue."""
    wide, caps = format not in ("BGR", "RGB"), f"format={format},width={size[0]},height={size[1]},framerate=20/1"
    matrix = "4:0:0" if size[1] < 577 else "3:5:1"
    ranged = f",colorimetry=1:{matrix}" if full and wide else ""
    # By itself it makes values of video range, whatever the caps state.
    made = f"{caps.replace(format, 'RGB')} ! videoconvert ! video/x-raw,{caps}{ranged}" if ranged else caps
    source = GstLaunchSource(parse_source(f"gst://videotestsrc num-buffers=2 ! video/x-raw,{made}"))
    try:
        h, w = source.open()
        frame = Frame(0, source.read(), 0.0, pixels=source.pixels)
    finally:
        source.close()
    assert frame.hw == (h, w)
    assert (size[0] - w, size[1] - h) in ((0, 0), (size[0] % 2, size[1] % 2))
    if format in ("I420", "NV12"):
        assert source.pixels == "nv12" + "-709" * (size[1] > 576) + "-full" * bool(ranged)
    bars = [(255, 255, 255), (0, 255, 255), (255, 255, 0), (0, 255, 0), (255, 0, 255), (0, 0, 255), (255, 0, 0)]
    picture = picture_of(frame)[0]
    for n, bar in enumerate(bars):
        assert np.abs(picture[5, (2 * n + 1) * w // 14].astype(int) - bar).max() <= 6, (n, source.pixels)


def test_cameras_go_through_gstreamer_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    kinds = {type(open_source(u)).__name__ for u in ("csi://0", "v4l2://0", "rtsp://cam/1", "http://cam/1")}
    assert kinds == {"GstLaunchSource"}
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert type(open_source("rtsp://cam/1")).__name__ == "OpenCvSource"


def video(path, count=5):
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 24))
    for i in range(count):
        writer.write(np.full((24, 32, 3), i * 40 % 256, np.uint8))
    writer.release()
    return str(path)


def test_a_file_with_a_rate_is_paced_like_a_camera_and_still_ends(tmp_path):
    source = open_source(video(tmp_path / "v.avi"), {"rate": 50})
    source.open()
    started = time.monotonic()
    assert (source.live, source.rate, len(list(frames_of(source)))) == (True, 50, 5)
    assert time.monotonic() - started >= 4 / 50


def test_a_truncated_video_file_gives_a_warning(tmp_path, caplog):
    path = tmp_path / "v.avi"
    video(path, 60)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    source = open_source(str(path))
    source.open()
    source._capture = Promising(source._capture, 60)
    assert 0 < len(list(frames_of(source))) < 60
    assert "is the file complete?" in caplog.text


class Promising:
    """A VideoCapture whose header promises `count` frames; what OpenCV makes of a cut file differs by release."""

    def __init__(self, capture, count):
        self._capture, self._count = capture, count

    def read(self):
        return self._capture.read()

    def get(self, what):
        return self._count if what == cv2.CAP_PROP_FRAME_COUNT else self._capture.get(what)


def test_options_after_a_path_are_distinguished_from_a_files_name(tmp_path):
    (tmp_path / "film.avi").touch()
    with pytest.raises(UsageError, match=r"a path takes no options") as error:
        parse_source(f"{tmp_path}/film.avi?loop=1")
    assert parse_source(str(error.value.hint).partition(",")[0]).loop
    (tmp_path / "film.avi?loop=1").touch()
    assert parse_source(f"{tmp_path}/film.avi?loop=1").place == f"{tmp_path}/film.avi?loop=1"


def test_a_file_without_an_index_loops_too(tmp_path):
    path = tmp_path / "raw.mjpeg"
    path.write_bytes(b"".join(cv2.imencode(".jpg", np.full((8, 8, 3), 50 * i, np.uint8))[1].tobytes() for i in range(4)))
    source = open_source(str(path), {"loop": "true", "frames": 10})
    source.open()
    assert [round(f.mean() / 50) for f in frames_of(source)] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_images_keep_their_own_sizes_unless_one_is_given(tmp_path):
    for i, hw in enumerate([(8, 10), (20, 6)]):
        cv2.imwrite(str(tmp_path / f"{i}.png"), np.zeros((*hw, 3), np.uint8))
    for options, shapes in ({}, [(8, 10), (20, 6)]), ({"width": 4, "height": 2}, [(2, 4), (2, 4)]):
        source = open_source(str(tmp_path), options)
        assert source.open() == shapes[0]
        assert [f.shape[:2] for f in frames_of(source)] == shapes


def test_images_can_be_turned(tmp_path):
    image = np.zeros((4, 6, 3), np.uint8)
    image[0, 0] = 255
    cv2.imwrite(str(tmp_path / "a.png"), image)
    source = open_source(str(tmp_path), {"flip": "horizontal"})
    source.open()
    assert source.read()[0, 5, 0] == 255


def test_a_csi_camera_without_any_gstreamer_is_explained(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentMissing, match=r"gst-launch-1\.0"):
        open_source("csi://0")


def test_a_synthetic_source_that_ends_gives_the_frames_of_one_that_does_not():
    """The picture is one number of Python's generator, made in parts; the last frame is made of it without a copy."""
    h, w = 150, 201
    pictures = []
    for frames in (0, 3):
        source = open_source(f"synthetic://?seed=5&width={w}&height={h}&frames={frames}")
        source.open()
        pictures.append([source.read().copy() for _ in range(3)])
    assert np.array_equal(*pictures)
    source.close()
    source.open()
    assert np.array_equal(source.read(), pictures[0][0])
    noise = random.Random(5).getrandbits(8 * h * w * 3).to_bytes(h * w * 3, "little")
    base = (np.frombuffer(noise, np.uint8).reshape(h, w, 3) >> 1) + np.uint8(56)
    counter = open_source(f"synthetic://?seed=5&width={w}&height={h}&pattern=counter")
    counter.open()
    assert np.array_equal(counter.read()[1:], base[1:])


def test_synthetic_frames_are_the_same_for_the_same_seed():
    def first(seed):
        source = open_source(f"synthetic://?seed={seed}&width=64&height=48&frames=2")
        source.open()
        return source.read()

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_opening_a_source_does_not_change_the_environment():
    before = dict(os.environ)
    open_source("synthetic://?frames=1").open()
    assert dict(os.environ) == before
