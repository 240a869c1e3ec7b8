"""Cost: predicted or measured time and energy of a piece of work, with its basis and spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, Tuple

from edgedla.vocabulary import DEVICE_KINDS, DEVICES

#: Where a number comes from, strongest first. A sum is as weak as its weakest part.
BASES: Tuple[str, ...] = ("measured", "fitted", "guessed")

_RANK = {basis: rank for rank, basis in enumerate(BASES)}

#: Kinds of engine by device: placements ask for millions.
_KIND_OF = {device: device[:3] for device in (*DEVICES, *DEVICE_KINDS)}


def device_kind(device: str) -> str:
    """ "GPU" or "DLA" for "GPU", "DLA", "DLA0", "DLA1".

    Raises:
        ValueError: another name.
    """
    kind = _KIND_OF.get(device) or device[:3].upper()
    if kind not in DEVICE_KINDS:
        raise ValueError(f"unknown device {device!r}, allowed: GPU, DLA, DLA0, DLA1")
    return kind


@dataclass(frozen=True)
class Cost:
    """Time and energy of one run, with how far they can be trusted.

    Addition: latency and energy add; the basis is the weaker one; the spreads add as absolute deviations, weighted by
    latency (energy), because the errors of one cost model go the same way in all layers and do not cancel:
        spread = (spread_a * latency_a + spread_b * latency_b) / (latency_a + latency_b)
    `Cost()` is the zero of the addition.

    Attributes:
        latency_us: time in microseconds.
        energy_mj: energy above idle, in millijoules, at full duty.
        basis: "measured" (a profile of this layer), "fitted" (coefficients fitted to published figures of this kind of
            engine and precision), or "guessed" (carried over from another engine, precision or layer kind).
        spread: relative standard deviation of latency_us (0.1 = 10 %).
        energy_spread: relative standard deviation of energy_mj.
        transfer_us: the part of latency_us that moves data to and from the DRAM; other engines' traffic stretches it.
    """

    latency_us: float = 0.0
    energy_mj: float = 0.0
    basis: str = "measured"
    spread: float = 0.0
    energy_spread: float = 0.0
    transfer_us: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise ValueError(f"basis {self.basis!r}, allowed: {', '.join(BASES)}")
        if not (self.latency_us >= 0 and self.energy_mj >= 0 and self.spread >= 0 and self.energy_spread >= 0):
            raise ValueError(f"negative or undefined cost: {self!r}")

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return total((self, other))

    def scaled(self, factor: float) -> Cost:
        """The cost with its latency and energy multiplied by `factor` (contention, repeated runs)."""
        return Cost(
            self.latency_us * factor,
            self.energy_mj * factor,
            self.basis,
            self.spread,
            self.energy_spread,
            self.transfer_us * factor,
        )

    def stretched(self, factor: float, spread: float) -> Cost:
        """The cost while other engines run beside it: longer by `factor`, which `spread` is of; the same energy.

        The spreads are of different causes and do not go the same way: spread = sqrt(own^2 + spread^2).
        """
        spread_together = math.sqrt(self.spread**2 + spread**2)
        return replace(self, latency_us=self.latency_us * factor, spread=spread_together)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "latency_us": round(self.latency_us, 3),
            "energy_mj": round(self.energy_mj, 6),
            "basis": self.basis,
            "spread": round(self.spread, 3),
            "energy_spread": round(self.energy_spread, 3),
        }


def weakest(bases: Iterable[str]) -> str:
    """The weakest basis of several; "measured" for none."""
    return BASES[max((BASES.index(b) for b in bases), default=0)]


def total(costs: Iterable[Cost]) -> Cost:
    """The sum; `Cost()` for none. As adding one by one, without a value for every step: placements sum thousands."""
    latency = energy = transfer = deviation = energy_deviation = 0.0
    spread = energy_spread = 0.0
    basis = 0
    for cost in costs:
        us, mj, rank = cost.latency_us, cost.energy_mj, _RANK[cost.basis]
        latency += us
        energy += mj
        transfer += cost.transfer_us
        deviation += cost.spread * us
        energy_deviation += cost.energy_spread * mj
        spread = cost.spread if cost.spread > spread else spread
        energy_spread = cost.energy_spread if cost.energy_spread > energy_spread else energy_spread
        basis = rank if rank > basis else basis
    return Cost(
        latency,
        energy,
        BASES[basis],
        deviation / latency if latency > 0 else spread,
        energy_deviation / energy if energy > 0 else energy_spread,
        transfer,
    )
