"""One spelling of every word: common spellings are accepted, unknown words are refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgedla import vocabulary
from edgedla.accuracy.metrics import METRICS
from edgedla.errors import UsageError
from edgedla.quantization.methods import METHODS

PACKAGE = Path(__file__).resolve().parents[2] / "edgedla"


@pytest.mark.parametrize(
    ("value", "spelling"),
    [("GPU", "GPU"), ("gpu", "GPU"), ("DLA0", "DLA0"), ("dla1", "DLA1"), ("dla:0", "DLA0"), (" dla 1 ", "DLA1")],
)
def test_a_device_has_one_spelling(value: str, spelling: str) -> None:
    assert vocabulary.device(value) == spelling


@pytest.mark.parametrize("value", ["DLA", "DLA2", "dla:", "cpu", "", 0, None])
def test_an_unknown_device_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="unknown device") as caught:
        vocabulary.device(value)
    assert caught.value.allowed == "GPU, DLA0, DLA1"


def test_any_core_may_be_assigned() -> None:
    assert vocabulary.device("dla", vocabulary.DEVICE_KINDS) == "DLA"


@pytest.mark.parametrize(
    ("value", "names"),
    [("GPU", ("GPU",)), ("dla1, GPU", ("GPU", "DLA1")), (["DLA0", "dla0"], ("DLA0",)), (("GPU", "DLA0"), ("GPU", "DLA0"))],
)
def test_devices_are_parsed_from_text_and_lists(value: object, names: object) -> None:
    assert vocabulary.devices(value) == names  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["", [], "GPU,"])
def test_an_empty_device_list_is_a_usage_error(value: object) -> None:
    with pytest.raises(UsageError):
        vocabulary.devices(value)  # type: ignore[arg-type]


def test_the_nearest_word_is_named() -> None:
    with pytest.raises(UsageError, match="did you mean latency"):
        vocabulary.one_of("objective", "latencys", vocabulary.OBJECTIVES)
    assert vocabulary.one_of("precision", "INT8", vocabulary.PRECISIONS) == "int8"


def test_calibration_methods_and_metrics_equal_the_vocabulary() -> None:
    assert tuple(METHODS) == vocabulary.CALIBRATION_METHODS, "METHODS (quantization/methods.py) and the list of words differ"
    # What map is measured by follows from a decoder.
    assert {*METRICS, "map"} == set(vocabulary.METRICS), "METRICS (accuracy/metrics.py) and the list of words differ"


#: Lists that look like a vocabulary, as they stand in source.
LISTS = [
    re.compile(r"""[(\[]\s*["']fp16["'],\s*["']int8["']\s*[)\]]"""),
    re.compile(r"""[(\[]\s*["']GPU["'],\s*["']DLA0["'],\s*["']DLA1["']\s*[)\]]"""),
    re.compile(r"""[(\[]\s*["']fallback["'],\s*["']strict["'],\s*["']standalone["']\s*[)\]]"""),
    re.compile(r"""[(\[]\s*["']latency["'],\s*["']throughput["'],\s*["']energy["'],\s*["']makespan["']\s*[)\]]"""),
]


def test_no_list_is_written_twice() -> None:
    copies = [
        f"{path.relative_to(PACKAGE)}: {match.group()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "vocabulary.py"
        for pattern in LISTS
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert copies == [], "import it from edgedla.vocabulary"
