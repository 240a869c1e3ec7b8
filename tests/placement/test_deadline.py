"""Time limits: processor time of the thread, and a wider bound of wall time."""

from __future__ import annotations

import time
from typing import List

import pytest

from edgedla.placement import deadline as module
from edgedla.placement.deadline import NEVER, WALL, Deadline, Stopwatch


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    """[processor seconds, wall seconds]."""
    now = [100.0, 5000.0]
    monkeypatch.setattr(module.time, "thread_time", lambda: now[0])
    monkeypatch.setattr(module.time, "monotonic", lambda: now[1])
    return now


def test_a_busy_machine_takes_nothing_off_the_limit(clocks: List[float]) -> None:
    end = Deadline.after(10.0)
    clocks[0] += 2.0
    clocks[1] += 2.0 * WALL
    assert end.left_s == pytest.approx(8.0)
    assert end.left_wall_s == pytest.approx(8.0 * WALL)
    assert not end.passed


def test_the_wall_time_ends_a_search_that_gets_no_processor(clocks: List[float]) -> None:
    end = Deadline.after(10.0)
    clocks[0] += 1.0
    clocks[1] += 10.0 * WALL - 0.6
    assert end.left_s == pytest.approx(0.1)
    clocks[1] += 0.7
    assert end.passed


def test_parts_end_no_later_than_the_whole(clocks: List[float]) -> None:
    end = Deadline.after(10.0)
    half = end.part(0.5)
    assert half.left_s == pytest.approx(5.0)
    assert end.within(60.0).end == end.end
    assert end.later(-3.0).left_s == pytest.approx(7.0)
    clocks[0] += 6.0
    assert half.passed
    assert not end.passed
    assert not NEVER.part(0.1).passed


def test_a_thread_that_waits_uses_nothing_up() -> None:
    watch, end = Stopwatch(), Deadline.after(0.05)
    time.sleep(0.06)
    assert watch.seconds < 0.03
    assert not end.passed
