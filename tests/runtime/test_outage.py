"""An outage is reported twice, when it begins and when it ends, and counted once."""

from __future__ import annotations

import logging

import pytest

from edgedla.runtime.outage import Outages, length


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_of_many_failures_is_reported_once_with_its_length(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = Outages("rtsp://door", clock)
    with caplog.at_level(logging.WARNING):
        outages.frame()
        for _ in range(5):
            outages.failed("the connection was refused", 0.5)
            clock.now += 40.5
        assert outages.seconds == pytest.approx(202.5)
        assert outages.why == "the connection was refused"
        outages.frame()
        assert not outages.why
        outages.frame()
    first, last = (record.getMessage() for record in caplog.records)
    assert first == ("rtsp://door: the connection was refused; edgedla reopens the source until frames come")
    assert last == "rtsp://door: frames again after 3 min 22 s without (5 attempts)"
    assert (outages.count, outages.seconds) == (1, pytest.approx(202.5))
    clock.now += 1000
    assert outages.seconds == pytest.approx(202.5)


def test_the_next_outage_counts_from_its_own_beginning(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = Outages("csi://0", clock)
    for seconds in (2.0, 3.0):
        outages.failed("no frame for 5.0 s")
        clock.now += seconds
        outages.frame()
    assert (outages.count, outages.seconds) == (2, pytest.approx(5.0))
    assert "after 3.0 s without (1 attempt)" in caplog.text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60.0, "1 min 0 s"), (3599.4, "59 min 59 s"), (3600.0, "1 h 0 min")]
)
def test_outage_lengths_are_formatted(seconds: float, text: str) -> None:
    assert length(seconds) == text
