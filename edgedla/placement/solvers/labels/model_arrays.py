"""One model on the GPU and one core as arrays: what its items and tensors take, and which of them read or precede which."""

from __future__ import annotations

from typing import Iterable, List, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.solvers.labels.bits import Slots, bits_of
from edgedla.placement.solvers.labels.moments import NO_ITEM
from edgedla.placement.solvers.streams.frontier import Frontier
from edgedla.vocabulary import GPU


class ModelArrays:
    """Times in us, with slowdown. Sets of items may have one more member, which stands for the end of the model.

    Args:
        factors: slowdown of the GPU and of the core.
        ranks: per item, its position in the model's own order.

    Attributes:
        gpu_us, core_us: per item, its own time on either device.
        to_core_us, to_gpu_us: per tensor, the reformat.
        loadable_us: of each loadable.
        engine_us: the call of the model's engine, on the GPU and on the core.
        producer: per tensor, NO_ITEM for a network input.
        readers: per tensor, the items that read it.
        has_layers, needs_gpu, needs_core: per item.
        layered, only_gpu: items with layers; items for the GPU only.
        all: all items.
        end: the member that stands for the end.
        bit, below, above: per item, the set of itself, of the items before it, and of those behind it.
        ranked_below: per item, the items before it in the model's own order.
        before, followers: per item, the items it waits for, and those that wait for it.
        owes, tensors_read: per item, which of its outputs are network outputs, and which are read.
        inputs: per item, the tensors it reads.
        sources, read_by: per item, the items it reads from or is linked to, and the items that read from or are linked to it.
        links, link_us: per item, the producers it is linked to, and what that takes on the GPU and on the core.
    """

    def __init__(self, frontier: Frontier, factors: Tuple[float, float], ranks: Sequence[int]) -> None:
        self.frontier, self.items = frontier, len(frontier.allowed)
        self._add_times(*factors)
        allowed, every = frontier.allowed, range(self.items)
        self.has_layers = np.array([bool(item.layers) for item in frontier.problem.items])
        self.needs_gpu, self.needs_core = (np.array([d not in a for a in allowed]) for d in (1, 0))
        self.layered, self.only_gpu, self.all = (
            self._sets([np.flatnonzero(which)])[0] for which in (self.has_layers, self.needs_gpu, np.ones(self.items))
        )
        self.end = self._sets([[self.items]])[0]
        self.bit, self.below = self._sets([[i] for i in every]), self._sets([range(i) for i in every])
        self.above = self.all & ~self.below & ~self.bit
        self.ranked_below = self._sets([[j for j in every if ranks[j] < ranks[i]] for i in every])
        self._add_tensors()
        self._add_links(*factors)
        self._add_order()

    def _sets(self, sets: Sequence[Iterable[int]]) -> np.ndarray:
        return bits_of(sets, self.items + 1)

    def _add_times(self, on_gpu: float, on_core: float) -> None:
        frontier, core, flows = self.frontier, self.frontier.devices[1], self.frontier.problem.flows
        items = list(zip(frontier.problem.items, frontier.allowed))
        self.gpu_us = np.array([item.time_us(GPU) * on_gpu if 0 in allowed else 0.0 for item, allowed in items])
        self.core_us = np.array([item.time_us(core) * on_core if 1 in allowed else 0.0 for item, allowed in items])
        self.to_core_us = np.array([f.cost(GPU, core).latency_us * on_gpu for f in flows])
        self.to_gpu_us = np.array([f.cost(core, GPU).latency_us * on_gpu for f in flows])
        self.loadable_us = frontier.loadable_us * on_core
        self.engine_us = frontier.engine_us * on_gpu, frontier.engine_us * on_core

    def _add_tensors(self) -> None:
        frontier, flows = self.frontier, self.frontier.problem.flows
        self.producer = np.array([NO_ITEM if f.producer is None else f.producer for f in flows], int)
        self.readers = self._sets([f.consumers for f in flows])
        self.owes = bits_of([[k for k in of_item if flows[k].is_output] for of_item in frontier.out_of], len(flows))
        self.tensors_read = bits_of(
            [[k for k in of_item if flows[k].consumers] for of_item in frontier.out_of], len(flows)
        )
        self.inputs = Slots(frontier.into)

    def _add_links(self, on_gpu: float, on_core: float) -> None:
        core = self.frontier.devices[1]
        links = [self.frontier.links.get(i, ()) for i in range(self.items)]
        self.links = Slots([[link.producer for link in of_item] for of_item in links])
        self.link_us = np.zeros((2, *self.links.values.shape))
        for i, of_item in enumerate(links):
            for slot, link in enumerate(of_item):
                self.link_us[:, i, slot] = link.cost(GPU).latency_us * on_gpu, link.cost(core).latency_us * on_core

    def _add_order(self) -> None:
        before = [set(self.frontier.problem.predecessors(i)) for i in range(self.items)]
        self.before, self.followers = self._sets(before), Slots(_turned_round(before))
        sources = []
        for i, waits_for in enumerate(before):
            producers = {int(self.producer[k]) for k in self.frontier.into[i]}
            sources.append((waits_for | producers | set(self.links.values[i].tolist())) - {NO_ITEM})
        self.sources, self.read_by = Slots(sources), self._sets(_turned_round(sources))


def _turned_round(sets: Sequence[Set[int]]) -> List[List[int]]:
    """Per number, the sets that it is a member of."""
    of_numbers: List[List[int]] = [[] for _ in sets]
    for row, numbers in enumerate(sets):
        for k in numbers:
            of_numbers[k].append(row)
    return of_numbers
