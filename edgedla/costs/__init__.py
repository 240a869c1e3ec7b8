"""Costs: latency and energy of layers, transitions and loadables on the GPU and the DLA, from published figures."""

from __future__ import annotations

from edgedla.costs.cost import BASES, Cost, total
from edgedla.vocabulary import DEVICE_KINDS

__all__ = ["BASES", "DEVICE_KINDS", "Cost", "total"]
