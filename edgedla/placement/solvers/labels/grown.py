"""Arrays that grow at the end."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np


class Grown:
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
