"""Percentiles in constant memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgedla.runtime.stats import BUCKETS, Latency


@given(st.lists(st.floats(0.002, 1e6), min_size=1, max_size=300))
def test_percentiles_are_within_two_percent_of_the_exact_ones(values):
    latency = Latency()
    for v in values:
        latency.add(v)
    for percent in (50, 90, 99, 100):
        exact = np.sort(values)[int(np.ceil(len(values) * percent / 100)) - 1]
        assert abs(latency.percentile_ms(percent) - exact) <= 0.021 * exact


def test_percentiles_without_samples_are_none():
    assert Latency().to_dict()["p50_ms"] is None


def test_extreme_latencies_stay_within_the_histogram():
    latency = Latency()
    for v in (0.0, 1e-9, 1e12):
        latency.add(v)
    assert latency.count == 3
    assert set(latency._counts) == {0, BUCKETS - 1}
    assert latency.max_ms == 1e12
