"""TensorRT calibration caches: the published form, round trip, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.errors import DocumentError
from edgedla.quantization.calibration_cache import parse_cache, read_cache, version_number, write_cache


@pytest.mark.parametrize(
    ("trt", "number"), [((8, 4, 1), 8401), ((8, 5, 2), 8502), ((8, 6, 1), 8601), ((10, 3, 0), 100300), ((10, 7), 100700)]
)
def test_version_numbers_are_those_of_nvinferversion(trt: tuple, number: int) -> None:
    assert version_number(trt) == number


def test_a_cache_in_the_published_form_is_parsed() -> None:
    # 0x3c010a14 is the scale that an image input in [-1, 1] gets in many public caches: about 1/127.
    text = "TRT-8502-EntropyCalibration2\ninput: 3c010a14\nblock:1/out: 3d8f5c29\n\nzero: 00000000\n"
    cache = parse_cache(text)
    ranges = cache.absmax
    assert (cache.algorithm, cache.version, cache.zero, cache.notes) == ("EntropyCalibration2", 8502, ("zero",), ())
    assert sorted(ranges) == ["block:1/out", "input"]
    assert ranges["input"] == pytest.approx(1.0, abs=1e-3)
    assert write_cache({"input": 127 * struct.unpack(">f", bytes.fromhex("3c010a14"))[0]}, (8, 5, 2)) == (
        "TRT-8502-EntropyCalibration2\ninput: 3c010a14\n"
    )


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
RANGES = st.floats(1e-6, 1e6)


@given(st.dictionaries(NAMES, RANGES, max_size=8))
def test_written_caches_read_back_to_float32_precision(absmax: Dict[str, float]) -> None:
    back = parse_cache(write_cache(absmax, (10, 3, 0))).absmax
    assert sorted(back) == sorted(absmax)
    for name, value in absmax.items():
        assert back[name] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a calibration cache"),
        ("input: 3c010a14\n", "begins with 'input"),
        ("TRT-8502-GuessCalibration\ninput: 3c010a14\n", "made by GuessCalibration"),
        ("TRT-8502-EntropyCalibration2\ninput 3c010a14\n", "not a scale"),
        ("TRT-8502-EntropyCalibration2\ninput: 3c01\n", "not a scale"),
        ("TRT-8502-EntropyCalibration2\ninput: 7fc00000\n", "not a scale"),
        ("TRT-8502-EntropyCalibration2\ninput: bc010a14\n", "not a scale"),
    ],
)
def test_an_invalid_cache_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        parse_cache(text)


@pytest.mark.parametrize("algorithm", ["MinMaxCalibration", "EntropyCalibration", "LegacyCalibration"])
def test_scales_of_other_calibrators_are_accepted_with_a_note(algorithm: str) -> None:
    cache = parse_cache(f"TRT-8502-{algorithm}\ninput: 3c010a14\n")
    assert sorted(cache.absmax) == ["input"]
    assert len(cache.notes) == 1
    assert algorithm in cache.notes[0]


@given(st.floats(2.0**-120, 2.0**120, width=32), st.sampled_from([(8, 4, 1), (8, 5, 2), (8, 6, 1), (10, 3, 0), (10, 7, 0)]))
def test_scales_survive_every_release_bit_for_bit(scale: float, trt: tuple) -> None:
    text = write_cache({"x": scale * 127.0}, trt)
    assert text.split()[-1] == struct.pack(">f", scale).hex()
    assert write_cache(parse_cache(text).absmax, trt) == text


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_writing_a_non_positive_range_is_refused(value: float) -> None:
    with pytest.raises(DocumentError, match="not a positive number"):
        write_cache({"x": value}, (8, 5, 2))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read|it is not text"):
        read_cache(tmp_path / "none.cache")
    (tmp_path / "binary.cache").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DocumentError, match="cannot be read|it is not text"):
        read_cache(tmp_path / "binary.cache")
    (tmp_path / "calib.cache").touch()
    with pytest.raises(DocumentError, match="a folder, not a calibration cache") as caught:
        read_cache(tmp_path)
    assert caught.value.hint == f"give the file in it: {tmp_path / 'calib.cache'}"


@pytest.mark.parametrize("name", ["", "a\nb", "a\r", "\u2028a", "a\x85"])
def test_a_tensor_name_with_a_line_break_is_refused(name: str) -> None:
    with pytest.raises(DocumentError, match="cannot be written into a calibration cache"):
        write_cache({name: 1.0}, (10, 3, 0))
