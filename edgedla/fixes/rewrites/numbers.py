"""Arithmetic that several rewrites share."""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np


def factors(number: int, most: int) -> Optional[Tuple[int, ...]]:
    """The fewest factors of at most `most` whose product is the number, largest first; None if a prime factor is larger.

    factors(14, 8) = (7, 2); factors(56, 8) = (8, 7); factors(1, 8) = ().
    """
    best: List[Optional[Tuple[int, ...]]] = [None]

    def search(rest: int, top: int, chosen: Tuple[int, ...]) -> None:
        if rest == 1:
            if best[0] is None or len(chosen) < len(best[0]):
                best[0] = chosen
            return
        for factor in range(min(rest, top), 1, -1):
            if rest % factor == 0 and (best[0] is None or len(chosen) + 1 < len(best[0])):
                search(rest // factor, factor, (*chosen, factor))

    search(number, most, ())
    return best[0]


def stages(height: int, width: int, most: int) -> Optional[Tuple[Tuple[int, int], ...]]:
    """Factors of both sides in pairs, 1 where one side has fewer: stages(14, 7, 8) = ((7, 7), (2, 1))."""
    rows, columns = factors(height, most), factors(width, most)
    if rows is None or columns is None:
        return None
    count = max(len(rows), len(columns))
    return tuple(zip(rows + (1,) * (count - len(rows)), columns + (1,) * (count - len(columns))))


def one_hot(rows: int, columns: int, column_of_row: np.ndarray) -> np.ndarray:
    """A rows x columns matrix with a 1 in column `taken[row]` of each row."""
    matrix = np.zeros((rows, columns))
    matrix[np.arange(rows), column_of_row] = 1.0
    return matrix
