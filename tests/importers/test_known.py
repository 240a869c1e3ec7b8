"""Small constants, computed in Python, agree with NumPy; others are computed on demand."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from edgedla.importers.network import evaluate, fold, known

pytestmark = pytest.mark.once

LEAST, MOST = known.SMALL_TYPES["INT64"]
numbers = some.one_of(some.integers(-4, 9), some.sampled_from([LEAST, LEAST + 1, MOST, 1 << 31]))
dtypes = some.sampled_from(["INT64", "INT32"])
shapes = some.sampled_from([(), (1,), (3,), (0,), (1, 1), (2, 3), (4, 1, 2)])


@some.composite
def values(draw, shape=shapes, dtype=dtypes):
    dims, kind = draw(shape), draw(dtype)
    least, most = known.SMALL_TYPES[kind]
    count = math.prod(dims)
    drawn = draw(some.lists(numbers.filter(lambda n: least <= n <= most), min_size=count, max_size=count))
    return known.Small(drawn, dims, kind)


def agree(found, expected):
    """A KnownValue and a NumPy array hold the same, or neither is known."""
    array = None if found is None else found.array()
    assert (array is None) == (expected is None), (array, expected)
    if expected is not None:
        assert array.dtype == expected.dtype
        assert array.ravel().tolist() == expected.ravel().tolist()
        assert found.size == expected.size


@given(some.data(), some.sampled_from(sorted(fold.ELEMENTWISE)))
def test_known_elementwise_equals_numpy(data, op):
    a = data.draw(values())
    b = data.draw(values(some.sampled_from([a.dims, (1,) * len(a.dims)]), some.just(a.dtype)))
    if data.draw(some.booleans()):
        a, b = b, a
    if "DIV" in op:
        # NumPy has no magnitude for the least number, and looks for zeros among divisors of nothing.
        assume(known.SMALL_TYPES[a.dtype][0] not in [*a.numbers, *b.numbers] and a.size and b.size)
    dims = np.broadcast_shapes(a.dims, b.dims)
    dtype = "BOOL" if op in ("EQUAL", "LESS", "GREATER") else a.dtype
    agree(evaluate.elementwise(op, a, b, dims, dtype), fold.elementwise(op, a.array(), b.array(), dims, dtype))


@given(values(), some.sampled_from(["INT64", "INT32", "BOOL", "FLOAT"]))
def test_known_cast_equals_numpy(x, dtype):
    agree(evaluate.cast(x, x.dims, dtype), fold.cast(x.array(), x.dims, dtype))


@given(values(some.sampled_from([(3,), (2, 3), (4, 1, 2)])), some.data())
def test_known_reduce_equals_numpy(x, data):
    axes = sorted(data.draw(some.sets(some.integers(0, len(x.dims) - 1), min_size=1)))
    op = data.draw(some.sampled_from(sorted(fold.REDUCE)))
    dims = tuple(d for i, d in enumerate(x.dims) if i not in axes)
    agree(evaluate.reduce(op, x, axes, False, dims, x.dtype), fold.reduce(op, x.array(), axes, False, dims, x.dtype))


@given(some.lists(values(some.sampled_from([(1,), (3,), (0,)]), some.just("INT64")), min_size=1, max_size=4))
def test_known_concatenate_equals_numpy(xs):
    dims = (sum(x.size for x in xs),)
    expected = fold.concatenate([x.array() for x in xs], 0, dims, "INT64")
    agree(evaluate.concatenate(xs, 0, dims, "INT64"), expected)


@given(values(some.sampled_from([(3,), (2, 3), (4, 1, 2)])), some.data())
def test_known_gather_equals_numpy(x, data):
    axis = data.draw(some.integers(0, len(x.dims) - 1))
    indices = data.draw(some.lists(some.integers(-x.dims[axis] - 1, x.dims[axis]), max_size=4))
    dims = (*x.dims[:axis], len(indices), *x.dims[axis + 1 :])
    at = known.Small(indices, (len(indices),), "INT64")
    agree(evaluate.gather(x, at, axis, dims, x.dtype), fold.gather(x.array(), at.array(), axis, dims, x.dtype))


@given(values(some.sampled_from([(3,), (2, 3), (4, 1, 2)])), some.data())
def test_known_shuffle_equals_numpy(x, data):
    first = data.draw(some.one_of(some.none(), some.permutations(range(len(x.dims)))))
    middle = data.draw(some.sampled_from([(x.size,), (x.size, 1), (1, x.size)]))
    second = data.draw(some.one_of(some.none(), some.permutations(range(len(middle)))))
    dims = middle if second is None else tuple(middle[i] for i in second)
    agree(
        evaluate.shuffle(x, first, middle, second, dims, x.dtype), fold.shuffle(x.array(), first, middle, second, dims, x.dtype)
    )


@given(values(some.sampled_from([(3,), (2, 3), (4, 1, 2)])), some.data())
def test_known_slice_equals_numpy(x, data):
    axes = data.draw(some.one_of(some.none(), some.permutations(range(len(x.dims)))))
    along = range(len(x.dims)) if axes is None else axes
    rows = [[data.draw(some.integers(low, 3)) for _ in along] for low in (-1, 0, -2)]
    dims = list(x.dims)
    for axis, size in zip(along, rows[1]):
        dims[axis] = size
    agree(
        evaluate.strict_slice(x, rows, axes, tuple(dims), x.dtype), fold.strict_slice(x.array(), rows, axes, tuple(dims), x.dtype)
    )


@given(numbers, some.integers(-3, 3), some.integers(0, 70))
def test_known_linspace_equals_numpy(first, step, count):
    start = known.Small([first], (), "INT64")
    agree(evaluate.linspace(start, step, count, "INT64"), fold.linspace(start.array(), step, count, "INT64"))


def test_known_floats_are_evaluated_lazily():
    asked = []
    x = known.Waiting((2,), "FLOAT", lambda: asked.append(1) or np.array([0.5, 2.0], np.float32))
    doubled = evaluate.elementwise("SUM", x, x, (2,), "FLOAT")
    assert not asked
    assert evaluate.cast(doubled, (2,), "INT64").integers() == [1, 4]
    assert asked == [1]


def test_a_long_chain_of_lazy_values_does_not_recurse():
    x = known.of_numbers([1.0], "FLOAT", (1,))
    for _ in range(5000):
        x = evaluate.elementwise("SUM", x, x, (1,), "FLOAT")
    assert x is not None
    assert x.array().shape == (1,)


def test_a_pickled_lazy_value_keeps_its_value():
    x = known.of_numbers([0.5], "FLOAT", ())
    assert pickle.loads(pickle.dumps(x)).array() == np.float32(0.5)


def test_numbers_that_do_not_fill_the_dims_are_refused():
    with pytest.raises(ValueError, match="2 numbers"):
        known.of_numbers([1, 2], "INT64", (3,))


def test_transposing_an_empty_value_with_huge_dims_is_fast():
    """Its other dimension may be as large as a file says: the offsets along it are not written down."""
    empty = known.Small([], (0, 1 << 31), "INT64")
    found = evaluate.shuffle(empty, (1, 0), (1 << 31, 0), None, (1 << 31, 0), "INT64")
    assert isinstance(found, known.Small)
    assert found.dims == (1 << 31, 0)
    assert list(found.numbers) == []
