"""Pictures and videos as samples: the same input as for `run`, labels from folders, and refusals."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from edgedla.errors import DataError, DocumentError, UsageError
from edgedla.preprocess.pictures import is_pictures, open_samples
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.preprocess.settings import PreprocessSettings, agreed, settings_of
from edgedla.quantization.samples import InputSpec
from edgedla.runtime.sources import open_source

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")

SPEC = [InputSpec("x", (1, 3, 24, 32), np.float32)]
SETTINGS = PreprocessSettings("stretch", "bgr", 0, (1.0, 2.0, 3.0), (10.0, 20.0, 30.0))


def picture(path: Path, seed: int, hw: tuple = (48, 64)) -> np.ndarray:
    image = np.random.default_rng(seed).integers(0, 256, (*hw, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), image)
    return image


def test_an_image_sample_equals_the_input_that_run_prepares(tmp_path: Path) -> None:
    images = [picture(tmp_path / "in" / f"{i}.png", i, (40 + i, 64)) for i in (2, 10)]
    samples = open_samples(tmp_path / "in", SPEC, SETTINGS)
    assert len(samples.feeds) == 2
    assert "stretch, bgr, mean 1 2 3" in samples.detail
    for image, feed in zip(images, samples.feeds):
        spec = Preprocess(image.shape[:2], (3, 24, 32), "bgr", "bgr", "stretch", 0, SETTINGS.mean, SETTINGS.std, "FLOAT")
        want = CpuPreprocessor(spec)(image).view(np.float32).reshape(1, 3, 24, 32)
        np.testing.assert_array_equal(feed["x"], want)
    half = samples.feeds[1:]
    np.testing.assert_array_equal(half[0]["x"], samples.feeds[1]["x"])
    assert samples.labels is None


def test_subfolders_are_class_labels_and_a_limit_samples_them_evenly(tmp_path: Path) -> None:
    for i in range(4):
        picture(tmp_path / "in" / "cat" / f"{i}.png", i)
        picture(tmp_path / "in" / "dog" / f"{i}.png", i)
    samples = open_samples(tmp_path / "in", SPEC, limit=3)
    assert sorted(samples.labels or ()) == [0, 1, 1]
    assert len(samples.feeds) == 3
    whole = open_samples(tmp_path / "in", SPEC)
    # Every part of the whole holds both classes.
    assert list(whole.labels or ()) == [0, 1] * 4
    assert whole.class_folders == 2
    want = open_samples(tmp_path / "in" / "dog", SPEC)
    np.testing.assert_array_equal(whole.feeds[1]["x"], want.feeds[0]["x"])


def test_class_labels_of_a_holdout_follow_the_data_folders_names(tmp_path: Path) -> None:
    for name in ("ant", "bee", "cat"):
        picture(tmp_path / "data" / name / "0.png", 1)
    picture(tmp_path / "held" / "cat" / "0.png", 2)
    held = tmp_path / "held"
    assert list(open_samples(held, SPEC, like=tmp_path / "data").labels or ()) == [2]
    assert open_samples(held, SPEC, like=tmp_path / "data").class_folders == 3
    listed = open_samples(held, SPEC, classes=("dog", "cat"), like=tmp_path / "data")
    assert (list(listed.labels or ()), listed.class_folders) == ([1], 0)
    picture(held / "dog" / "0.png", 3)
    with pytest.raises(DataError, match=r"no class is called 'dog' \(allowed: ant, bee, cat\)"):
        open_samples(held, SPEC, like=tmp_path / "data")


def test_a_limit_takes_frames_of_a_video_evenly(tmp_path: Path) -> None:
    path = tmp_path / "v.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    if not writer.isOpened():
        pytest.skip("this OpenCV writes no video")
    for i in range(20):
        writer.write(np.full((48, 64, 3), i * 12, np.uint8))
    writer.release()
    assert is_pictures(path)
    samples = open_samples(path, SPEC, PreprocessSettings("stretch"), limit=5)
    brightness = [float(f["x"].mean()) * 255 / 12 for f in samples.feeds]
    assert brightness == pytest.approx([0, 4, 8, 12, 16], abs=0.7)


def test_images_that_do_not_fit_the_input_are_refused(tmp_path: Path) -> None:
    picture(tmp_path / "in" / "a.png", 0)
    with pytest.raises(UsageError, match="pictures need one input of 1 x 3"):
        open_samples(tmp_path / "in", [InputSpec("x", (1, 4, 8, 8), np.float32)])
    (tmp_path / "in" / "b.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="no picture that OpenCV can read"):
        list(open_samples(tmp_path / "in", SPEC).feeds)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no samples in it"):
        open_samples(tmp_path / "empty", SPEC)


def test_preprocessing_settings_round_trip_and_contradictions_are_refused() -> None:
    assert settings_of(SETTINGS.to_dict(), "m") == SETTINGS
    with pytest.raises(DocumentError, match="unknown field 'scale'"):
        settings_of({"scale": 1}, "m")
    with pytest.raises(DocumentError, match="not a preprocessing"):
        settings_of({"mean": [1, 2]}, "m")
    assert agreed(SETTINGS, {"mean": [1, 2, 3], "fit": "stretch"}, "run") is SETTINGS
    with pytest.raises(UsageError, match="fit crop contradicts the artifact, which was built for fit stretch"):
        agreed(SETTINGS, {"fit": "crop"}, "run")
    with pytest.raises(UsageError, match="std"):
        PreprocessSettings(std=(0.0, 1.0, 1.0))


def promising(path: Path, side: int) -> Path:
    """A PNG of 45 bytes whose header states side x side pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = [head, b"IDAT"]
    chunks = [struct.pack(">I", len(p) - 4) + p + struct.pack(">I", zlib.crc32(p)) for p in parts]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


def test_an_image_header_with_too_many_pixels_is_refused(tmp_path: Path) -> None:
    """OpenCV raises, where it returns nothing for other broken ones."""
    bomb = promising(tmp_path / "in" / "a.png", 65000)
    with pytest.raises(cv2.error):
        cv2.imread(str(bomb))
    with pytest.raises(DataError, match="no picture that OpenCV can read"):
        list(open_samples(tmp_path / "in", SPEC).feeds)
    picture(tmp_path / "in" / "b.png", 0)
    source = open_source(f"images://{tmp_path / 'in'}")
    assert source.open() == (48, 64)
    frame = source.read()
    assert frame is not None
    assert frame.shape == (48, 64, 3)
