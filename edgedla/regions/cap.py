"""How many loadables one DLA core takes in one engine, and which candidates survive."""

from __future__ import annotations

from typing import Sequence, Tuple

from edgedla.regions.values import Region
from edgedla.rules import load_rules
from edgedla.targets import Platform

#: The rules that state the caps of one engine, and of several in use at once (rules/layers/loadable.yaml).
CAP_RULE, IN_USE_RULE = "LOAD003", "LOAD004"


def subgraphs_per_core(platform: Platform, engines: int = 1) -> int:
    """How many subgraphs one DLA core takes of one engine of this release, or of several together; 0 without a DLA core."""
    if not platform.module.dla_cores:
        return 0
    return min(load_rules().limit("LOADABLE", rule, platform) for rule in (CAP_RULE, IN_USE_RULE)[: min(engines, 2)])


def apply_cap(regions: Sequence[Region], limit: int) -> Tuple[Region, ...]:
    """The same regions with `kept` set: the largest by layer count, ties in topological order.

    DETR on TensorRT 10.3 shows the order: of 162 candidates the backbone, eleven of three layers and the first four
    of two survive; in INT8 the backbone and the first fifteen of two.
    """
    survivors = {r.id for r in sorted(regions, key=lambda r: (-r.size, r.id))[:limit]}
    return tuple(r._replace(kept=r.id in survivors) for r in regions)
