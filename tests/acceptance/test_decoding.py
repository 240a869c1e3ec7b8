"""P10: videos encoded and read back, by the real GStreamer if it is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from edgedla.acceptance.decoding import BARS_BGR, FRAMES, TOLERANCE, WANTED, decoding, off_by, read_back
from edgedla.acceptance.steps import Context

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")


def bars(height: int = 240, width: int = 320) -> np.ndarray:
    at = np.minimum(np.arange(width) * 7 // width, 6)
    return np.ascontiguousarray(np.broadcast_to(np.asarray(BARS_BGR, np.uint8)[at], (height, width, 3)))


def test_decoded_colour_bars_reveal_swapped_channels_and_rotation() -> None:
    assert off_by(bars()) == 0
    assert off_by(bars(1080, 1920)) == 0
    assert off_by(bars()[..., ::-1]) > 100, "red and blue are exchanged"
    assert off_by(bars()[:, ::-1]) > 100, "it is turned"
    assert off_by(np.full((240, 320, 3), 128, np.uint8)) > TOLERANCE


def test_a_decoded_picture_with_other_colours_differs(tmp_path: Path) -> None:
    from edgedla.runtime.sources import open_source

    for i, image in enumerate((bars(), 255 - bars())):
        cv2.imwrite(str(tmp_path / f"{i}.png"), image)
    whole = read_back("x", 1, lambda: open_source(str(tmp_path / "0.png")))
    broken = read_back("x", 1, lambda: open_source(str(tmp_path / "1.png")))
    assert (whole.differs, whole.data["pictures"]) == (False, 1)
    assert "levels of 255" in broken.seen
    assert broken.differs
    absent = read_back("x", 1, lambda: open_source(str(tmp_path / "2.png")))
    assert absent.differs
    assert absent.seen == absent.data["ended_by"]
    few = read_back("x", 2, lambda: open_source(str(tmp_path / "0.png")))
    assert (few.differs, few.seen) == (True, f"1 of {FRAMES} pictures, off by 0.0 levels of 255")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gst-launch-1.0") is None, reason="GStreamer is not installed")
def test_films_made_here_are_read_back_by_gstreamer_and_opencv(tmp_path: Path) -> None:
    findings = decoding(Context(str(tmp_path), str(tmp_path), False, ""))
    if not findings:
        pytest.skip("GStreamer has no encoder")
    # An encoder may be installed without its decoder: that is said, and is no fault of the film.
    judged = [f for f in findings if "no element" not in f.seen]
    if len(judged) < 2:
        pytest.skip("GStreamer lacks decoders")
    assert {f.seen for f in judged} == {WANTED}, findings
