"""Sets of small numbers as bits, and an array that grows, for many states at once."""

from __future__ import annotations

import itertools
from typing import Any, Collection, Dict, Iterable, List, Sequence, Tuple

import numpy as np


class GrowingArray:
    """Rows added at the end. Capacity at least doubles, so each row is copied only a few times."""

    def __init__(self, kind: Any, *width: int) -> None:
        self._room: np.ndarray = np.empty((64, *width), kind)
        self._count = 0

    @property
    def rows(self) -> np.ndarray:
        """All rows so far; writing to them changes them."""
        return self._room[: self._count]

    def add(self, rows: Any) -> None:
        rows = np.asarray(rows, self._room.dtype).reshape(-1, *self._shape)
        needed = self._count + len(rows)
        if needed > len(self._room):
            room = np.empty((2 * needed, *self._shape), self._room.dtype)
            room[: self._count] = self.rows
            self._room = room
        self._room[self._count : needed] = rows
        self._count = needed

    @property
    def _shape(self) -> Tuple[int, ...]:
        return self._room.shape[1:]


#: A word has two to the power of so many bits; the rest of a number is its place in the word.
WORD = 6


def bits_of(sets: Sequence[Iterable[int]], size: int) -> np.ndarray:
    """(sets, words): the members of each set, from 0 to below `size`, as bits of unsigned words."""
    single = np.zeros((len(sets), (max(size, 1) - 1 >> WORD) + 1 << WORD), bool)
    for row, numbers in enumerate(sets):
        single[row, list(numbers)] = True
    return np.packbits(single, axis=1, bitorder="little").view("<u8")


def members(bits: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """(row, member) of all members, ascending."""
    single = np.unpackbits(np.ascontiguousarray(bits, "<u8").view(np.uint8), axis=1, bitorder="little")
    rows, numbers = np.nonzero(single.view(bool))
    return rows, numbers


def has(bits: np.ndarray, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Per pair of a row and a number, whether the number is a member of the row's set."""
    found: np.ndarray = bits[rows, numbers >> WORD] & _bit(numbers)
    return found != 0


def meet(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Per row, whether both sets have a member in common; NumPy's `any` along short rows takes a multiple of the time."""
    common: np.ndarray = a[:, 0] & b[:, 0]
    for word in range(1, a.shape[1]):
        common |= a[:, word] & b[:, word]
    return common != 0


def add(bits: np.ndarray, rows: np.ndarray, numbers: np.ndarray, which: np.ndarray) -> None:
    """Adds a number to the set of each row, for the pairs in `which`; no row occurs twice."""
    rows, numbers = rows[which], numbers[which]
    bits[rows, numbers >> WORD] |= _bit(numbers)


def remove(bits: np.ndarray, rows: np.ndarray, numbers: np.ndarray, which: np.ndarray) -> None:
    """Removes a number from the set of each row, for the pairs in `which`; no row occurs twice."""
    rows, numbers = rows[which], numbers[which]
    bits[rows, numbers >> WORD] &= ~_bit(numbers)


def keys_of(rows: np.ndarray) -> List[bytes]:
    """A key per row; equal rows have equal keys."""
    keys: List[bytes] = np.ascontiguousarray(rows).view(f"S{rows.itemsize * rows.shape[1]}").ravel().tolist()
    return keys


def numbered(numbers: Dict[bytes, int], keys: Sequence[bytes], first: int) -> Tuple[np.ndarray, np.ndarray]:
    """(the number of each key, positions of keys that are new); new keys are added, numbered from `first` on."""
    of_keys = np.fromiter(map(numbers.get, keys, itertools.repeat(-1)), int, len(keys))
    missing = np.flatnonzero(of_keys < 0)
    of_new = [keys[position] for position in missing.tolist()]
    new = dict.fromkeys(of_new)
    numbers.update(zip(new, itertools.count(first)))
    of_keys[missing] = np.fromiter(map(numbers.__getitem__, of_new), int, len(of_new))
    positions = np.empty(len(new), int)
    # The last value written stays: the first position of each key.
    positions[of_keys[missing[::-1]] - first] = missing[::-1]
    return of_keys, positions


class Slots:
    """Lists of numbers, one list per row, entry by entry.

    Attributes:
        values: (rows, most entries), -1 beyond the end of a list.
    """

    def __init__(self, lists: Sequence[Collection[int]]) -> None:
        self.values = np.full((len(lists), max(map(len, lists), default=0)), -1)
        for row, numbers in enumerate(lists):
            self.values[row, : len(numbers)] = list(numbers)

    def of(self, rows: np.ndarray) -> Iterable[Tuple[np.ndarray, np.ndarray]]:
        """For each entry, (positions in `rows` of those that have it, their entries)."""
        which = np.arange(len(rows))
        for slot in range(self.values.shape[1]):
            entries = self.values[rows[which], slot]
            which, entries = which[entries >= 0], entries[entries >= 0]
            if not len(which):
                return
            yield which, entries


def _bit(numbers: np.ndarray) -> np.ndarray:
    bits: np.ndarray = np.uint64(1) << (numbers.astype(np.uint64) & np.uint64((1 << WORD) - 1))
    return bits
