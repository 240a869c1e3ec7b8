"""The values that a page's components show: key figures, bars with their error bars, facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Tuple


@dataclass(frozen=True)
class Figure:
    """One key figure. `share` (0 to 1) draws a meter; `pips` = (used, free, over) draws the places of a limit."""

    name: str
    value: str
    unit: str = ""
    note: str = ""
    share: float = -1.0
    pips: Tuple[int, int, int] = (0, 0, 0)
    wide: bool = False


@dataclass(frozen=True)
class Part:
    """A part of a bar: `kind` is "gpu", "dla" or "move" (starting loadables and crossing between devices)."""

    kind: str
    value: float


@dataclass(frozen=True)
class Bar:
    """One way to run the model: a value with one standard deviation, energy in mJ, and the parts of the value by device."""

    name: str
    note: str
    value: float
    deviation: float
    energy_mj: float
    parts: Tuple[Part, ...]
    unit: str = "ms"

    @property
    def end(self) -> float:
        return self.value + self.deviation


@dataclass(frozen=True)
class Fact:
    """A row of the basis: `badge` is "", "predicted", "fitted", "guessed", "measured" or "simulated"."""

    name: str
    text: str
    badge: str = ""
    code: bool = False


def widest(bars: Sequence[Bar]) -> float:
    """The end of the scale that all bars of a block share."""
    return max((bar.end for bar in bars), default=0.0) or 1.0
