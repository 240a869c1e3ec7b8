"""Streams on a Jetson: which steps run in NVMM memory, and what reaches the CPU."""

from __future__ import annotations

import pytest

from edgedla.runtime.sources.gstreamer import pipeline_head
from edgedla.runtime.sources.uri import parse_source

STREAMS = ["rtsp://camera/h264?codec=h264", "rtsp://camera/x", "rtsp://camera/m?codec=mjpeg", "http://camera/live"]


@pytest.mark.parametrize("stream", STREAMS)
def test_on_a_jetson_nvvidconv_scales_and_rotates(stream: str) -> None:
    mark = "&" if "?" in stream else "?"
    text = pipeline_head(parse_source(f"{stream}{mark}width=640&height=360&flip=rotate-180&rate=15"), True)
    assert "videoscale" not in text
    assert "videoflip" not in text
    before, _, after = text.partition("nvvidconv flip-method=2 ! video/x-raw,format=NV12,width=640,height=360")
    assert "queue name=edgedla-queue" in before, "late frames are dropped before they are converted"
    assert "framerate=15/1" in after
    assert "videoconvert" not in text, "no CPU converts colours"


@pytest.mark.parametrize("stream", STREAMS)
def test_off_a_jetson_software_elements_scale_and_rotate(stream: str) -> None:
    mark = "&" if "?" in stream else "?"
    text = pipeline_head(parse_source(f"{stream}{mark}width=640&height=360&flip=rotate-180"), False)
    assert "nvvidconv" not in text
    assert "videoflip video-direction=180" in text
    assert "videoscale ! video/x-raw,width=640,height=360" in text
