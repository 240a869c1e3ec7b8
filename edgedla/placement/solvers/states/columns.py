"""States as rows of small integers, one column per part of a state, and the slack that can still matter."""

from __future__ import annotations

from collections import Counter
from typing import List, Set, Tuple

import numpy as np

from edgedla.placement.solvers.states.frontier import Frontier


class Columns:
    """The columns of a state, before one item or after the last. Equal states have equal futures.

    Per live item, which a later item still reads: its device, and per core its slack: the loadables that the core has beyond
    the stretches on the longest path to the item; so many further stretches add no loadable. Then:

    - paid, per live tensor: the set of devices that have it, as bits.
    - counts, per core: its loadables, while items without predecessors are still to come; otherwise 0.
    - ends, per core, while items that nothing reads are still to come: 2 if one of them is on the core; 1 if none is and a
      path with as many stretches as the core has loadables ended elsewhere; otherwise 0.
    - engine: 1 once the call of the model's engine is paid.
    """

    def __init__(self, frontier: Frontier, i: int) -> None:
        self.cores = len(frontier.cores)
        self.items, self.flows = len(frontier.live_items[i]), len(frontier.live_flows[i])
        self.paid_at = self.items * (1 + self.cores)
        self.counts_at = self.paid_at + self.flows
        self.ends_at = self.counts_at + self.cores
        self.engine_at = self.ends_at + self.cores
        self.size = self.engine_at + 1

    def device(self, item: int) -> int:
        return item * (1 + self.cores)

    def slack(self, item: int, core: int) -> int:
        """The column of an item's slack; `core` is a position among the cores."""
        return item * (1 + self.cores) + 1 + core

    def mirrored(self, rows: np.ndarray) -> np.ndarray:
        """The rows with the two cores swapped."""
        image = rows.copy()
        devices, sets = np.array((0, 2, 1), np.int16), np.array((0, 1, 4, 5, 2, 3, 6, 7), np.int16)
        for k in range(self.items):
            at = self.device(k)
            image[:, at] = devices[rows[:, at]]
            image[:, at + 1], image[:, at + 2] = rows[:, at + 2], rows[:, at + 1]
        image[:, self.paid_at : self.counts_at] = sets[rows[:, self.paid_at : self.counts_at]]
        for at in (self.counts_at, self.ends_at):
            image[:, at], image[:, at + 1] = rows[:, at + 1], rows[:, at]
        return image


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
        # Readers reached through unplaced items only: placed items carry their own slack.
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


def usable_slack(frontier: Frontier) -> List[np.ndarray]:
    """By position, (2, live items, cores): the slack that paths from an item can still use; first if it is off the core.

    A path uses one with each stretch that begins on it, and one where it ends off the core while another end may be on it.
    More than that adds a loadable no sooner: at each item on the way at least what it can use is left.
    """
    problem, n, cores = frontier.problem, len(frontier.allowed), frontier.cores
    readers: List[List[int]] = [[] for _ in range(n)]
    for i in range(n):
        for j in problem.predecessors(i):
            readers[j].append(i)
    ends = Counter(
        (problem.items[i].model, core) for i in range(n) if not readers[i] for core in cores if core in frontier.allowed[i]
    )
    by_position = [np.zeros((2, len(live), len(cores)), np.int16) for live in frontier.live_items]
    for a, core in enumerate(cores):
        # Slack that a path uses from an item on, if it comes from off the core and if it comes from on it.
        off, on = [0] * n, [0] * n
        for i in reversed(range(n)):
            may, allowed = core in frontier.allowed[i], frontier.allowed[i]
            other_end = int(ends[problem.items[i].model, core] > may)
            leaves = max((off[c] for c in readers[i]), default=other_end) if len(allowed) > may else 0
            stays = max((on[c] for c in readers[i]), default=0)
            off[i] = max(leaves, 1 + stays) if may else leaves
            on[i] = max(leaves, stays) if may else leaves
        for i, live in enumerate(frontier.live_items):
            for place, j in enumerate(live):
                rest = [c for c in readers[j] if c >= i]
                by_position[i][0, place, a] = max((off[c] for c in rest), default=0)
                by_position[i][1, place, a] = max((on[c] for c in rest), default=0)
    return by_position
