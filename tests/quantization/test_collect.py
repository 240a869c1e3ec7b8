"""One pass of histograms: their content, for any order and number of samples."""

from __future__ import annotations

import sys
from typing import Any, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from edgedla.errors import DataError, RunError
from edgedla.quantization.collect import MOST_ELEMENTS, _step, collect
from edgedla.quantization.histogram import BINS, FINE_BINS, Histogram
from edgedla.quantization.methods import METHODS, thresholds
from tests.quantization.small_nets import SHAPE, feeds, net


def relu_net() -> Any:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Neg", ["r"], ["y"])]
    return net(nodes, {}, shape=["n", 3, 4, 4])


def test_absmax_is_over_all_samples_and_every_tensor() -> None:
    one, two = np.zeros(SHAPE), np.zeros(SHAPE)
    one.flat[0], two.flat[0], two.flat[1] = -7.0, 2.0, 3.0
    found = collect(relu_net(), feeds(one, two))
    assert {n: h.absmax for n, h in found.histograms.items()} == {"x": 7.0, "r": 3.0, "y": 3.0}
    assert int(found.histograms["r"].counts.sum()) == 2 * 48


BY_DATA = pytest.param(
    False,
    id="a size by the data",
    marks=pytest.mark.skipif(sys.version_info < (3, 9), reason="ONNX Runtime 1.19 has no maximum of nothing"),
)


@pytest.mark.parametrize("known", [pytest.param(True, id="a known size"), BY_DATA])
def test_an_empty_tensor_holds_no_nan(known: bool) -> None:
    """Its maximum is minus infinity."""
    bounds = {"zero": np.array([0]), "end": np.array([0]), "axis": np.array([1])}
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    if known:
        nodes.append(helper.make_node("Slice", ["x", "zero", "end", "axis"], ["empty"]))
    else:
        nodes.append(helper.make_node("Compress", ["x", "flat"], ["empty"]))
        bounds = {"flat": np.zeros(48, bool)}
    found = collect(net(nodes, bounds, shape=["n", 3, 4, 4]), feeds(np.ones(SHAPE))).histograms
    assert found["y"].absmax == 1.0
    assert "empty" not in found if known else found["empty"].absmax == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_tensors_without_a_usable_scale_are_left_out(method: str) -> None:
    assert set(thresholds(collect(relu_net(), feeds(-np.ones(SHAPE))), method)) == {"x"}
    assert thresholds(collect(relu_net(), feeds(np.full(SHAPE, 1e-37))), method) == {}
    assert set(thresholds(collect(relu_net(), feeds(np.full(SHAPE, 1e-35))), method)) == {"x", "r", "y"}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_samples_are_an_error_with_their_number(bad: float) -> None:
    values = np.ones(SHAPE)
    values.flat[0] = bad
    with pytest.raises(RunError, match=r"'[xr]' holds NaN or infinity in sample 2 \(3 tensors do\)"):
        collect(relu_net(), feeds(np.ones(SHAPE), values))
    with pytest.raises(DataError, match="no sample"):
        collect(relu_net(), feeds())


def test_progress_is_reported_per_sample() -> None:
    told: List[Any] = []
    collect(relu_net(), feeds(*(np.ones(SHAPE) for _ in range(3))), lambda done, count: told.append((done, count)))
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("dims", [(1, 64, 112, 112), (1, 3, 1024, 2048), (8, 32, 64, 64), (1, 7, 5)])
def test_the_selection_of_a_large_tensor_is_even(dims: tuple) -> None:
    step, size = _step(dims), int(np.prod(dims))
    assert (step == 1) == (size <= MOST_ELEMENTS)
    assert size // step <= MOST_ELEMENTS
    picked = np.arange(0, size, step)
    # Every channel, row and column gives its share.
    for axis, places in enumerate(np.unravel_index(picked, dims)):
        counts = np.bincount(places, minlength=dims[axis])
        assert counts.min() >= 0.8 * counts.mean() - 1


def test_a_large_tensor_keeps_its_exact_maximum() -> None:
    large = net([helper.make_node("Relu", ["x"], ["y"])], {}, shape=[1, 3, 256, 256])
    values = np.random.default_rng(0).standard_normal((1, 3, 256, 256))
    values[0, 1, 101, 7] = 50.0
    found = collect(large, feeds(values))
    assert found.histograms["y"].absmax == 50.0
    # Every seventh element.
    assert found.histograms["y"].counts.sum() == -(-values.size // 7)
    assert thresholds(found, "percentile")["x"] == pytest.approx(np.percentile(np.abs(values), 99.99), rel=0.15)


POSITIVE = st.lists(st.floats(2.0**-60, 2.0**60, width=32), min_size=1, max_size=30)


@given(st.lists(POSITIVE, min_size=1, max_size=6))
def test_the_histogram_counts_every_value_within_one_bin(samples: List[List[float]]) -> None:
    histogram = Histogram()
    for values in samples:
        row = np.asarray(values, np.float32)
        histogram.add(row, float(row.max()))
    every = np.sort(np.concatenate([np.asarray(v, np.float64) for v in samples]))
    assert histogram.absmax == every[-1]
    assert histogram.absmax <= histogram.top < 2 * histogram.absmax * (1 + 1e-6)
    magnitude, counts = histogram.filled()
    back = np.repeat(magnitude, counts.astype(int))
    assert len(back) == len(every)
    # Bins merge in pairs when the range doubles, so a value stays within one bin of its place.
    assert np.abs(np.sort(back) - every).max() <= 1.01 * histogram.top / FINE_BINS
    assert histogram.binned(BINS).sum() == len(every)


def test_zeros_before_the_first_value_are_counted() -> None:
    histogram = Histogram()
    histogram.add(np.zeros(10, np.float32), 0.0)
    histogram.add(np.ones(1, np.float32), 1.0)
    assert histogram.counts[0] == 10
    assert histogram.power() == pytest.approx(1 / 11, rel=1e-3)
