"""Percentiles in constant memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgedla.runtime.stats import BUCKETS, WINDOW_S, Latency, total


@given(st.lists(st.floats(0.002, 1e6), min_size=1, max_size=300))
def test_percentiles_are_within_two_percent_of_the_exact_ones(values):
    latency = Latency()
    for v in values:
        latency.add(v)
    for percent in (50, 90, 99, 100):
        exact = np.sort(values)[int(np.ceil(len(values) * percent / 100)) - 1]
        assert abs(latency.percentiles_ms(percent)[0] - exact) <= 0.021 * exact


def test_percentiles_without_samples_are_none():
    assert Latency().to_dict()["p50_ms"] is None


def test_extreme_latencies_stay_within_the_histogram():
    latency = Latency()
    for v in (0.0, 1e-9, 1e12):
        latency.add(v)
    assert latency.count == 3
    assert set(latency._counts) == {0, BUCKETS - 1}
    assert latency.max_ms == 1e12


def test_percentiles_forget_what_was_slow_an_hour_ago_and_counts_do_not():
    now = [0.0]
    latency = Latency(lambda: now[0])
    for _ in range(600):
        latency.add(2000.0)
        now[0] += 1
    for _ in range(int(2 * WINDOW_S) + 1):
        latency.add(20.0)
        now[0] += 1
    assert latency.percentiles_ms(99)[0] < 21
    told = total([latency, Latency()]).to_dict()
    assert (told["count"], told["max_ms"]) == (600 + 601, 2000.0)
    assert told["p99_ms"] < 21
    # And a bad minute shows at once.
    for _ in range(60):
        latency.add(2000.0)
    assert latency.percentiles_ms(99)[0] > 1900


def test_percentiles_are_of_the_last_minutes_or_none():
    now = [0.0]
    latency = Latency(lambda: now[0])
    latency.add(5.0)
    now[0] += 2 * WINDOW_S
    assert latency.to_dict()["p50_ms"] is None
    assert latency.to_dict()["mean_ms"] == 5.0
