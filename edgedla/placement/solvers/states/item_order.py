"""The order in which the searches place the items: few tensors alive at a time, because each multiplies the states."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.problem import Problem

#: Partial orders kept from each item to the next.
ORDERS = 30


class _Partial(NamedTuple):
    """The items taken so far.

    Attributes:
        states: estimated states, summed over all positions; width: logarithm of those at the last position.
        items: (the items before, the last item), nested; () for none.
        rank: position among the partial orders of this length, compared by their items.
        ready: items that may follow.
    """

    states: float
    width: float
    items: Tuple[Any, ...]
    rank: int
    ready: FrozenSet[int]


class _Orders:
    """The topological orders of one model's items. A set of items is an integer with one bit per item.

    The last item with layers stays last among those with layers: its core pays for the call of the engine.
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
        return _Partial(0.0, 0.0, (), 0, frozenset(i for i in self.items if not self.needed[i]))

    def width(self, partial: _Partial, done: int, i: int) -> float:
        """Logarithm of the number of states if item i comes next; `done` includes its bit."""
        width = partial.width + (self.choices[i] if self.after[i] else 0.0)
        return width - sum(self.choices[b] for b in self.before[i] if self.readers[b] & done == self.readers[b])

    def taken(self, partial: _Partial, done: int, i: int, rank: int = 0) -> _Partial:
        """The partial order with item i next; `done` includes its bit."""
        width = self.width(partial, done, i)
        now = {k for k in (*self.after[i], *self.last) if not self.bit[k] & done and self.needed[k] & done == self.needed[k]}
        return _Partial(partial.states + math.exp(width), width, (partial.items, i), rank, partial.ready - {i} | now)

    def following(self, partial: _Partial, done: int) -> Iterator[Tuple[int, float]]:
        """(next item, states with it). An item that adds no states is the only choice: no other order is better; else all."""
        ways = []
        for k in sorted(partial.ready):
            width = self.width(partial, done | self.bit[k], k)
            if width <= partial.width + 1e-9:
                return iter([(k, partial.states + math.exp(width))])
            ways.append((k, partial.states + math.exp(width)))
        return iter(ways)


def narrow_order(problem: Problem, deadline: Deadline = NEVER) -> Tuple[int, ...]:
    """Indices of the items in an order with few states: topological and model by model, like the problem's own order.

    Args:
        deadline: models without an order by then keep their own.
    """
    order: List[int] = []
    for model in range(len(problem.models)):
        items = problem.items_of(model)
        order += items if deadline.passed else _narrow(_Orders(problem, items), deadline)
    return tuple(order)


def reordered(problem: Problem, order: Sequence[int]) -> Problem:
    """The problem with its items in this order. Do not evaluate it: its `grouping` still refers to the old order."""
    at = {item: position for position, item in enumerate(order)}
    flows = tuple(
        replace(f, producer=None if f.producer is None else at[f.producer], consumers=tuple(sorted(at[c] for c in f.consumers)))
        for f in problem.flows
    )
    links = tuple(replace(k, producer=at[k.producer], consumer=at[k.consumer]) for k in problem.links)
    return replace(problem, items=tuple(problem.items[i] for i in order), flows=flows, links=links)


def part_of(problem: Problem, models: Sequence[int]) -> Tuple[Problem, Tuple[int, ...]]:
    """(the problem of these models, ascending, one frame of each; the index of each of its items in the whole problem).

    A schedule of all models, restricted to these, is a schedule of this problem: it uses no more engines.
    """
    members = tuple(i for m in models for i in problem.items_of(m))
    at = {i: k for k, i in enumerate(members)}
    model_at = {m: k for k, m in enumerate(models)}

    def group(part: Problem, core: str, own: Tuple[int, ...]) -> Tuple[Tuple[int, ...], ...]:
        formed = problem.grouping(problem, core, tuple(members[k] for k in own))
        return tuple(tuple(at[i] for i in g) for g in formed)

    part = replace(
        problem,
        items=tuple(replace(problem.items[i], model=model_at[problem.items[i].model]) for i in members),
        flows=tuple(
            replace(
                f,
                model=model_at[f.model],
                producer=None if f.producer is None else at[f.producer],
                consumers=tuple(at[c] for c in f.consumers),
            )
            for f in problem.flows
            if f.model in model_at
        ),
        links=tuple(replace(k, producer=at[k.producer], consumer=at[k.consumer]) for k in problem.links if k.consumer in at),
        grouping=group,
        models=tuple(problem.models[m] for m in models),
        rates=(1.0,) * len(models),
        slowdown=_least_slowdown(problem),
        defaults=None,
    )
    return part, members


def problem_of_model(problem: Problem, model: int) -> Problem:
    """The items, flows and links of one model, counted from its first item."""
    return part_of(problem, (model,))[0]


def _least_slowdown(problem: Problem) -> Mapping[FrozenSet[str], Mapping[str, float]]:
    """Per set of engines, the minimum factors over its supersets: the other models may use more engines."""
    devices = problem.devices
    sets = [frozenset(s) for n in range(2, len(devices) + 1) for s in itertools.combinations(devices, n)]
    least: Dict[FrozenSet[str], Dict[str, float]] = {}
    for engines in sets:
        holding = [s for s in sets if s >= engines]
        least[engines] = {d: min(problem.factor(s, d) for s in holding) for d in devices}
    return least


def _narrow(orders: _Orders, deadline: Deadline) -> Sequence[int]:
    own, done = orders.start(), 0
    partials = {0: own}
    for i in orders.items:
        if deadline.passed:
            return orders.items
        done |= orders.bit[i]
        own = orders.taken(own, done, i)
        met: Dict[int, Tuple[float, int, int, int]] = {}
        for mask, partial in partials.items():
            for k, states in orders.following(partial, mask):
                known = met.get(mask | orders.bit[k])
                if known is None or states < known[0]:
                    met[mask | orders.bit[k]] = states, partial.rank, k, mask
        # Ties in states go to the order whose items come first: by the rank before, then by the item.
        kept = sorted(met.items(), key=lambda entry: entry[1][:3])[:ORDERS]
        rank = {mask: r for r, (mask, _) in enumerate(sorted(kept, key=lambda entry: entry[1][1:3]))}
        partials = {mask: orders.taken(partials[b], mask, k, rank[mask]) for mask, (_, _, k, b) in kept}
    best = min(partials.values(), key=lambda p: p.states)
    if best.states >= own.states:
        return orders.items
    items, rest = [], best.items
    while rest:
        rest, i = rest
        items.append(i)
    return items[::-1]
