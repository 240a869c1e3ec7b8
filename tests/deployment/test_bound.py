"""A latency bound: on the prediction with everything that adds to a frame, or on the measured time of a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional

import pytest

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.details import bound_kept, bound_notes

SLOW: Mapping[str, Any] = {"after": {"latency_us": 130.0}}
FAST: Mapping[str, Any] = {"after": {"latency_us": 90.0}}


def candidate(latency_us: float, bound_us: Optional[float], extra_us: float = 0.0, spread: float = 0.1) -> Candidate:
    predicted = {
        "build": {"latency_us": latency_us, "spread": spread}, "tensorrt": None, "check": {}, "bound_us": bound_us,
        "bound_kept": bound_us is None or latency_us <= bound_us,
    }  # fmt: skip
    return Candidate("INT8", 2, Path(), "", "int8", {}, {}, predicted, Path(), extra_us=extra_us)


@pytest.mark.parametrize(
    ("latency_us", "extra_us", "bound_us", "kept"),
    [(100, 0, 100, True), (100, 1, 100, False), (101, 0, 100, False), (99, 1, 100, True), (500, 9, None, True)],
)
def test_the_time_of_fp16_layers_counts_against_the_bound(
    latency_us: float, extra_us: float, bound_us: Optional[float], kept: bool
) -> None:
    one = candidate(latency_us, bound_us, extra_us)
    assert one.bound_kept is bound_kept(one, {}) is kept
    assert one.better_than(candidate(1000, 100), "latency")


def test_a_measured_latency_decides_whether_the_bound_is_kept() -> None:
    assert not bound_kept(candidate(100, 120), SLOW)
    assert bound_kept(candidate(125, 120), FAST)
    assert bound_kept(candidate(125, None), SLOW)


@pytest.mark.parametrize(
    ("one", "measured", "says"),
    [
        (candidate(100, 105), {}, "within its spread a frame may take 110 us; measure it"),
        (candidate(100, 120), {}, "with its whole spread; no board measured it"),
        (candidate(100, None), {}, ""),
        (candidate(130, 120), {}, ""),
        (candidate(100, 105), FAST, ""),
    ],
)
def test_a_bound_checked_by_prediction_alone_is_noted(one: Candidate, measured: Mapping[str, Any], says: str) -> None:
    notes = bound_notes(one, measured)
    assert len(notes) == bool(says)
    assert not says or says in notes[0]
