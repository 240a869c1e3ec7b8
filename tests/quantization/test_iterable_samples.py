"""Samples from Python: arrays, lists, generators, data sets and loaders with labels, and invalid ones."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest

from edgedla.errors import DataError, UsageError
from edgedla.quantization.iterable_samples import samples_from
from edgedla.quantization.samples import InputSpec

SPEC = [InputSpec("x", (1, 2, 3), np.float32)]
FIVE = np.arange(30, dtype=np.float32).reshape(5, 1, 2, 3)


class DataSet:
    """Pairs that are made when they are asked for, as of a PyTorch data set."""

    def __init__(self) -> None:
        self.read = 0

    def __len__(self) -> int:
        return len(FIVE)

    def __getitem__(self, index: int) -> Tuple[np.ndarray, int]:
        self.read += 1
        return FIVE[index, 0], index


def batches() -> Any:
    yield FIVE[:3, 0], [0, 1, 2]
    yield FIVE[3:, 0], np.array([3, 4])


@pytest.mark.parametrize(
    ("data", "labelled"),
    [
        (FIVE, False),
        ({"x": FIVE}, False),
        (list(FIVE), False),
        ([{"x": x} for x in FIVE], False),
        ((x for x in FIVE), False),
        (DataSet(), True),
        (batches(), True),
        ([FIVE[:3], FIVE[3:]], False),
    ],
    ids=["array", "mapping", "list", "feeds", "generator", "data set", "loader", "batches"],
)
def test_every_kind_of_iterable_gives_the_same_samples(data: Any, labelled: bool) -> None:
    samples = samples_from(data, SPEC)
    assert len(samples.feeds) == 5
    for feed, want in zip(samples.feeds, FIVE):
        np.testing.assert_array_equal(feed["x"].reshape(2, 3), want[0])
    assert (None if samples.labels is None else [int(x) for x in samples.labels]) == ([0, 1, 2, 3, 4] if labelled else None)
    assert not samples.synthetic


def test_a_data_set_is_read_lazily() -> None:
    data = DataSet()
    samples = samples_from(data, SPEC)
    before = data.read
    assert samples.feeds[3]["x"][0, 0, 0] == 18
    assert data.read == before + 1


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (5, UsageError, "samples of the type int"),
        ([], DataError, "there is no sample"),
        ((), DataError, "there is no sample"),
        (["a"], DataError, "item 0: a sample of the type str"),
        ([{"z": FIVE}], DataError, "item 0: no array for input 'x'; there is 'z'"),
        ([FIVE[0], FIVE[:, :, :1]], DataError, "does not fit input 'x'"),
        ([(FIVE, [1, 2])], DataError, "2 labels for 5 samples"),
    ],
)
def test_samples_that_do_not_fit_are_named(data: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        list(samples_from(data, SPEC).feeds)


def test_one_array_for_two_inputs_is_refused() -> None:
    with pytest.raises(DataError, match=r"one array for 2 inputs \(allowed: arrays by name: x, y\)"):
        samples_from(iter([FIVE]), [*SPEC, InputSpec("y", (1,), np.float32)])
