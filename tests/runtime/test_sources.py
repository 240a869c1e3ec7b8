"""Source URIs, pipelines for GStreamer, and the sources that need no camera."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from edgedla.errors import EnvironmentMissing, RunError, UsageError
from edgedla.runtime.sources import open_source, parse_source
from edgedla.runtime.sources.gstreamer import LEAKY, SINK, opencv_pipeline, pipeline_head

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
        (
            "gst://videotestsrc pattern=ball ! video/x-raw,width=64",
            "gst",
            "videotestsrc pattern=ball ! video/x-raw,width=64",
        ),
    ],
)
def test_uris_are_read_as_users_write_them(text, scheme, place):
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
        ("synthetic://?width=-5", "0 to 1000000"),
    ],
)
def test_a_wrong_uri_says_what_is_allowed(text, says):
    with pytest.raises(UsageError, match=says):
        parse_source(text)


@pytest.mark.parametrize(
    "text",
    [
        "csi://0?width=1920&height=1080&rate=30&flip=rotate-180",
        "v4l2:///dev/video0?codec=mjpeg",
        "rtsp://cam/1?codec=h265",
    ],
)
@pytest.mark.parametrize("jetson", [True, False])
def test_every_live_pipeline_is_bounded_and_leaky(text, jetson):
    pipeline = opencv_pipeline(parse_source(text), jetson)
    assert LEAKY in pipeline
    assert pipeline.endswith(SINK)
    assert "drop=true max-buffers=1" in SINK
    assert any(e in pipeline for e in ("nvarguscamerasrc", "nvv4l2decoder", "nvjpegdec")) == (
        jetson or text.startswith("csi")
    )


def test_a_file_name_with_quotes_cannot_add_elements_to_the_pipeline():
    uri = parse_source('rtsp://cam/a" ! filesink location=/tmp/x ! "')
    assert '\\"' in pipeline_head(uri, False)


def test_a_missing_file_and_an_empty_folder_are_run_errors(tmp_path):
    with pytest.raises(RunError, match="no such file"):
        open_source(str(tmp_path / "no.mp4")).open()
    with pytest.raises(RunError, match="no images"):
        open_source(str(tmp_path)).open()


def test_images_come_in_the_order_of_their_names(tmp_path):
    for i, name in enumerate(["b.png", "a.png", "c.png"]):
        cv2.imwrite(str(tmp_path / name), np.full((8, 10, 3), 10 * i, np.uint8))
    source = open_source(str(tmp_path))
    assert source.open() == (8, 10)
    assert [int(source.read()[0, 0, 0]) for _ in range(3)] == [10, 0, 20]
    assert source.read() is None


def test_a_broken_image_names_its_file(tmp_path):
    (tmp_path / "x.png").write_bytes(b"not a png")
    with pytest.raises(RunError, match=r"x\.png"):
        open_source(str(tmp_path)).open()


def frames_of(source):
    frame = source.read()
    while frame is not None:
        yield frame
        frame = source.read()


def test_a_video_file_ends_and_can_loop(tmp_path):
    path = str(tmp_path / "v.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 24))
    for i in range(5):
        writer.write(np.full((24, 32, 3), i * 40, np.uint8))
    writer.release()
    source = open_source(path)
    assert source.open() == (24, 32)
    assert len(list(frames_of(source))) == 5
    source.close()
    looped = open_source(path, {"loop": "true", "frames": 12})
    looped.open()
    assert len(list(frames_of(looped))) == 12


@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer's gst-launch-1.0 is not installed")
def test_real_gstreamer_delivers_frames_of_a_width_that_needs_row_padding():
    source = open_source("gst://videotestsrc num-buffers=7 pattern=white", {"width": 70, "height": 30})
    if type(source).__name__ != "GstLaunchSource":
        pytest.skip("this OpenCV has GStreamer itself")
    try:
        assert source.open() == (30, 70)
        frames = list(frames_of(source))
    finally:
        source.close()
    # The leaky queue drops what is not read in time.
    assert 1 <= len(frames) <= 7
    assert all(f.shape == (30, 70, 3) and f.min() > 230 for f in frames)


@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer's gst-launch-1.0 is not installed")
def test_a_broken_gstreamer_pipeline_says_what_gstreamer_says():
    source = open_source("gst://nosuchelement")
    if type(source).__name__ != "GstLaunchSource":
        pytest.skip("this OpenCV has GStreamer itself")
    source.open()
    with pytest.raises(RunError, match="nosuchelement"):
        source.read()
    source.close()


def test_a_csi_camera_without_any_gstreamer_is_explained(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr("edgedla.runtime.sources.opencv.has_gstreamer", lambda: False)
    with pytest.raises(EnvironmentMissing, match="system-site-packages"):
        open_source("csi://0")


def test_synthetic_frames_are_the_same_for_the_same_seed():
    def first(seed):
        source = open_source(f"synthetic://?seed={seed}&width=64&height=48&frames=2")
        source.open()
        return source.read()

    assert np.array_equal(first(1), first(1))
    assert not np.array_equal(first(1), first(2))


def test_no_environment_variable_is_left_behind():
    before = dict(os.environ)
    open_source("synthetic://?frames=1").open()
    assert dict(os.environ) == before
