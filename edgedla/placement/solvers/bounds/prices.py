"""Bounds by prices: any weighted mean of the engines' loads is a lower bound of the period."""

from __future__ import annotations

from bisect import bisect_left
from copy import copy
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.bounds.device_sets import device_sets
from edgedla.placement.solvers.busiest.rows import Rows, weighted
from edgedla.placement.solvers.states.columns import Columns
from edgedla.placement.solvers.states.frontier import Frontier


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


class Prices:
    """The minimum that the remaining items add to the weighted load, given the state before them, for many weights at once.

    A relaxation that splits into trees. The cost of an item, with everything that depends on it, is divided among the
    tensors that it reads, and for each tensor the item may choose the device that is best for that tensor's share:

        own[v][d]   = weight[d] * time[v, d] + sum over tensors t that v writes of message[t][d]
        message[t][s, S] = min over sets T >= S of the weighted transitions from s to T - S
                           + sum over readers c of t of min over d in T of share[c, t] * own[c][d] + torn[c, d]

    `torn` is what a link adds or, along one path per model, a new loadable. Loadables are counted in one of two ways, and
    each weight is used with both: those along the path; or one on every core, which is valid because engine sets without
    that core are solved separately. In the second way, `unused` is added to `rest` while a core has no loadable yet.

    Attributes:
        weights: (ways * weights, devices).
        unused: (ways * weights, cores).
        own: by item (devices, weights): the minimum for it and everything that depends on it.
        trunk: the items of the path along which loadables are counted -> the item before each on it.
    """

    def __init__(self, frontier: Frontier, weights: np.ndarray, along: Optional[np.ndarray] = None) -> None:
        """Prices of these weights; `along` says per weight whether the loadables along the path are counted, by default all."""
        along = np.ones(len(weights), bool) if along is None else along
        self.frontier, self.weights, self.along = frontier, weights, along
        self.used = np.zeros(len(weights), int)
        problem = frontier.problem
        self._loadable_us = np.where(along, frontier.loadable_us, 0.0)
        self.unused = weights[:, 1:] * _least_rates(frontier) * np.where(along, 0.0, frontier.loadable_us)[:, None]
        self.trunk = trunk(frontier)
        size = len(frontier.devices)
        self._sets = device_sets(size)
        # (sources, devices, weights): the weight of the engine that a transition takes: the GPU's, or the reader's core.
        self._charged = np.array([[weights[:, d if a and d else 0] for d in range(size)] for a in range(size)])
        self._readers = [tuple(sorted(f.consumers)) for f in problem.flows]
        self._share = [self._shares(i) for i in range(len(problem.items))]
        self._message: List[np.ndarray] = [np.empty(0)] * len(problem.flows)
        self.own: List[np.ndarray] = [np.empty(0)] * len(problem.items)
        self._torn = self._links()
        for i in reversed(range(len(problem.items))):
            self.own[i] = self._subtree(i)
        for k, flow in enumerate(problem.flows):
            if flow.producer is None:
                self._message[k] = self._messages(k, (0,))
        self._constant, self._called = self._fixed()
        # By position, the next item of the same model on the trunk.
        self._ahead: List[Optional[int]] = [None] * (len(problem.items) + 1)
        for i in reversed(range(len(problem.items))):
            same = i + 1 < len(problem.items) and problem.items[i + 1].model == problem.items[i].model
            self._ahead[i] = i if i in self.trunk else self._ahead[i + 1] if same else None

    @classmethod
    def both_ways(cls, frontier: Frontier, weights: np.ndarray) -> Prices:
        """Every weight in both ways: with the loadables along the path, and with one on every core."""
        along = np.arange(2 * len(weights)) < len(weights)
        return cls(frontier, np.concatenate([weights, weights]), along)

    @property
    def root(self) -> np.ndarray:
        """Per weight, the bound of the whole problem."""
        bounds: np.ndarray = self._constant[0] + self.unused.sum(axis=1)
        return bounds

    def bounds(self, rows: Rows, rest: np.ndarray) -> np.ndarray:
        """Per partial placement the best bound over the weights, counted in `used`; `rest` is per state.

        A core without load has no loadable yet. If loadables cost nothing, `unused` is zero too.
        """
        loads, best = rows.loads, np.empty(len(rows.loads))
        for start in range(0, len(loads), 16384):
            part = slice(start, start + 16384)
            least = weighted(loads[part], rows.pool[part], self.weights) + rest[rows.state[part]]
            fresh = (loads[part, 1:] == 0.0).any(axis=1)
            if fresh.any():
                least[fresh] += (loads[part][fresh, 1:] == 0.0) @ self.unused.T
            which = least.argmax(axis=1)
            best[part] = least[np.arange(len(which)), which]
            self.used += np.bincount(which, minlength=len(self.used))
        return best

    def most_used(self, count: int) -> Prices:
        """The prices of the weights that have given the best bound most often so far, for wider searches."""
        if len(self.weights) <= count:
            return self
        return self.only(np.sort(np.argsort(-self.used, kind="stable")[:count]))

    def only(self, which: np.ndarray) -> Prices:
        """The prices of some of the weights, without computing them anew."""
        prices = copy(self)
        prices.weights, prices.along, prices.used = self.weights[which], self.along[which], np.zeros(len(which), int)
        prices.unused, prices._loadable_us = self.unused[which], self._loadable_us[which]
        prices._message = [m[..., which] for m in self._message]
        prices.own = [o[..., which] for o in self.own]
        prices._torn = {key: cost[..., which] for key, cost in self._torn.items()}
        prices._constant, prices._charged = self._constant[:, which], self._charged[..., which]
        return prices

    def _shares(self, i: int) -> Dict[int, float]:
        flows = self.frontier.into[i]
        share = {k: 1 / len(flows) for k in flows}
        before = self.trunk.get(i)
        if before is not None and len(flows) > 1:
            # The trunk gets a larger share: its device decides where its branches go.
            share = {k: 0.5 / len(flows) for k in flows}
            share[self._first_flow(before, i)] += 0.5
        return share

    def _first_flow(self, producer: int, consumer: int) -> int:
        flows = self.frontier.problem.flows
        return min(k for k in self.frontier.into[consumer] if flows[k].producer == producer)

    def _links(self) -> Dict[Tuple[int, int], np.ndarray]:
        """By (flow, reader), the weighted cost of running apart from the flow's producer, by device of the reader."""
        f = self.frontier
        torn: Dict[Tuple[int, int], np.ndarray] = {}
        for consumer, links in f.links.items():
            rate = f.problem.rates[f.problem.items[consumer].model]
            for link in links:
                if link.producer in f.problem.predecessors(consumer):
                    cost = np.array([link.cost(d).latency_us * rate for d in f.devices])
                    key = self._first_flow(link.producer, consumer), consumer
                    torn[key] = torn.get(key, 0.0) + self.weights.T * cost[:, None]
        for consumer, before in self.trunk.items():
            if before is not None:
                rate = f.problem.rates[f.problem.items[consumer].model]
                key = self._first_flow(before, consumer), consumer
                loadables = self.weights.T * self._loadable_us * rate
                loadables[0] = 0.0
                torn[key] = torn.get(key, 0.0) + loadables
        return torn

    def _subtree(self, i: int) -> np.ndarray:
        f, w = self.frontier, self.weights
        item, rate = f.problem.items[i], f.problem.rates[f.problem.items[i].model]
        subtree = np.full((len(f.devices), len(w)), np.inf)
        for k in f.out_of[i]:
            self._message[k] = self._messages(k, f.allowed[i])
        for d in f.allowed[i]:
            subtree[d] = w[:, d] * item.time_us(f.devices[d]) * rate
            for k in f.out_of[i]:
                flow, has = f.problem.flows[k], 1 << d
                if flow.is_output and d:
                    subtree[d] += w[:, 0] * flow.cost(f.devices[d], "GPU").latency_us * rate
                    has |= 1
                subtree[d] += self._message[k][0, d, has]
        return subtree

    def _messages(self, k: int, sources: Sequence[int]) -> np.ndarray:
        """By (first reader still to come, source, set of devices that have the tensor), for every weight."""
        readers, size = self._readers[k], len(self.frontier.devices)
        messages = np.full((len(readers) + 1, size, 1 << size, len(self.weights)), np.inf)
        sets, at = self._sets, (np.array(sources)[:, None], self._sets.sets[list(sources)])
        paid = self._paid(k)
        rest = paid.copy()
        messages[(len(readers), *at)] = 0.0
        for j in reversed(range(len(readers))):
            rest += sets.cheapest(self._terms(k, readers[j]))
            messages[(j, *at)] = (sets.best(rest) - paid)[list(sources)]
        return messages

    def _paid(self, k: int) -> np.ndarray:
        """(sources, sets, weights): the weighted cost of transferring a tensor from its source to all devices of a set."""
        paid: np.ndarray = np.matmul(self._sets.others, self.frontier.transfer_us[k][:, :, None] * self._charged)
        return paid

    def _fixed(self) -> Tuple[np.ndarray, List[bool]]:
        """Before each position: the cost that no state changes, and whether the current model must still call the GPU."""
        f = self.frontier
        problem, n = f.problem, len(f.problem.items)
        constant = np.zeros((n + 1, len(self.weights)))
        called = [False] * (n + 1)
        begins: Dict[int, List[int]] = {}
        for k, flow in enumerate(problem.flows):
            if flow.producer is None and flow.consumers:
                begins.setdefault(flow.model, []).append(k)
        needs = False
        for i in reversed(range(n)):
            item = problem.items[i]
            constant[i] = constant[i + 1]
            if not f.into[i]:
                constant[i] += self.own[i].min(axis=0)
            needs = needs or (bool(item.layers) and f.allowed[i] == (0,))
            called[i] = needs
            if i == 0 or problem.items[i - 1].model != item.model:
                for k in begins.get(item.model, ()):
                    constant[i] += self._message[k][0, 0, 1]
                if needs:
                    constant[i] += self.weights[:, 0] * f.engine_us * problem.rates[item.model]
                needs, called[i] = False, False
        return constant, called

    def message(self, k: int, readers: Sequence[int], source: int, has: int, on_core: FrozenSet[int] = frozenset()) -> np.ndarray:
        """Per weight, the minimum that these readers of a tensor add, given its source and the set of devices that have it.

        Args:
            on_core: readers that may not run on the GPU.
        """
        paid, sets = self._paid(k), self._sets
        rest = paid.copy()
        for reader in readers:
            terms = self._terms(k, reader)
            if reader in on_core:
                terms[:, 0] = np.inf
            rest += sets.cheapest(terms)
        at = int(np.flatnonzero(sets.sets[source] == has)[0])
        least: np.ndarray = rest[source, sets.beyond[source, at]].min(axis=0) - paid[source, at]
        return least

    def _terms(self, k: int, reader: int) -> np.ndarray:
        """(sources, devices, weights): what one reader of a tensor adds to a message, by the source and the reader's device."""
        own, size = self.own[reader] * self._share[reader][k], len(self.frontier.devices)
        terms = np.repeat(own[None], size, axis=0)
        torn = self._torn.get((k, reader))
        if torn is not None:
            terms += torn
            terms[range(size), range(size)] = own
        return terms

    def rest(self, i: int, states: np.ndarray) -> np.ndarray:
        """Per state before item i and per weight, the minimum that the items from i on add to the weighted loads."""
        f, columns = self.frontier, Columns(self.frontier, i)
        least: np.ndarray = np.repeat(self._constant[i][None, :], len(states), axis=0)
        item_at = {j: a for a, j in enumerate(f.live_items[i])}
        for a, k in enumerate(f.live_flows[i]):
            producer = f.problem.flows[k].producer
            messages = self._message[k][bisect_left(self._readers[k], i)]
            source = 0 if producer is None else states[:, columns.device(item_at[producer])]
            least += messages[source, states[:, columns.paid_at + a]]
        if i == 0 or i == len(f.problem.items):
            return least
        model = f.problem.items[i].model
        rate = f.problem.rates[model]
        ahead = self._ahead[i]
        if ahead is not None and f.problem.items[i - 1].model == model:
            before = self.trunk[ahead]
            for a, core in enumerate(f.cores):
                # Stretches that add no new loadable, because another path already has more.
                at = columns.counts_at + a if before is None else columns.slack(item_at[before], a)
                least -= states[:, at, None] * (self.weights[:, core] * self._loadable_us * rate)
        if self._called[i]:
            unpaid = states[:, columns.engine_at] == 0
            least += unpaid[:, None] * (self.weights[:, 0] * f.engine_us * rate)
        return least


def _least_rates(frontier: Frontier) -> np.ndarray:
    """Per core, the lowest rate of a model that may run on it; 0 if none may."""
    items = frontier.problem.items
    rates = [{frontier.problem.rates[i.model] for i, a in zip(items, frontier.allowed) if c in a} for c in frontier.cores]
    return np.array([min(r, default=0.0) for r in rates])
