"""Moments of one model in execution order, and the ways to continue from them: one per row of arrays."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

import numpy as np

from edgedla.placement.solvers.labels.bits import keys_of

#: What a model is in: a GPU segment; a loadable; a GPU segment that has taken no time so far.
ON_GPU, ON_CORE, BETWEEN = 0, 1, 2

#: The call of the model's engine: paid by the first layer on the GPU; or not yet paid, with no loadable so far, with one, or
#: with more. A model without a layer on the GPU pays with its only loadable; with several loadables the call is left out.
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
        state: UNPAID, PAID, ONE_LOADABLE or LOADABLES; ON_GPU, ON_CORE or BETWEEN; in a loadable, the item that joined it
            last; items join in ascending order.
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
    joined = Ways(
        np.concatenate(parent), Moments(*map(np.concatenate, zip(*moments))), *(np.concatenate(c) for c in columns)
    )
    order = np.lexsort((~joined.acquires, joined.parent))
    moments = joined.moments.taken(order)
    return Ways(joined.parent[order], moments, *(column[order] for column in joined[2:]))
