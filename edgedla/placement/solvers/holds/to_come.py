"""What items and tensors that are read later make of the live ones: which of these lie before each reader to come."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier

#: Live items, as positions among these, that lie before a reader to come.
Before = Tuple[int, ...]


class ToCome:
    """By position before an item, and behind the last.

    Attributes:
        of_items: by position and live item, for each of its readers to come the live items before that.
        of_flows: by position and live flow, the same for its readers; none where nothing has read it so far.
    """

    def __init__(self, frontier: Frontier) -> None:
        count = len(frontier.allowed)
        before = [tuple(frontier.problem.predecessors(i)) for i in range(count)]
        readers: List[List[int]] = [[] for _ in range(count)]
        for reader, read in enumerate(before):
            for i in read:
                readers[i].append(reader)
        self.of_items: List[List[List[Before]]] = []
        self.of_flows: List[List[List[Before]]] = []
        for i in range(count + 1):
            live = frontier.live_items[i]
            of_items = [[r for r in readers[item] if r >= i] for item in live]
            of_flows = [[r for r in frontier.problem.flows[k].consumers if r >= i] for k in frontier.live_flows[i]]
            last = max((r for group in (*of_items, *of_flows) for r in group), default=i - 1)
            lie_before = _before(i, last, live, before)
            self.of_items.append([[lie_before[r] for r in group] for group in of_items])
            is_read = [
                frontier.problem.flows[k].is_output or min(frontier.problem.flows[k].consumers) < i
                for k in frontier.live_flows[i]
            ]
            self.of_flows.append([[lie_before[r] for r in group] * read for group, read in zip(of_flows, is_read)])


def _before(i: int, last: int, live: Sequence[int], before: Sequence[Tuple[int, ...]]) -> Dict[int, Before]:
    """By item from i to the last one, the live items before it, as positions."""
    at = {item: a for a, item in enumerate(live)}
    bits: Dict[int, int] = {}
    for reader in range(i, last + 1):
        bits[reader] = 0
        for item in before[reader]:
            bits[reader] |= 1 << at[item] if item < i else bits[item]
    return {reader: tuple(a for a in range(len(live)) if of >> a & 1) for reader, of in bits.items()}
