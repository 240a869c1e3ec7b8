"""Which files stay where only the newest are kept."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Deque, Iterable, List


class Newest:
    """The newest `keep` files (0: all): those of this run by their order, others before them by their times.

    A board without a battery starts in the past: by their times alone its own files would be the oldest, and go at once.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._own: Deque[str] = collections.deque(maxlen=max(1, keep))

    def wrote(self, path: Path) -> None:
        self._own.append(path.name)

    def surplus(self, files: Iterable[Path]) -> List[Path]:
        """Those that go."""
        if not self._keep:
            return []
        place = {name: number for number, name in enumerate(tuple(self._own))}
        ordered = sorted(files, key=lambda p: (place.get(p.name, -1), age_ns(p), p.name))
        return ordered[: -self._keep]


def age_ns(path: Path) -> int:
    """When it was written last; of what somebody else has just removed 0. Of a link its own time: it may lead nowhere."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0
