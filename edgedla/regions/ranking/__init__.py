"""Change these layers first: remedies in the order in which they help, each worked out on top of those before it."""

from __future__ import annotations

from edgedla.regions.ranking.rank import MOST_CHANGES, in_order, rank_changes, removals
from edgedla.regions.ranking.remedies import changed

__all__ = ["MOST_CHANGES", "changed", "in_order", "rank_changes", "removals"]
