"""Version tuples and ranges: how "10.3" and "10.3.0.30" compare."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Tuple

Version = Tuple[int, ...]
_PARTS = 4
_TOP = (1 << 30,)


def parse_version(text: str) -> Optional[Version]:
    """ "10.3.0.30" -> (10, 3, 0, 30); None if the text is not a version of one to four numbers."""
    text = text.strip()
    if not re.match(r"[0-9]{1,4}(\.[0-9]{1,5}){0,3}\Z", text):
        return None
    return tuple(int(n) for n in text.split("."))


def padded(version: Version) -> Version:
    """The version padded with zeros to four numbers, so that (10, 3) and (10, 3, 0) compare equal."""
    return (version + (0,) * _PARTS)[:_PARTS]


class VersionRange(NamedTuple):
    """Versions from `low` to `high`. `high` includes every version that begins with it: 10.7.0.23 is within "10.7"."""

    low: Optional[Version] = None
    high: Optional[Version] = None

    @property
    def bounds(self) -> Tuple[Version, Version]:
        """Inclusive lower and exclusive upper bound."""
        low = padded(self.low or (0,))
        high = _TOP if self.high is None else padded(self.high[:-1] + (self.high[-1] + 1,))
        return low, high

    def contains(self, version: Version) -> bool:
        low, high = self.bounds
        return low <= padded(version) < high

    def overlaps(self, other: VersionRange) -> bool:
        (low, high), (other_low, other_high) = self.bounds, other.bounds
        return low < other_high and other_low < high

    def __str__(self) -> str:
        low, high = (".".join(str(n) for n in v) if v else "" for v in (self.low, self.high))
        if low and high:
            return low if low == high else f"{low} to {high}"
        return f"{low} and newer" if low else (f"up to {high}" if high else "every release")
