"""Samples from Python: an array, arrays by input, or an iterable of them, with labels or without."""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence, Tuple

import numpy as np

from edgedla.errors import DataError, UsageError
from edgedla.quantization.samples import Feed, Feeds, InputSpec, Joined, Samples, feeds_of

_ITEMS = "an array, arrays by input name, or a pair (inputs, labels)"
_ALLOWED = f"a path, an array, arrays by input name, or an iterable whose items are {_ITEMS}"


def samples_from(data: Any, inputs: Sequence[InputSpec]) -> Samples:
    """Samples from an array or mapping (one or more samples along the first axis), or from an iterable of them.

    An item may be a pair of inputs and labels, as in PyTorch's data sets and loaders. Data with a length and an index,
    one sample per item, is read on use. Other iterables are kept in memory, because samples are read several times.

    Raises:
        UsageError: `data` is not iterable. DataError: an item does not fit the inputs, or there are no items.
    """
    if isinstance(data, (Mapping, np.ndarray)):
        feeds = feeds_of(_arrays(data, inputs, "the array"), inputs, "the array")
        return Samples(feeds, False, f"{len(feeds)} samples of an array")
    indexed = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if indexed and len(data) and len(_feeds(data[0], inputs, 0)[0]) == 1:
        every: Sequence[Feed] = _Items(data, inputs)
        labels = [label for i in range(len(data)) for label in _labels(data[i])] if _is_pair(data[0]) else []
    else:
        every, labels = _collected(data, inputs)
    what = type(data).__name__
    if not len(every):
        raise DataError("there is no sample", where=what, allowed="at least one; 64 or more are better")
    if labels and len(labels) != len(every):
        raise DataError(f"{len(labels)} labels for {len(every)} samples", where=what, allowed="one per sample")
    return Samples(every, False, f"{len(every)} samples of a {what}", labels or None)


class _Items(Feeds):
    """One sample per item, read on use."""

    def __init__(self, items: Any, inputs: Sequence[InputSpec]) -> None:
        self._items, self._inputs = items, inputs

    def __len__(self) -> int:
        return len(self._items)

    def feed(self, index: int) -> Feed:
        feeds = _feeds(self._items[index], self._inputs, index)[0]
        if len(feeds) != 1:
            raise DataError(f"{len(feeds)} samples in one item, the first item has one", where=f"item {index}")
        return feeds[0]


def _collected(data: Any, inputs: Sequence[InputSpec]) -> Tuple[Sequence[Feed], List[Any]]:
    try:
        items = iter(data)
    except TypeError as e:
        raise UsageError(f"samples of the type {type(data).__name__}", allowed=_ALLOWED) from e
    parts: List[Sequence[Feed]] = []
    labels: List[Any] = []
    for i, item in enumerate(items):
        feeds, more = _feeds(item, inputs, i)
        parts.append(feeds)
        labels.extend(more)
    return Joined(parts), labels


def _feeds(item: Any, inputs: Sequence[InputSpec], index: int) -> Tuple[Sequence[Feed], List[Any]]:
    """(the item's samples, its labels)."""
    where = f"item {index}"
    return feeds_of(_arrays(item[0] if _is_pair(item) else item, inputs, where), inputs, where), _labels(item)


def _is_pair(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and len(item) == 2


def _labels(item: Any) -> List[Any]:
    if not _is_pair(item):
        return []
    label = item[1]
    return list(np.asarray(label)) if np.ndim(label) else [label]


def _arrays(item: Any, inputs: Sequence[InputSpec], where: str) -> Mapping[str, Any]:
    if isinstance(item, Mapping):
        dims = {spec.name: spec.shape for spec in inputs}
        return {name: _with_batch(np.asarray(values), dims.get(name, ())) for name, values in item.items()}
    values = np.asarray(item) if hasattr(item, "__array__") else None
    if values is None or values.dtype == object:
        raise DataError(f"a sample of the type {type(item).__name__}", where=where, allowed=_ITEMS)
    if len(inputs) != 1:
        names = ", ".join(spec.name for spec in inputs)
        raise DataError(f"one array for {len(inputs)} inputs", where=where, allowed=f"arrays by name: {names}")
    return {inputs[0].name: _with_batch(values, inputs[0].shape)}


def _with_batch(values: np.ndarray, dims: Tuple[int, ...]) -> np.ndarray:
    """Adds the batch axis, which a single picture of a data set lacks."""
    return values[None] if dims[:1] == (1,) and values.shape == dims[1:] else values
