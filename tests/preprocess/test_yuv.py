"""NV12 in BT.601 and BT.709, of video range and full range."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
import pytest

from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.preprocess.yuv import NV12, kind_of, nv12_to_bgr, part_to_bgr

#: Y, U and V of white, black, red, green and blue, rounded: ITU-R BT.601 and BT.709; JFIF for full range.
COLOURS: List[Tuple[str, List[Tuple[int, int, int]]]] = [
    ("nv12", [(235, 128, 128), (16, 128, 128), (81, 90, 240), (145, 54, 34), (41, 240, 110)]),
    ("nv12-full", [(255, 128, 128), (0, 128, 128), (76, 85, 255), (150, 44, 21), (29, 255, 107)]),
    ("nv12-709", [(235, 128, 128), (16, 128, 128), (63, 102, 240), (173, 42, 26), (32, 240, 118)]),
    ("nv12-709-full", [(255, 128, 128), (0, 128, 128), (54, 99, 255), (182, 30, 12), (18, 255, 116)]),
]
BGR = [(255, 255, 255), (0, 0, 0), (0, 0, 255), (0, 255, 0), (255, 0, 0)]


def plain(y: int, u: int, v: int, hw: Tuple[int, int] = (8, 8)) -> np.ndarray:
    frame = np.full((hw[0] * 3 // 2, hw[1]), y, np.uint8)
    frame[hw[0] :, 0::2], frame[hw[0] :, 1::2] = u, v
    return frame


@pytest.mark.parametrize(("kind", "yuv"), COLOURS)
def test_pure_colours_are_what_the_standards_say(kind: str, yuv: List[Tuple[int, int, int]]) -> None:
    cv2 = pytest.importorskip("cv2")
    for one, bgr in zip(yuv, BGR):
        frame = plain(*one)
        # Y, U and V are whole numbers, and a step of U is two of blue.
        assert np.abs(nv12_to_bgr(frame, kind)[0, 0].astype(int) - bgr).max() <= 2
        for size in ((8, 8), (4, 4), (16, 12)):
            made = part_to_bgr(cv2, frame, kind, (0, 0, 8, 8), size)
            assert made.shape == (*size, 3)
            assert np.abs(made.astype(int) - bgr).max() <= 2
        spec = Preprocess((8, 8), (3, 4, 4), pixels=kind, colour="bgr", dtype="UINT8", std=(1.0, 1.0, 1.0))
        assert np.abs(CpuPreprocessor(spec)(frame)[0, :, 0, 0, 0].astype(int) - bgr).max() <= 2


def test_nv12_is_converted_as_opencv_does() -> None:
    cv2 = pytest.importorskip("cv2")
    image = np.random.default_rng(0).integers(0, 256, (36, 32), np.uint8)
    opencvs = cv2.cvtColor(image, cv2.COLOR_YUV2BGR_NV12)
    np.testing.assert_array_equal(nv12_to_bgr(image), opencvs)
    for x, y, w, h in ((4, 2, 20, 16), (5, 2, 20, 16), (4, 3, 20, 16), (5, 3, 19, 15), (31, 0, 1, 1), (1, 1, 31, 23)):
        part = part_to_bgr(cv2, image, "nv12", (x, y, w, h), (h, w))
        np.testing.assert_array_equal(part, opencvs[y : y + h, x : x + w])


def test_nv12_of_video_range_maps_to_full_range() -> None:
    grey = np.full((3, 2), 128, np.uint8)
    grey[:2] = [[16, 235], [0, 255]]
    assert nv12_to_bgr(grey).tolist() == [[[0] * 3, [255] * 3], [[0] * 3, [255] * 3]]


@pytest.mark.parametrize("kind", NV12)
def test_scaling_before_converting_changes_smooth_pictures_by_two_levels(kind: str) -> None:
    cv2 = pytest.importorskip("cv2")
    ys, xs = np.mgrid[0:108, 0:192]
    frame = np.empty((162, 192), np.uint8)
    frame[:108] = 16 + ys + xs // 2
    frame[108:, 0::2], frame[108:, 1::2] = 60 + xs[:54, :96] * 1.3, 60 + ys[:54, :96] * 2
    after = cv2.resize(nv12_to_bgr(frame, kind)[8:100, 10:190], (90, 46))
    assert np.abs(part_to_bgr(cv2, frame, kind, (10, 8, 180, 92), (46, 90)).astype(int) - after).max() <= 2


@pytest.mark.parametrize(
    ("colorimetry", "height", "kind"),
    [
        ("bt601", 1080, "nv12"),
        ("bt709", 480, "nv12-709"),
        ("1:4:0:0", 480, "nv12-full"),
        ("2:4:7:1", 1080, "nv12"),
        ("1:3:5:1", 1080, "nv12-709-full"),
        ("", 576, "nv12"),
        ("", 578, "nv12-709"),
        ("bt2020", 2160, "nv12-709"),
    ],
)
def test_the_kind_follows_from_gstreamers_colorimetry(colorimetry: str, height: int, kind: str) -> None:
    assert kind_of(colorimetry, height) == kind
