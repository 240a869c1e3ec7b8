"""The order in which the searches take the items: one with few tensors alive at a time, for states multiply with each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Dict, FrozenSet, List, NamedTuple, Sequence, Tuple

from edgedla.placement.problem.problem import Problem

#: Partial orders that go on from each item to the next.
ORDERS = 30

#: Share of the states of the problem's own order from which on another is not worth the change.
FEWER = 0.9


class _Partial(NamedTuple):
    """Items taken so far: states of all positions, logarithm of those at the last, the items, and those that may follow."""

    states: float
    width: float
    items: Tuple[int, ...]
    ready: FrozenSet[int]


class _Orders:
    """The topological orders of one model's items. A set of items is a number with their bits.

    The last item with layers stays the last of them: its core pays for the call of the engine.
    """

    def __init__(self, problem: Problem, items: Sequence[int]) -> None:
        self.items = items
        self.after: Dict[int, List[int]] = {i: [] for i in items}
        self.before: Dict[int, List[int]] = {i: [] for i in items}
        edges = {(f.producer, c) for f in problem.flows if f.producer is not None for c in f.consumers}
        for a, b in sorted(edges | {(k.producer, k.consumer) for k in problem.links}):
            if a in self.after:
                self.after[a].append(b)
                self.before[b].append(a)
        self.bit = {i: 1 << k for k, i in enumerate(items)}
        self.needed = {i: sum(self.bit[b] for b in self.before[i]) for i in items}
        self.readers = {i: sum(self.bit[a] for a in self.after[i]) for i in items}
        self.choices = {i: math.log(max(len(problem.items[i].allowed), 1)) for i in items}
        with_layers = [i for i in items if problem.items[i].layers]
        self.last = with_layers[-1:]
        for i in self.last:
            self.needed[i] |= sum(self.bit[k] for k in with_layers[:-1])

    def start(self) -> _Partial:
        return _Partial(0.0, 0.0, (), frozenset(i for i in self.items if not self.needed[i]))

    def taken(self, partial: _Partial, done: int, i: int) -> _Partial:
        """Item i comes next; `done` has its bit."""
        width = partial.width + (self.choices[i] if self.after[i] else 0.0)
        width -= sum(self.choices[b] for b in self.before[i] if self.readers[b] & done == self.readers[b])
        now = {
            k
            for k in (*self.after[i], *self.last)
            if not self.bit[k] & done and self.needed[k] & done == self.needed[k]
        }
        return _Partial(partial.states + math.exp(width), width, (*partial.items, i), partial.ready - {i} | now)

    def following(self, partial: _Partial, done: int) -> List[Tuple[int, _Partial]]:
        """(next item, with it): one that leaves no more states is taken at once, for that is as good later on; else all."""
        ways = []
        for k in sorted(partial.ready):
            new = self.taken(partial, done | self.bit[k], k)
            if new.width <= partial.width + 1e-9:
                return [(k, new)]
            ways.append((k, new))
        return ways


def narrow_order(problem: Problem) -> Tuple[int, ...]:
    """Indices of the items in an order with few states; topological, and model by model, as the problem's own."""
    order: List[int] = []
    for model in range(len(problem.models)):
        order += _narrow(_Orders(problem, problem.items_of(model)))
    return tuple(order)


def reordered(problem: Problem, order: Sequence[int]) -> Problem:
    """The problem with its items in this order. Its `grouping` still knows the old one: not to be evaluated."""
    at = {item: position for position, item in enumerate(order)}
    flows = tuple(
        replace(
            f,
            producer=None if f.producer is None else at[f.producer],
            consumers=tuple(sorted(at[c] for c in f.consumers)),
        )
        for f in problem.flows
    )
    links = tuple(replace(k, producer=at[k.producer], consumer=at[k.consumer]) for k in problem.links)
    return replace(problem, items=tuple(problem.items[i] for i in order), flows=flows, links=links)


def _narrow(orders: _Orders) -> Tuple[int, ...]:
    own, done = orders.start(), 0
    partials = {0: own}
    for i in orders.items:
        done |= orders.bit[i]
        own = orders.taken(own, done, i)
        met: Dict[int, _Partial] = {}
        for mask, partial in partials.items():
            for k, new in orders.following(partial, mask):
                known = met.get(mask | orders.bit[k])
                if known is None or new.states < known.states:
                    met[mask | orders.bit[k]] = new
        partials = dict(sorted(met.items(), key=lambda entry: (entry[1].states, entry[1].items))[:ORDERS])
    best = min(partials.values(), key=lambda p: p.states)
    return best.items if best.states < own.states * FEWER else own.items
