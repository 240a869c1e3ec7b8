"""The paths through a schedule in which the holds of two models alternate."""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

import numpy as np

#: A column of one of the models: (model, column).
Column = Tuple[int, int]


def told(first: int, holds: int) -> Tuple[int, int]:
    """By model, how many of so many holds are its own, which alternate from those of model `first` on."""
    of_first = (holds + 1) // 2
    return (of_first, holds - of_first) if first == 0 else (holds - of_first, of_first)


def paths(first: int, holds: int, closed: bool) -> Tuple[np.ndarray, np.ndarray]:
    """Per model (paths, columns), 1 for a column of `HoldArrays` on the path; a schedule takes no less than any of them.

    With closed paths the rest has one column.

    After a hold of one model the other's next hold begins, and after the break behind it its own next hold.

    Args:
        first: the model that begins.
        holds: that are told apart; the rest of either model comes in any order.
        closed: the rest of either model is one more hold.
    """
    own, of_rest = told(first, holds), 1 if closed else 3
    row = [((first + k) % 2, k // 2) for k in range(holds + 2 * closed)]
    at = {hold: k for k, hold in enumerate(row)}

    def rest(m: int) -> List[Column]:
        return [(m, 2 * own[m] + k) for k in range(of_rest)]

    def taken(m: int, k: int) -> List[Column]:
        return [(m, 2 * k)] if k < own[m] else rest(m)

    def from_hold(k: int) -> Iterator[List[Column]]:
        """The paths from the hold at place k of the row to the end."""
        m, hold = row[k]
        begin, after = taken(m, hold), at.get((m, hold + 1))
        if k + 1 < len(row):
            yield from (begin + way for way in from_hold(k + 1))
        if after is not None:
            yield from (begin + [(m, 2 * hold + 1)] + way for way in from_hold(after))
        if not closed:
            if k + 1 == len(row):
                yield begin + on_gpu
            if after is None:
                yield [*begin, (m, 2 * hold + 1), *rest(m)]
        elif k + 1 == len(row):
            yield begin

    on_gpu = [(m, 2 * own[m]) for m in (0, 1)]
    ways: List[List[Column]] = []
    for m in (0, 1):
        ways += from_hold(at[m, 0]) if (m, 0) in at else [rest(m)]
    if not row:
        ways.append(on_gpu)
    return _rows(ways, {m: 2 * own[m] + of_rest for m in (0, 1)})


def _rows(ways: List[List[Column]], columns: Dict[int, int]) -> Tuple[np.ndarray, np.ndarray]:
    first, second = (np.zeros((len(ways), columns[m])) for m in (0, 1))
    for k, way in enumerate(ways):
        for m, column in way:
            (first, second)[m][k, column] = 1.0
    both = np.unique(np.concatenate([first, second], axis=1), axis=0)
    return both[:, : columns[0]], both[:, columns[0] :]
