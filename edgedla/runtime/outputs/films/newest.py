"""Selects the files to remove if only the newest are kept."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Deque, Iterable, List


class Newest:
    """The newest `keep` files (0: all): files of this run by their order, earlier ones before them by their times.

    Times alone are not enough: a board without a battery starts in the past, and its new files would be removed first.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._own: Deque[str] = collections.deque(maxlen=max(1, keep))

    def wrote(self, path: Path) -> None:
        self._own.append(path.name)

    def surplus(self, files: Iterable[Path]) -> List[Path]:
        """The files to remove."""
        if not self._keep:
            return []
        place = {name: number for number, name in enumerate(tuple(self._own))}
        ordered = sorted(files, key=lambda p: (place.get(p.name, -1), age_ns(p), p.name))
        return ordered[: -self._keep]


def age_ns(path: Path) -> int:
    """Time of the last write; 0 for a file removed meanwhile. For a link its own time, because it may be broken."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0
