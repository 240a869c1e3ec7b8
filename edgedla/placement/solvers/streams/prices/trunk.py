"""The path through a model along which loadables are counted."""

from __future__ import annotations

from typing import Dict, List, Optional

from edgedla.placement.solvers.streams.frontier import Frontier


def trunk(frontier: Frontier) -> Dict[int, Optional[int]]:
    """Per model, the path with the most items that have a choice of device: item -> the item before it on the path."""
    problem = frontier.problem
    depth: List[float] = []
    before: List[Optional[int]] = []
    for i in range(len(problem.items)):
        inputs = problem.predecessors(i)
        p = max(inputs, key=lambda q: (depth[q], -q)) if inputs else None
        before.append(p)
        depth.append((0.0 if p is None else depth[p]) + (1.0 if len(frontier.allowed[i]) > 1 else 1e-3))
    before_on: Dict[int, Optional[int]] = {}
    for m in range(len(problem.models)):
        items = problem.items_of(m)
        at = max(items, key=lambda i: (depth[i], -i)) if items else None
        while at is not None:
            before_on[at] = before[at]
            at = before[at]
    return before_on
