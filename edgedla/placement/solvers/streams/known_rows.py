"""What is known of states, looked up by their rows of numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Tuple

import numpy as np

from edgedla.placement.solvers.streams.state_arrays import distinct, packed


class KnownRows:
    """A table of distinct rows of numbers from 0 on, ordered by their hash.

    Attributes:
        least: by row, the least of the values that equal rows were given with.
    """

    def __init__(self, rows: np.ndarray, values: np.ndarray) -> None:
        first, number = distinct(packed(rows))
        least = np.full((len(first), *values.shape[1:]), np.inf)
        np.minimum.at(least, number, values)
        hashes = _hashes(rows[first])
        order = np.argsort(hashes, kind="stable")
        self.least: np.ndarray = least[order]
        self._rows, self._ordered = rows[first][order], hashes[order]

    def find(self, rows: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """(for each row its number in `least`, whether it is in the table; where not, the number is that of another row)."""
        at = np.minimum(np.searchsorted(self._ordered, _hashes(rows)), len(self._ordered) - 1)
        return at, (self._rows[at] == rows).all(axis=1)


def _hashes(rows: np.ndarray) -> np.ndarray:
    hashes: np.ndarray = rows.astype(np.int64) @ _multipliers(rows.shape[1])
    return hashes


@lru_cache(maxsize=None)
def _multipliers(width: int) -> np.ndarray:
    """Odd numbers: a sum by them differs for almost all different rows, and overflow does no harm."""
    return np.random.default_rng(0).integers(1 << 62, size=width) * 2 + 1
