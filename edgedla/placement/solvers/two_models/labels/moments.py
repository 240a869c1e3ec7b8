"""One model's moments, as arrays: the states of its execution, and what each still has to do at least."""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.two_models.labels.bit_sets import Slots, bits_of, keys_of
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
        self.tensors_read = bits_of([[k for k in of_item if flows[k].consumers] for of_item in frontier.out_of], len(flows))
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


class Stands:
    """What a model is in: a GPU segment; a loadable; a GPU segment that has taken no time so far."""

    ON_GPU, ON_CORE, BETWEEN = 0, 1, 2


class Call:
    """The call of the model's engine: unpaid without a loadable; paid by the first layer on the GPU; unpaid with one loadable; with more.

    A model without a layer on the GPU pays with its only loadable; with several loadables the call is left out.
    """

    UNPAID, PAID, ONE_LOADABLE, LOADABLES = 0, 1, 2, 3


#: The item of the final step, and the producer of a network input.
NO_ITEM = -1


class Moments(NamedTuple):
    """All that the past means for what may run next and its cost, one moment per row. Sets of items and tensors are bits.

    Attributes:
        done: items that have run; beyond the last item, whether the model has ended.
        on_core: those of them on the core whose outputs are still to be read.
        declined: items that could have run in the GPU segment and did not: they go to the core.
        copied: tensors still to be read that were copied to the device that did not produce them.
        owed: network outputs that so far exist only on the core.
        state: of `Call`; of `Stands`; in a loadable, the item that joined it last: items join in ascending order.
        ready: items whose inputs are available.
        live: available tensors still to be read.
    """

    done: np.ndarray
    on_core: np.ndarray
    declined: np.ndarray
    copied: np.ndarray
    owed: np.ndarray
    state: np.ndarray
    ready: np.ndarray
    live: np.ndarray

    @property
    def engine(self) -> np.ndarray:
        return self.state[:, 0]

    @property
    def stands(self) -> np.ndarray:
        return self.state[:, 1]

    @property
    def last(self) -> np.ndarray:
        return self.state[:, 2]

    def taken(self, which: np.ndarray) -> Moments:
        return Moments(*(column[which] for column in self))

    def keys(self) -> List[bytes]:
        """Per moment, what tells it from others; `ready` and `live` follow from `done`."""
        columns = [c.view(np.uint64) for c in self[:-2]]
        return keys_of(np.concatenate(columns, axis=1))


class Ways(NamedTuple):
    """Ways to continue: one item each that runs next.

    Attributes:
        parent: index of the moment before; ascending, and of one moment those that acquire the GPU come first.
        moments: the moments after it.
        item, device: what runs; NO_ITEM in the final step.
        gpu_us, core_us: the time it takes, with slowdown: first of the GPU, then of the core. In a loadable that has already
            begun, the GPU's part lies before the loadable.
        acquires: it must wait for the GPU; otherwise the model already has it, or does not need it.
    """

    parent: np.ndarray
    moments: Moments
    item: np.ndarray
    device: np.ndarray
    gpu_us: np.ndarray
    core_us: np.ndarray
    acquires: np.ndarray


def joined_ways(parts: Sequence[Ways]) -> Ways:
    """All of them, in the order of `Ways`."""
    parent, moments, *columns = zip(*parts)
    joined = Ways(np.concatenate(parent), Moments(*map(np.concatenate, zip(*moments))), *(np.concatenate(c) for c in columns))
    order = np.lexsort((~joined.acquires, joined.parent))
    moments = joined.moments.taken(order)
    return Ways(joined.parent[order], moments, *(column[order] for column in joined[2:]))
