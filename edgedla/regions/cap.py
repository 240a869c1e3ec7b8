"""How many loadables one DLA core takes in one engine, and which candidates survive."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence, Tuple

from edgedla.regions.values import Region
from edgedla.targets import Platform

#: (first TensorRT version, subgraphs a core). 8: logs of 7.x ("DLA supports only 8 subgraphs per DLA core");
#: 16: logs of 8.5.2 on Xavier and 10.3 on Orin, developer guide 8.5. For 8.0 to 8.4 guides state 4 loadables alive
#: at once and no log shows the builder's cap; the lower one of its neighbours holds.
SUBGRAPHS_PER_CORE = (((8, 5), 16), ((0,), 8))


def subgraphs_per_core(platform: Platform) -> int:
    return next(limit for first, limit in SUBGRAPHS_PER_CORE if platform.release.trt >= first)


def apply_cap(regions: Sequence[Region], limit: int) -> Tuple[Region, ...]:
    """The same regions with `kept` set: the largest by layer count, ties in topological order.

    DETR on TensorRT 10.3 shows the order: of 162 candidates the backbone, eleven of three layers and the first four
    of two survive; in INT8 the backbone and the first fifteen of two.
    """
    survivors = {r.id for r in sorted(regions, key=lambda r: (-r.size, r.id))[:limit]}
    return tuple(replace(r, kept=r.id in survivors) for r in regions)
