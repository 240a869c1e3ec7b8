"""A chain's stages as text: copied tensors, shared cores and unproved cores are mentioned, and nothing else."""

from __future__ import annotations

import pytest

from edgedla.reports.stages import stage_lines
from edgedla.runtime.stats import Latency


def stage(counted=3, recent=True, **changes):
    known = {"p50_ms": 2.0, "p99_ms": 2.5} if counted and recent else {}
    times = {**Latency().to_dict(), "count": counted, **known}
    return {
        "stage": 1,
        "device": "DLA1",
        "simulated": False,
        "shares_device": False,
        "core_proved": None,
        "inference": times,
        "hands_over": {"t": "device"},
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "stage 1 DLA1: p50 2.00 ms  p99 2.50 ms"),
        ({"counted": 0}, "stage 1 DLA1: no inference has ended"),
        ({"recent": False}, "stage 1 DLA1: no inference of late"),
        ({"shares_device": True}, "stage 1 DLA1: p50 2.00 ms  p99 2.50 ms  (shares DLA1 with another stage)"),
        (
            {"hands_over": {"t": "device", "u": "host", "v": "host"}},
            "stage 1 DLA1: p50 2.00 ms  p99 2.50 ms  (copied through host memory: u, v)",
        ),
        ({"hands_over": {"u": "host"}, "simulated": True}, "stage 1 DLA1: p50 2.00 ms  p99 2.50 ms"),
        ({"core_proved": False}, "stage 1 DLA1: p50 2.00 ms  p99 2.50 ms  (the kernel's counters saw no work on this core)"),
    ],
)
def test_each_stage_is_one_line(changes, line):
    assert stage_lines([stage(**changes)]) == [line]


def test_a_runner_without_stages_has_no_stage_lines():
    assert stage_lines([]) == []
