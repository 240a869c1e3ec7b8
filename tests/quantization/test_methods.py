"""Thresholds: against brute force, against published values, and each method's result on known distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgedla.errors import UsageError
from edgedla.quantization.collect import Collection
from edgedla.quantization.histogram import BINS, Histogram
from edgedla.quantization.methods import (
    METHODS,
    auto,
    divergences,
    entropy,
    least,
    method_of,
    minmax,
    mse,
    percentile,
    sqnr_db,
    squared_errors,
    thresholds,
)
from tests.amounts import examples


def histogram(values: np.ndarray) -> Histogram:
    found = Histogram()
    row = np.abs(np.asarray(values, np.float32)).reshape(-1)
    found.add(row, float(row.max()))
    return found


def naive_divergence(counts: np.ndarray) -> int:
    """The published method, step by step."""
    best, best_value = len(counts), np.inf
    for kept in range(128, len(counts) + 1):
        p = counts[:kept].astype(float).copy()
        p[-1] += counts[kept:].sum()
        level = np.arange(kept) * 128 // kept
        q = np.zeros(kept)
        for k in range(128):
            inside = (level == k) & (counts[:kept] > 0)
            if inside.any():
                q[inside] = counts[:kept][inside].sum() / inside.sum()
        if q.sum() == 0 or ((p > 0) & (q == 0)).any():
            continue
        p, q = p / p.sum(), q / q.sum()
        used = p > 0
        value = float(np.sum(p[used] * np.log(p[used] / q[used])))
        if value <= best_value + 1e-12:
            best, best_value = kept, value
    return best


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.integers(0, 40), min_size=140, max_size=260))
def test_entropy_calibration_equals_the_published_algorithm(counts: list) -> None:
    array = np.asarray(counts, np.float64)
    assert least(*divergences(array)) == naive_divergence(array)


def test_entropy_cuts_a_lone_outlier_and_clips_piled_up_values() -> None:
    values = np.append(np.random.default_rng(0).standard_normal(20000), 60.0)
    assert entropy(histogram(values)) < 20.0
    # A gate's values pile up near 1: the published method clips the pile, `auto` does not.
    gate = np.clip(np.random.default_rng(1).standard_normal(50000) * 0.2 + 1.2, 0, 1)
    assert sqnr_db(histogram(gate), entropy(histogram(gate))) < 15
    assert sqnr_db(histogram(gate), auto(histogram(gate))) > 35


def squared_error(found: Histogram, threshold: float) -> float:
    return float(squared_errors(found, np.asarray([threshold]))[0])


@pytest.mark.parametrize("threshold", [0.4, 1.0, 2.5])
def test_squared_error_of_a_threshold_equals_that_of_quantising(threshold: float) -> None:
    values = np.abs(np.random.default_rng(2).standard_normal(40000)).astype(np.float32)
    scale = threshold / 127
    expected = np.mean((values - scale * np.rint(np.minimum(values, threshold) / scale)) ** 2)
    assert squared_error(histogram(values), threshold) == pytest.approx(expected, rel=0.02)


def test_mse_threshold_equals_a_fine_search() -> None:
    found = histogram(np.random.default_rng(3).laplace(size=50000))
    every = squared_errors(found, np.linspace(0.02, 1, 400) * found.absmax)
    assert squared_error(found, mse(found)) <= min(every) * 1.02


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.floats(2.0**-40, 2.0**40, width=32), min_size=1, max_size=50))
def test_every_threshold_lies_above_zero_and_at_most_at_the_maximum(values: list) -> None:
    found = histogram(np.asarray(values))
    for method in METHODS.values():
        assert 0 < method(found) <= found.absmax
    assert minmax(found) == found.absmax
    assert auto(found) >= percentile(found) * (1 - 1e-9)


def test_percentile_takes_an_optional_number() -> None:
    found = histogram(np.arange(1, 1001))
    assert method_of("percentile:50")(found) == pytest.approx(500, abs=1)
    assert method_of("percentile")(found) == pytest.approx(1000, abs=1)
    for wrong in ("percentile:", "percentile:x", "percentile:0", "percentile:101", "guess", "mse:3"):
        with pytest.raises(UsageError):
            method_of(wrong)


def test_a_percentile_is_the_smallest_threshold_with_that_share_below_it() -> None:
    values = np.arange(1, 1001)
    found = histogram(values)
    one_bin = found.top / len(found.counts)
    for percent in (50.0, 90.0, 99.9, 100.0):
        threshold = percentile(found, percent)
        assert np.mean(values <= threshold) >= percent / 100
        assert np.mean(values <= threshold - 2 * one_bin) < percent / 100


def test_auto_never_clips_below_the_percentile() -> None:
    # A grid of a threshold's own steps has no rounding error, so that least squares would clip what lies beyond it.
    share = 1 - 4 * 0.75 / 71
    grid = np.tile(np.arange(128) / 127, 100)
    found = histogram(np.concatenate([grid, np.full(4, 1 / share)]))
    assert mse(found) == pytest.approx(1.0)
    assert auto(found) == percentile(found) == pytest.approx(1 / share, rel=1e-3)


def test_zeros_of_a_relu_do_not_change_the_entropy_threshold() -> None:
    values = np.abs(np.random.default_rng(4).standard_normal(20000)) ** 2
    counts = histogram(values).binned(BINS)
    counts[0] = counts[1]
    expected = histogram(values).absmax * naive_divergence(counts) / BINS
    for zeros in (0, 20000, 500000):
        assert entropy(histogram(np.concatenate([values, np.zeros(zeros)]))) == pytest.approx(expected)


@pytest.mark.parametrize(("factor", "clipped"), [(4.0, True), (1.5, False)])
def test_a_threshold_too_small_for_fp32_is_replaced_by_the_maximum(factor: float, clipped: bool) -> None:
    """TensorRT takes a scale that is no normal number for a missing one."""
    least = 127 * float(np.finfo(np.float32).tiny)
    found = histogram(np.asarray([0.5 * factor * least] * 99 + [factor * least]))
    ranges = thresholds(Collection({"x": found}), "percentile:50")
    assert ranges["x"] == (pytest.approx(0.5 * factor * least, rel=1e-3) if clipped else found.absmax)
    assert thresholds(Collection({"x": histogram(np.asarray([0.5 * least]))})) == {}
