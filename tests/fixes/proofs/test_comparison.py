"""The comparison of two results: bounds by class of equality, values that are not finite, and the worse of two proofs."""

from __future__ import annotations

import numpy as np
import pytest

from edgedla.fixes.proofs.comparison import compare, distance, unproved, worse


def test_compare_fails_beyond_the_bound_of_each_exactness():
    a = np.arange(6, dtype=np.float32)
    assert compare(a, a, "bit", 0.0, "seeded").status == "proved"
    assert compare(a, np.nextafter(a, 9).astype("f"), "bit", 0.0, "seeded").status == "failed"
    assert compare(a, np.nextafter(a, 9).astype("f"), "round", 0.0, "seeded").status == "proved"
    assert compare(a, a * 1.001, "round", 0.0, "seeded").status == "failed"
    assert compare(a, a * 1.001, "approximate", 0.01, "seeded").status == "proved"
    assert compare(a, a[:5], "round", 0.0, "seeded").status == "failed"
    assert compare(a, np.full(6, np.nan), "approximate", 0.5, "seeded").status == "failed"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([3.0, 4.0], [3.0, 4.5], (0.1, 0.5)),
        ([np.inf, 2.0], [np.inf, 3.0], (0.5, 1.0)),
        ([np.nan, 2.0], [np.nan, 2.0], (np.inf, np.inf)),
        ([np.inf, 2.0], [-np.inf, 2.0], (np.inf, np.inf)),
        ([1.0, 2.0], [1.0, np.nan], (np.inf, np.inf)),
        ([0.0, 0.0], [0.0, 0.0], (0.0, 0.0)),
        ([0.0, 0.0], [0.0, 1e-9], (np.inf, 1e-9)),
        (["monday", "1"], ["monday", "1"], (0.0, 0.0)),
        (["monday", "1"], ["monday", "2"], (np.inf, np.inf)),
        (["1"], ["1", "2"], (np.inf, np.inf)),
    ],
)
def test_distance_is_relative_and_handles_nan_and_infinity(before, after, expected):
    assert distance(np.array(before), np.array(after)) == pytest.approx(expected)


def test_string_tensors_are_compared_for_equality():
    assert distance(np.array(["1"], object), np.array(["1"], object)) == (0.0, 0.0)
    assert compare(np.array(["1"], object), np.array(["2"], object), "round", 0.0, "seeded").status == "failed"


def test_the_worse_of_two_proofs_counts():
    a = np.arange(6, dtype=np.float32)
    proved, failed = compare(a, a, "round", 0.0, "data"), compare(a, a + 1, "round", 0.0, "data")
    nearly = compare(a, np.nextafter(a, 9).astype("f"), "round", 0.0, "data")
    assert worse(proved, nearly) == worse(nearly, proved) == nearly
    assert worse(failed, unproved("round", "no shape")) == failed
    assert worse(proved, unproved("round", "no shape")).status == "unproved"


@pytest.mark.parametrize("equality", ["bit", "round", "approximate"])
def test_what_is_nan_in_both_forms_proves_nothing(equality):
    a = np.array([1.0, np.nan, 3.0], np.float32)
    same = compare(a, a.copy(), equality, 0.5, "seeded")
    assert (same.status, same.detail) == ("unproved", "1 of 3 values are NaN in both forms")
    # NaN beside a number, and a difference beside NaN, are differences.
    assert compare(a, np.array([1.0, 2.0, 3.0], np.float32), equality, 0.5, "seeded").status == "failed"
    assert compare(a, np.array([1.0, np.nan, 9.0], np.float32), equality, 0.5, "seeded").status == "failed"
