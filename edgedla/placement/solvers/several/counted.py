"""Placements of a model that have at least so many loadables."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier, State


class Counted:
    """All placements of a model on a frontier's devices with `least` loadables or more; columns are the devices."""

    def __init__(self, frontier: Frontier, least: int = 0) -> None:
        self.frontier, self.least = frontier, least
        self.start: Tuple[State, int] = (frontier.start, 0)
        self.known: List[Dict[Any, Any]] = [{} for _ in frontier.allowed]

    def choices(self, i: int, state: Tuple[State, int]) -> Sequence[int]:
        return self.frontier.allowed[i]

    def step(self, i: int, state: Tuple[State, int], device: int) -> Tuple[Tuple[State, int], List[float]]:
        behind, load, more = self.frontier.counted_step(i, state[0], device)
        return (behind, min(state[1] + more, self.least)), load

    def is_whole(self, state: Tuple[State, int]) -> bool:
        return state[1] >= self.least
