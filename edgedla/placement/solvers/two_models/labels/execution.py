"""One model in execution order: what may run next, for many moments at once."""

from __future__ import annotations

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.two_models.labels.bit_sets import add, bits_of, has, meet, members, remove
from edgedla.placement.solvers.two_models.labels.moments import NO_ITEM, Call, ModelArrays, Moments, Stands, Ways, joined_ways


class Gpu:
    """Whether a model holds the GPU: no; no, but its loadable may still take GPU work before it; yes."""

    HOLDS_NOT, MAY_HOLD, HOLDS = 0, 1, 2


class _Items(NamedTuple):
    """For each item that may run next after a moment: what it leaves behind on either device.

    Attributes:
        parent, item: index of the moment, and the item.
        done, ready, live: after it.
        on_core: before it, without items whose outputs are no longer to be read.
        is_read: whether its own outputs are still to be read.
        gpu_copied, core_copied, gpu_owed: after it, on the GPU and on the core.
        gpu_us: on the GPU, with reformats.
        before_us, core_us: on the core: the reformats before it, and its own time.
    """

    parent: np.ndarray
    item: np.ndarray
    done: np.ndarray
    ready: np.ndarray
    live: np.ndarray
    on_core: np.ndarray
    is_read: np.ndarray
    gpu_copied: np.ndarray
    core_copied: np.ndarray
    gpu_owed: np.ndarray
    gpu_us: np.ndarray
    before_us: np.ndarray
    core_us: np.ndarray


class Execution:
    """The placements of a model on the GPU and one core, item by item in the execution order of `schedule.segments`.

    A GPU segment runs everything it can. Two choices are left open: which of several possible loadables TensorRT puts an
    item in, and whether a reformat lies before a loadable that has begun or separates two. Loadables without GPU work
    between them count as one. So every placement is covered, or runs no earlier than one that is.

    Args:
        factors: slowdown of the GPU and of the core.
        ranks: per item, its position in the model's own order.

    Attributes:
        arrays: the model's.
        start: the moment before the first item.
    """

    def __init__(self, frontier: Frontier, factors: Tuple[float, float], ranks: Sequence[int]) -> None:
        x = self.arrays = ModelArrays(frontier, factors, ranks)
        flows = frontier.problem.flows
        nothing, no_tensors = np.zeros((1, len(x.all)), np.uint64), np.zeros((1, x.owes.shape[1]), np.uint64)
        state = np.array([[Call.UNPAID, Stands.BETWEEN, NO_ITEM]])
        ready = bits_of([np.flatnonzero(~x.before.any(axis=1))], x.items + 1)
        live = bits_of([[k for k, f in enumerate(flows) if f.consumers and f.producer is None]], len(flows))
        self.start = Moments(nothing, nothing, nothing, no_tensors, no_tensors, state, ready, live)

    def has_ended(self, moments: Moments) -> np.ndarray:
        """Per moment, whether the model has ended."""
        return meet(moments.done, np.broadcast_to(self.arrays.end, moments.done.shape))

    def holds(self, moments: Moments) -> np.ndarray:
        """Per moment, whether the model holds the GPU: Gpu.HOLDS_NOT, Gpu.MAY_HOLD or Gpu.HOLDS."""
        x = self.arrays
        holds = np.where(moments.stands == Stands.ON_GPU, Gpu.HOLDS, Gpu.HOLDS_NOT)
        row, k = members(np.where((moments.stands == Stands.ON_CORE)[:, None], moments.live, np.uint64(0)))
        which = (x.to_core_us[k] > 0) & ~has(moments.copied, row, k) & ~self.is_on_core(moments, row, k)
        row, k = row[which], k[which]
        joins = x.readers[k] & ~moments.done[row] & ~x.only_gpu
        # Items join in ascending order.
        joins &= np.where((moments.last[row] == NO_ITEM)[:, None], joins, x.above[moments.last[row]])
        holds[row[joins.any(axis=1)]] = Gpu.MAY_HOLD
        return holds

    def ways(self, moments: Moments) -> Ways:
        """All ways to continue; after the last item, the one way to the end."""
        x = self.arrays
        parent, item = members(moments.ready)
        ready, declined = moments.ready[parent], moments.declined[parent]
        only_gpu = ready & x.only_gpu
        # Each choice declines the ready items before it; what runs on the GPU only cannot be declined.
        gpu = ~has(moments.declined, parent, item) & ~x.needs_core[item]
        gpu &= ~meet(only_gpu & ~declined, x.below[item])
        first = ~moments.done[parent].any(axis=1)
        on_core = moments.stands[parent] == Stands.ON_CORE
        core = ~x.needs_gpu[item] & (first | on_core | ~only_gpu.any(axis=1))
        # A model may begin on the core if no earlier ready item, in its own order, is for the GPU only.
        core &= ~first | ~meet(only_gpu, x.ranked_below[item])
        some = gpu | core
        after = self._after(moments, parent[some], item[some])
        gpu, core, first, on_core = gpu[some], core[some], first[some], on_core[some]
        parts = [self._on_gpu(moments, after, np.flatnonzero(gpu))]
        last = np.flatnonzero((moments.done == x.all).all(axis=1))
        if len(last):
            parts.append(self._to_end(moments, last))
        # The device of the first item in the model's own order runs first.
        declined = np.where(first[:, None], ready[some] & x.ranked_below[item[some]], ready[some])
        # Items that could have run on the GPU and did not go to the core.
        declined = np.where(on_core[:, None], moments.declined[after.parent], declined)
        acquires = (after.before_us > 0) & (moments.stands[after.parent] != Stands.ON_GPU)
        joins = core & on_core & (after.item > moments.last[after.parent])
        opens = core & (acquires | ~on_core)
        late = core & ~acquires & meet(self._late(moments)[after.parent], x.above[after.item])
        for which, is_new, waits in ((joins, False, False), (opens, True, False), (late, True, True)):
            of = np.flatnonzero(which)
            if len(of):
                parts.append(self._on_core(moments, after, of, declined, is_new, waits))
        return joined_ways(parts)

    def _late(self, moments: Moments) -> np.ndarray:
        """Items that need a reformat and cannot run yet: the reformat lies before their loadable, whatever that begins with.

        None if the model has the GPU: then the reformats of its next loadable follow immediately.
        """
        x = self.arrays
        late = np.zeros_like(moments.done)
        row, k = members(moments.live)
        which = (moments.stands[row] != Stands.ON_GPU) & (x.to_core_us[k] > 0) & ~has(moments.copied, row, k)
        which &= ~self.is_on_core(moments, row, k)
        row, k = row[which], k[which]
        if len(row):
            at: np.ndarray = np.flatnonzero(np.diff(row, prepend=-1))
            late[row[at]] = np.bitwise_or.reduceat(x.readers[k], at, axis=0)
        late &= ~x.only_gpu & ~moments.ready & ~moments.done
        return late

    def is_on_core(self, moments: Moments, row: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Whether the core produced tensor k."""
        x = self.arrays
        producer = x.producer[k]
        return (producer >= 0) & has(moments.on_core, row, np.maximum(producer, 0))

    def _after(self, moments: Moments, parent: np.ndarray, item: np.ndarray) -> _Items:
        """What these items leave behind, each run after a moment."""
        x = self.arrays
        done = moments.done[parent] | x.bit[item]
        left = ~done
        ready = moments.ready[parent] & ~x.bit[item]
        for which, j in x.followers.of(item):
            add(ready, which, j, ~meet(x.before[j], left[which]))
        live, on_core = moments.live[parent] | x.tensors_read[item], moments.on_core[parent]
        for which, p in x.sources.of(item):
            remove(on_core, which, p, ~meet(x.read_by[p], left[which]))
        gpu_copied, core_copied = moments.copied[parent], moments.copied[parent]
        gpu_owed = moments.owed[parent]
        gpu_us, core_us, before_us = x.gpu_us[item], x.core_us[item], np.zeros(len(item))
        for which, k in x.inputs.of(item):
            row = parent[which]
            is_on_core, once = self.is_on_core(moments, row, k), ~has(moments.copied, row, k)
            to_gpu, to_core = is_on_core & once, ~is_on_core & once
            gpu_us[which] += np.where(to_gpu, x.to_gpu_us[k], 0.0)
            before_us[which] += np.where(to_core, x.to_core_us[k], 0.0)
            read = ~meet(x.readers[k], left[which])
            add(gpu_copied, which, k, to_gpu & ~read)
            add(core_copied, which, k, to_core & ~read)
            remove(gpu_owed, which, k, to_gpu)
            for bits in (gpu_copied, core_copied, live):
                remove(bits, which, k, read)
        for slot, (which, p) in enumerate(x.links.of(item)):
            is_on_core = has(moments.on_core, parent[which], p)
            gpu_us[which] += np.where(is_on_core, x.link_us[0, item[which], slot], 0.0)
            core_us[which] += np.where(is_on_core, 0.0, x.link_us[1, item[which], slot])
        is_read = meet(x.read_by[item], left)
        return _Items(
            parent, item, done, ready, live, on_core, is_read, gpu_copied, core_copied, gpu_owed, gpu_us, before_us, core_us
        )

    def _to_end(self, moments: Moments, last: np.ndarray) -> Ways:
        """The final steps: network outputs that exist only on the core are copied."""
        x = self.arrays
        behind = self.start.taken(np.zeros(len(last), int))
        behind.done[:] = x.end
        behind.ready[:] = 0
        behind.live[:] = 0
        row, k = members(moments.owed[last])
        us = np.bincount(row, x.to_gpu_us[k], len(last))
        nobody, none = np.full(len(last), NO_ITEM), np.zeros(len(last), int)
        return Ways(last, behind, nobody, none, us, np.zeros(len(last)), (us > 0) & (moments.stands[last] != Stands.ON_GPU))

    def _on_gpu(self, moments: Moments, after: _Items, which: np.ndarray) -> Ways:
        x = self.arrays
        parent, item = after.parent[which], after.item[which]
        engine, stands = moments.engine[parent], moments.stands[parent]
        pays = (engine != Call.PAID) & x.has_layers[item]
        us = after.gpu_us[which] + np.where(pays, x.engine_us[0], 0.0)
        takes = us > 0
        declined = (moments.declined[parent] | moments.ready[parent] & x.below[item]) & ~x.bit[item]
        stands_after = np.where(takes | (stands == Stands.ON_GPU), Stands.ON_GPU, Stands.BETWEEN)
        state = np.stack([np.where(pays, Call.PAID, engine), stands_after, np.full(len(item), NO_ITEM)], axis=1)
        behind = Moments(
            after.done[which],
            after.on_core[which],
            declined,
            after.gpu_copied[which],
            after.gpu_owed[which],
            state,
            after.ready[which],
            after.live[which],
        )
        zeros = np.zeros(len(item))
        return Ways(parent, behind, item, zeros.astype(int), us, zeros, takes & (stands != Stands.ON_GPU))

    def _on_core(
        self, moments: Moments, after: _Items, which: np.ndarray, declined: np.ndarray, opens: bool, waits: bool
    ) -> Ways:
        """`waits`: for the GPU, even without reformats of its own."""
        x = self.arrays
        parent, item, done = after.parent[which], after.item[which], after.done[which]
        engine, has_gpu = moments.engine[parent], moments.stands[parent] == Stands.ON_GPU
        us, before_us = after.core_us[which], after.before_us[which]
        if opens:
            more = np.array([Call.ONE_LOADABLE, Call.PAID, Call.LOADABLES, Call.LOADABLES])
            us, engine = us + x.loadable_us, more[engine]
        pays = (engine == Call.ONE_LOADABLE) & x.layered.any() & ~meet(np.broadcast_to(x.layered, done.shape), ~done)
        us = us + np.where(pays, x.engine_us[1], 0.0)
        # A loadable separated by a reformat may begin with the item that needs it, whatever the rank of its other items.
        last = np.where(~has_gpu, NO_ITEM, item) if opens else item
        state = np.stack([np.where(pays, Call.PAID, engine), np.full(len(item), Stands.ON_CORE), last], axis=1)
        on_core = after.on_core[which]
        add(on_core, np.arange(len(item)), item, after.is_read[which])
        behind = Moments(
            done,
            on_core,
            declined[which] & ~x.bit[item],
            after.core_copied[which],
            moments.owed[parent] | x.owes[item],
            state,
            after.ready[which],
            after.live[which],
        )
        acquires = opens & ~has_gpu & ((before_us > 0) | waits)
        return Ways(parent, behind, item, np.ones(len(item), int), before_us, us, acquires)
