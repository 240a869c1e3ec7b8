"""Without OpenCV, frames are scaled exactly as OpenCV does."""

from __future__ import annotations

import sys
from typing import Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.formats import TensorFormat
from edgedla.preprocess.plain import Resize
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from tests.amounts import examples

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 90))


def frame(hw: Tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, hw, np.uint8)


@given(SIZES, SIZES)
@settings(max_examples=examples(60), deadline=None)
def test_scaling_is_opencvs_within_one_grey_level(source: Tuple[int, int], target: Tuple[int, int]) -> None:
    cv2 = pytest.importorskip("cv2")
    image, scaled = frame((*source, 3)), np.zeros((*target, 3), np.uint8)
    Resize(source, target)(image, scaled)
    expected = cv2.resize(image, target[::-1], interpolation=cv2.INTER_LINEAR)
    assert np.abs(scaled.astype(int) - expected.reshape(scaled.shape)).max() <= 1


def test_resize_interpolates_at_pixel_centres() -> None:
    # 0 | 90 to four pixels: their middles lie at -0.25, 0.25, 0.75 and 1.25 of the two.
    scaled = np.zeros((1, 4, 3), np.uint8)
    Resize((1, 2), (1, 4))(np.asarray([[[0] * 3, [90] * 3]], np.uint8), scaled)
    assert scaled[0, :, 0].tolist() == [0, 23, 68, 90]


@pytest.mark.parametrize("fit", ["letterbox", "stretch", "crop"])
@pytest.mark.parametrize("pixels", ["bgr", "nv12"])
def test_a_frame_of_any_size_is_prepared_without_opencv(fit: str, pixels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cv2")
    spec = Preprocess((24, 40), (3, 16, 16), pixels=pixels, fit=fit, dtype="UINT8", std=(1.0, 1.0, 1.0))
    image = frame(spec.frame_shape)
    expected = CpuPreprocessor(spec)(image).astype(int)
    monkeypatch.setitem(sys.modules, "cv2", None)
    assert np.abs(CpuPreprocessor(spec)(image) - expected).max() <= 1


@pytest.mark.parametrize(
    ("dtype", "form"), [("FLOAT", "LINEAR"), ("HALF", "DLA_LINEAR"), ("INT8", "DLA_HWC4"), ("HALF", "CHW16")]
)
@pytest.mark.parametrize("colour", ["rgb", "bgr"])
def test_every_format_is_written_without_opencv(dtype: str, form: str, colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that is not scaled: the same bytes, padding included, whatever stood in the buffer."""
    pytest.importorskip("cv2")
    spec = Preprocess((40, 22), (3, 40, 22), colour=colour, dtype=dtype, scale=0.01, format=TensorFormat(form), chip="orin")
    image = frame(spec.frame_shape)
    expected = CpuPreprocessor(spec)(image)
    monkeypatch.setitem(sys.modules, "cv2", None)
    buffer = np.full(spec.layout.size_bytes, 0x55, np.uint8)
    assert CpuPreprocessor(spec)(image, buffer).tobytes() == expected.tobytes() == buffer.tobytes()
