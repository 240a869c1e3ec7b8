"""Shared memory: what GPU and DLA leave each other of the DRAM's bandwidth."""

from __future__ import annotations


def achieved_gb_s(demand: float, external: float, total: float, floor: float) -> float:
    """Bandwidth that one side gets while others ask for `external` GB/s.

    achieved = min(demand, max(total - external, floor)): the sides share `total`, and none is pushed below `floor`.
    """
    return min(demand, max(total - external, floor))


def slowdown_of(demand: float, external: float, total: float, floor: float) -> float:
    """How much longer a side takes with the others beside it: bandwidth alone / bandwidth beside `external`; 1 where both fit."""
    shared = achieved_gb_s(demand, external, total, floor)
    return max(achieved_gb_s(demand, 0.0, total, floor) / shared, 1.0) if shared > 0 else 1.0
