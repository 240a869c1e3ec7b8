"""Variants of a placement with a few layers moved where a model changes devices."""

from __future__ import annotations

from typing import Dict, List, Tuple

from edgedla.placement.problem.problem import Problem

#: Numbers of layers moved, and most placements returned.
MOVED, MOST_MOVED = (1, 2, 3, 5, 8), 48


def with_moved_ends(problem: Problem, assignment: Tuple[str, ...], m: int) -> List[Tuple[str, ...]]:
    """The placement with some layers moved to the neighbouring device where model m changes devices.

    Placing one model around the others cannot do this: here a model gives up some time of a device, and only another model
    gains from it.
    """
    items = problem.items_of(m)
    on = [assignment[i] for i in items]
    moved: Dict[Tuple[str, ...], None] = {}
    for shift in MOVED:
        for p in [p for p in range(1, len(on)) if on[p] != on[p - 1]]:
            for part, device in ((range(p, p + shift), on[p - 1]), (range(p - shift, p), on[p])):
                changed = list(assignment)
                for k in part:
                    if 0 <= k < len(on) and device in problem.items[items[k]].allowed:
                        changed[items[k]] = device
                if len(moved) < MOST_MOVED:
                    moved[tuple(changed)] = None
    moved.pop(assignment, None)
    return list(moved)
