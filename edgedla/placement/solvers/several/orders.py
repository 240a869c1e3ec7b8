"""Orders in which the segments of two models use their shared devices, and the paths through such a schedule."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

#: A segment of one of the models: (model, segment).
Node = Tuple[int, int]

#: Most paths used of a schedule: any subset gives a valid bound, and three of four are below another.
MOST_PATHS = 256


def orders(
    devices: Tuple[Sequence[str], Sequence[str]], may_precede: Tuple[np.ndarray, np.ndarray]
) -> Iterator[List[Node]]:
    """All orders, each as one sequence of both models' segments; if two commute, the first model's comes first.

    Args:
        devices: per model and segment.
        may_precede: per model, (its segments, the other's segments): whether its segment may run before the other model's,
            if both use one device.
    """
    ahead = [
        [[mine != other or bool(may) for other, may in zip(others, row)] for mine, row in zip(own, matrix)]
        for own, others, matrix in zip(devices, devices[::-1], may_precede)
    ]

    def grown(done: List[Node], i: int, j: int, before: Optional[str]) -> Iterator[List[Node]]:
        if (i, j) == (len(devices[0]), len(devices[1])):
            yield done
        if i < len(devices[0]) and before in (None, devices[0][i]) and all(ahead[0][i][j:]):
            yield from grown([*done, (0, i)], i + 1, j, None)
        if j < len(devices[1]) and all(ahead[1][j][i:]):
            yield from grown([*done, (1, j)], i, j + 1, devices[1][j])

    return grown([], 0, 0, None)


def paths(devices: Tuple[Sequence[str], Sequence[str]], order: Sequence[Node]) -> Tuple[np.ndarray, np.ndarray]:
    """The paths from the start of a schedule to its end: per model (paths, segments), 1 for a segment on the path.

    The shortest schedule in this order is as long as its longest path.
    """
    follows = _followers(devices, order)
    met: List[np.ndarray] = []
    at = (0, len(devices[0]))
    stack = [((m, 0), np.zeros(sum(map(len, devices)))) for m in (0, 1)]
    while stack and len(met) < MOST_PATHS:
        (m, k), way = stack.pop()
        way = way.copy()
        way[at[m] + k] = 1.0
        ends = k + 1 == len(devices[m])
        if ends:
            met.append(way)
        else:
            stack.append(((m, k + 1), way))
        if (m, k) in follows:
            stack.append((follows[m, k], way))
    ways = np.unique(np.array(met), axis=0)
    within = (ways[:, None] <= ways).all(axis=2) & (ways[:, None] < ways).any(axis=2)
    ways = ways[~np.any(within, axis=1)]
    return ways[:, : at[1]], ways[:, at[1] :]


def _followers(devices: Tuple[Sequence[str], Sequence[str]], order: Sequence[Node]) -> Dict[Node, Node]:
    """Per segment, the other model's segment that follows it on its device."""
    follows: Dict[Node, Node] = {}
    last: Dict[str, Node] = {}
    for m, k in order:
        before = last.get(devices[m][k])
        if before is not None and before[0] != m:
            follows[before] = m, k
        last[devices[m][k]] = m, k
    return follows
