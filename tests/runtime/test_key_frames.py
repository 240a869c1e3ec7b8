"""A stream joined between two key frames. Needs GStreamer with x264enc, x265enc and libav."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from edgedla.runtime.sources import parse_source
from edgedla.runtime.sources.gst_launch import GstLaunchSource

FRAMES, GOP = 60, 20
ENCODERS = {
    "264": "x264enc tune=zerolatency key-int-max={gop} option-string=scenecut=0 byte-stream=true ! video/x-h264,stream-format=byte-stream",
    "265": "x265enc tune=zerolatency key-int-max={gop} option-string=scenecut=0 ! video/x-h265,stream-format=byte-stream",
}
needs = pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")


def has(*elements):
    return all(subprocess.run(["gst-inspect-1.0", e], capture_output=True).returncode == 0 for e in elements)


def without_the_first_key_frame(data, codec):
    """The stream as somebody sees it who comes a moment late; its headers stay."""
    units, late = re.split(b"(?=\x00\x00\x01)", data), False
    kept = []
    for unit in units:
        key = len(unit) > 3 and ((unit[3] & 31) == 5 if codec == "264" else (unit[3] >> 1 & 63) in (19, 20))
        if key and not late:
            late = True
            continue
        kept.append(unit)
    assert late
    return b"".join(kept)


@needs
@pytest.mark.parametrize("chosen", ["decodebin", "h{codec}parse ! avdec_h{codec} name=edgedla-decoder"])
@pytest.mark.parametrize("codec", ["264", "265"])
def test_decoded_streams_begin_with_a_key_frame(tmp_path, codec, chosen):
    if not has(f"x{codec}enc", f"avdec_h{codec}"):
        pytest.skip(f"no encoder or decoder of H.{codec}")
    path = tmp_path / f"v.h{codec}"
    encoder = ENCODERS[codec].format(gop=GOP)
    made = f"videotestsrc pattern=white num-buffers={FRAMES} ! video/x-raw,format=I420,width=64,height=48 ! {encoder}"
    subprocess.run(["gst-launch-1.0", "-q", *f"{made} ! filesink location={path}".split()], check=True, timeout=60)
    path.write_bytes(without_the_first_key_frame(path.read_bytes(), codec))
    # The queue lets go of what is late: the sleep has each frame looked at.
    pipeline = f"filesrc location={path} ! {chosen.format(codec=codec)} ! identity sleep-time=10000 ! videoconvert"
    source = GstLaunchSource(parse_source(f"gst://{pipeline}"))
    darkest = []
    rows, _ = source.open()
    try:
        while True:
            frame = source.read()
            if frame is None:
                break
            darkest.append(int(frame[:rows].min()))
    finally:
        source.close()
    assert 0 < len(darkest) <= FRAMES - GOP
    assert min(darkest) > 230, "none is grey"
