"""Items placed one after the other: the part of past decisions that still affects the cost of later items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import numpy as np

from edgedla.placement.problem.problem import Link, Problem
from edgedla.vocabulary import GPU


@dataclass(frozen=True)
class _Input:
    paid_at: Optional[int]
    producer_at: Optional[int]
    cost: Tuple[Tuple[float, ...], ...]


@dataclass(frozen=True)
class _Output:
    is_output: bool
    to_gpu: Tuple[float, ...]


@dataclass(frozen=True)
class _Step:
    """What placing one item needs, with positions in the state instead of indices."""

    times: Tuple[float, ...]
    predecessors: Tuple[int, ...]
    inputs: Tuple[_Input, ...]
    links: Tuple[Tuple[int, Tuple[float, ...]], ...]
    outputs: Tuple[_Output, ...]
    items_at: Tuple[int, ...]
    is_kept: bool
    masks_at: Tuple[int, ...]
    has_layers: bool
    is_last: bool
    rate: float
    is_end: bool
    more_ends: bool
    more_sources: bool
    ends_model: bool


class Frontier:
    """A problem on a set of engines, item by item in the problem's order.

    The loads of the steps add up to those of `evaluate`, except for the number of loadables. Here that is the largest
    number of separate stretches on the core along any path; plus one for such a path that ends elsewhere, if an item
    that nothing reads is on the core. TensorRT walks back from the ends of the network, taking GPU layers and DLA
    layers in turn: it forms exactly this number if all layers have one batch size, and never fewer.

    Attributes:
        devices: the GPU first, because reformats can always run there; then the cores of the set. Devices, masks and
            loads are indexed by position in this tuple.
        allowed: allowed devices per item.
        live_items, live_flows: for each position (before an item, and after the last), the items and flows that
            a state describes.
        transfer_us: by flow, what its transition from one device to another takes per period; (devices, devices).
    """

    def __init__(self, problem: Problem, engines: Tuple[str, ...]) -> None:
        self.problem = problem
        self.devices = tuple(dict.fromkeys((GPU, *engines)))
        self.cores = tuple(range(1, len(self.devices)))
        self.loadable_us = problem.loadable.latency_us
        self.engine_us = problem.engine.latency_us
        n = len(problem.items)
        at = {d: k for k, d in enumerate(self.devices)}
        self.allowed = tuple(tuple(at[d] for d in i.allowed if d in at and (d in engines or not i.layers)) for i in problem.items)
        last = [-1] * n
        for flow in problem.flows:
            if flow.producer is not None:
                last[flow.producer] = max((last[flow.producer], *flow.consumers))
        for link in problem.links:
            last[link.producer] = max(last[link.producer], link.consumer)
        first_of: Dict[int, int] = {}
        for k, item in enumerate(problem.items):
            first_of.setdefault(item.model, k)
        self.into: List[List[int]] = [[] for _ in range(n)]
        self.out_of: List[List[int]] = [[] for _ in range(n)]
        self.links: Dict[int, List[Link]] = {}
        for link in problem.links:
            self.links.setdefault(link.consumer, []).append(link)
        self._is_end = [last[k] < 0 for k in range(n)]
        self._last_end = {i.model: k for k, i in enumerate(problem.items) if self._is_end[k]}
        self._last_source = {i.model: k for k, i in enumerate(problem.items) if not problem.predecessors(k)}
        self._last_layers = {i.model: k for k, i in enumerate(problem.items) if i.layers}
        self._last_of = {i.model: k for k, i in enumerate(problem.items)}
        begins, ends = [], []
        for k, flow in enumerate(problem.flows):
            for c in flow.consumers:
                self.into[c].append(k)
            if flow.producer is not None:
                self.out_of[flow.producer].append(k)
            begins.append(first_of.get(flow.model, n) if flow.producer is None else flow.producer)
            ends.append(max(flow.consumers, default=-1))
        # A network input exists from its model's first item on.
        self.live_items: List[Tuple[int, ...]] = [()]
        self.live_flows: List[Tuple[int, ...]] = [()]
        starting: List[List[int]] = [[] for _ in range(n)]
        for k, b in enumerate(begins):
            if b < n:
                starting[b].append(k)
        for i in range(n):
            self.live_items.append(tuple(j for j in (*self.live_items[i], i) if last[j] > i))
            self.live_flows.append(tuple(k for k in (*self.live_flows[i], *starting[i]) if ends[k] > i))
        self._transfers = [
            tuple(tuple(flow.cost(a, b).latency_us for b in self.devices) for a in self.devices) for flow in problem.flows
        ]
        rates = [problem.rates[flow.model] for flow in problem.flows]
        self.transfer_us = [np.array(cost) * rate for cost, rate in zip(self._transfers, rates)]
        self.steps = tuple(self._step(i) for i in range(n))

    def _step(self, i: int) -> _Step:
        problem, devices = self.problem, self.devices
        item = problem.items[i]
        item_at = {j: a for a, j in enumerate(self.live_items[i])}
        flow_at = {k: a for a, k in enumerate(self.live_flows[i])}
        # `masks` of `StateArrays`: first the live flows, then the flows this item touches, and last that of a new network input.
        touched = [*self.into[i], *self.out_of[i]]
        mask_at = {k: len(flow_at) + len(touched) for k in self.live_flows[i + 1]}
        mask_at.update(flow_at)
        mask_at.update({k: len(flow_at) + a for a, k in enumerate(touched)})
        inputs = []
        for k in self.into[i]:
            flow = problem.flows[k]
            inputs.append(_Input(flow_at.get(k), None if flow.producer is None else item_at[flow.producer], self._transfers[k]))
        return _Step(
            times=tuple(item.time_us(d) if k in self.allowed[i] else 0.0 for k, d in enumerate(devices)),
            predecessors=tuple(item_at[j] for j in problem.predecessors(i)),
            inputs=tuple(inputs),
            links=tuple(
                (item_at[link.producer], tuple(link.cost(d).latency_us for d in devices)) for link in self.links.get(i, ())
            ),
            outputs=tuple(
                _Output(problem.flows[k].is_output, tuple(problem.flows[k].cost(d, GPU).latency_us for d in devices))
                for k in self.out_of[i]
            ),
            items_at=tuple(item_at[j] for j in self.live_items[i + 1] if j != i),
            is_kept=i in self.live_items[i + 1],
            masks_at=tuple(mask_at[k] for k in self.live_flows[i + 1]),
            has_layers=bool(item.layers),
            is_last=self._last_layers.get(item.model) == i,
            rate=problem.rates[item.model],
            is_end=self._is_end[i],
            more_ends=self._last_end[item.model] > i,
            more_sources=self._last_source.get(item.model, -1) > i,
            ends_model=self._last_of[item.model] == i,
        )
