"""Placements of a model item by item, with how many loadables they have."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier, State


class Counted:
    """All placements of a model on a frontier's devices; columns are the devices and, last, how many loadables there are."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier, self.start = frontier, frontier.start
        self.columns = len(frontier.devices) + 1
        self.known: List[Dict[Any, Any]] = [{} for _ in frontier.allowed]

    def choices(self, i: int, state: State) -> Sequence[int]:
        return self.frontier.allowed[i]

    def step(self, i: int, state: State, device: int) -> Tuple[State, List[float]]:
        behind, load, more = self.frontier.counted_step(i, state, device)
        return behind, [*load, float(more)]

    def is_whole(self, state: State) -> bool:
        return True
