"""How many loadables one DLA core takes in one engine, and which candidates survive."""

from __future__ import annotations

from typing import Sequence, Tuple

from edgedla.regions.values import Region
from edgedla.rules import load_rules
from edgedla.targets import Platform

#: The rule that states the cap (rules/layers/loadable.yaml).
CAP_RULE = "LOAD003"


def subgraphs_per_core(platform: Platform) -> int:
    """How many subgraphs one DLA core takes in one engine of this release; 0 without a DLA core."""
    if not platform.module.dla_cores:
        return 0
    return load_rules().limit("LOADABLE", CAP_RULE, platform)


def apply_cap(regions: Sequence[Region], limit: int) -> Tuple[Region, ...]:
    """The same regions with `kept` set: the largest by layer count, ties in topological order.

    DETR on TensorRT 10.3 shows the order: of 162 candidates the backbone, eleven of three layers and the first four
    of two survive; in INT8 the backbone and the first fifteen of two.
    """
    survivors = {r.id for r in sorted(regions, key=lambda r: (-r.size, r.id))[:limit]}
    return tuple(r._replace(kept=r.id in survivors) for r in regions)
