"""Ctrl-C ends a measurement and keeps what it has measured."""

from __future__ import annotations

from typing import Any

import pytest

from edgedla.runtime.measure.timing import BenchOptions, time_runner


class Pressed:
    """A runner whose user presses Ctrl-C during one of its inferences."""

    name, simulated = "pressed", True

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def submit(self, inputs: Any) -> int:
        return 0

    def wait(self, ticket: int) -> None:
        self.count += 1
        if self.count == self.at:
            raise KeyboardInterrupt


def test_what_was_measured_is_kept() -> None:
    result = time_runner(Pressed(5), {}, BenchOptions(warm_up_ms=0, iterations=100, duration_s=0))  # type: ignore[arg-type]
    assert (result.count, result.interrupted) == (3, True)
    assert result.to_dict()["interrupted"] is True


def test_without_a_measurement_it_is_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt):
        time_runner(Pressed(2), {}, BenchOptions(warm_up_ms=0, iterations=100, duration_s=0))  # type: ignore[arg-type]


def test_a_whole_measurement_says_nothing_of_it() -> None:
    result = time_runner(Pressed(999), {}, BenchOptions(warm_up_ms=0, iterations=3, duration_s=0))  # type: ignore[arg-type]
    assert "interrupted" not in result.to_dict()
