"""Shared memory: what GPU and DLA leave each other of the DRAM's bandwidth."""

from __future__ import annotations

from typing import NamedTuple


class Slowdown(NamedTuple):
    """Factors (>= 1) on the latency of each kind of engine while others run beside it.

    Attributes:
        gpu, dla: factors.
        basis: "fitted" on the module whose memory was measured (AGX Xavier), "guessed" elsewhere.
        spread: relative standard deviation of a factor.
    """

    gpu: float
    dla: float
    basis: str
    spread: float


def achieved_gb_s(demand: float, external: float, total: float, floor: float) -> float:
    """Bandwidth that one side gets while others ask for `external` GB/s.

    achieved = min(demand, max(total - external, floor)): the sides share `total`, and none is pushed below `floor`.
    """
    return min(demand, max(total - external, floor))


def slowdown_of(demand: float, external: float, total: float, floor: float, several: bool = False) -> float:
    """How much longer a side takes with the others beside it: 1 where the bandwidth allows.

    slowdown = achieved alone / achieved with `external` beside it. One engine's own time alone holds what it gets alone.
    Where `several` engines make up the side, alone they would each have got their demand: slowdown = demand / achieved.
    """
    alone = demand if several else achieved_gb_s(demand, 0.0, total, floor)
    shared = achieved_gb_s(demand, external, total, floor)
    return max(alone / shared, 1.0) if shared > 0 else 1.0
