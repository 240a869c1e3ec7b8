"""The contract of every source of frames, see runtime.sources.base.Source. A new one needs an address that a laptop can open."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict

import numpy as np
import pytest

from edgedla.runtime.sources import OPENERS, open_source
from edgedla.runtime.sources.base import check_image

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

#: They need a device, a network or GStreamer; tests/runtime/test_sources.py and test_rtsp.py are about them.
CAMERAS = frozenset({"csi", "v4l2", "rtsp", "http", "gst", "rtmp", "srt", "udp"})
FRAMES = 3


def folder(at: Path) -> str:
    for n in range(FRAMES + 2):
        assert cv2.imwrite(str(at / f"{n}.png"), np.full((20, 30, 3), 40 * n, np.uint8))
    return f"images://{at}"


def film(at: Path) -> str:
    writer = cv2.VideoWriter(str(at / "v.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 25.0, (30, 20))
    for n in range(FRAMES + 2):
        writer.write(np.full((20, 30, 3), 40 * n, np.uint8))
    writer.release()
    return f"file://{at}/v.avi"


def own(at: Path) -> str:
    text = "import numpy as np\ndef frames():\n    for n in range(9):\n        yield np.full((20, 30, 3), n, np.uint8)\n"
    (at / "mine.py").write_text(text)
    return f"{at}/mine.py:frames"


#: Scheme -> makes what it reads in a folder, and returns its address.
ADDRESSES: Dict[str, Callable[[Path], str]] = {
    "file": film,
    "images": folder,
    "python": own,
    "synthetic": lambda at: "synthetic://?width=30&height=20",
}


@pytest.mark.parametrize("scheme", sorted(set(OPENERS) - CAMERAS))
def test_every_source_gives_repeatable_frames_of_its_size_and_ends(scheme: str, tmp_path: Path) -> None:
    assert scheme in ADDRESSES, "add what makes an address of it to ADDRESSES, or the scheme to CAMERAS"
    address = ADDRESSES[scheme](tmp_path)
    runs = []
    # The same frames every time: a test, and a repetition of it, can be trusted.
    for _ in range(2):
        source = open_source(address, {"frames": FRAMES})
        assert source.open() == (20, 30)
        frames = [source.read() for _ in range(FRAMES + 1)]
        assert frames.pop() is None, "the option `frames` ends it"
        for frame in frames:
            check_image(frame, source.pixels, source.uri)
        source.close()
        source.close()
        runs.append(frames)
    assert all(np.array_equal(a, b) for a, b in zip(*runs))
