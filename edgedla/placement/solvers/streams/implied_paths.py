"""Which live items lie on paths that others make at least as long: their own slack no longer matters."""

from __future__ import annotations

from typing import List, Set, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier

#: A live item, and live items of which one lies on a path from it to each of its readers to come; all as places.
Implied = Tuple[int, Tuple[int, ...]]


def implied_paths(frontier: Frontier) -> List[List[Implied]]:
    """By position, the live items each reader of which also waits for a live item that waits for them.

    No path by way of such an item has more stretches than the one over the item between: an item that waits for another has
    all stretches on the path to that one, and one more if it alone is on the core.
    """
    problem, items = frontier.problem, len(frontier.allowed)
    readers: List[Set[int]] = [set() for _ in range(items)]
    for i in range(items):
        for j in problem.predecessors(i):
            readers[j].add(i)
    beyond = [0] * items
    for i in reversed(range(items)):
        for j in readers[i]:
            beyond[i] |= 1 << j | beyond[j]
    by_position: List[List[Implied]] = []
    for i in range(items + 1):
        live = frontier.live_items[i]
        # What is reached by way of items to come alone: the slack of those that stand already counts by itself.
        reached = [0] * len(live)
        for a, j in enumerate(live):
            for c in readers[j]:
                if c >= i:
                    reached[a] |= 1 << c | beyond[c]
        implied: List[Implied] = []
        for a, j in enumerate(live):
            others = [b for b, k in enumerate(live) if beyond[j] >> k & 1]
            # The last one: it has the longest path, or one as long.
            last = [max((b for b in others if reached[b] >> c & 1), default=-1) for c in readers[j] if c >= i]
            if last and min(last) >= 0:
                implied.append((a, tuple(sorted(set(last)))))
        by_position.append(implied)
    return by_position
