"""States as tuples, one at a time: the rule that `StateArrays` follows for many at once, written a second time."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from edgedla.placement.solvers.states.columns import Columns
from edgedla.placement.solvers.states.frontier import Frontier


class State(NamedTuple):
    """All that earlier items mean for the cost of the rest: equal states have equal futures.

    Attributes:
        items: for every item that a later item still reads: (device, slack per core). The slack is the number of loadables
            the core has beyond the stretches on the longest path to the item; so many further stretches add no loadable.
        paid: for every tensor that a later item still reads, the set of devices that have it, as bits.
        counts: loadables per core, while items without predecessors are still to come; otherwise 0.
        ends: per core, while items that nothing reads are still to come: 2 if one of them is on the core; 1 if none is and
            a path with as many stretches as the core has loadables ended elsewhere; otherwise 0.
        engine: 1 once the call of the model's engine is paid.
    """

    items: Tuple[Tuple[int, ...], ...]
    paid: Tuple[int, ...]
    counts: Tuple[int, ...]
    ends: Tuple[int, ...]
    engine: int


def start(frontier: Frontier) -> State:
    """The state before the first item."""
    none = (0,) * len(frontier.cores)
    return State((), (), none, none, 0)


def rows_of(columns: Columns, states: Sequence[State]) -> np.ndarray:
    """States as rows of numbers, in the layout of `Columns`."""
    return np.array(
        [[*(v for x in s.items for v in x), *s.paid, *s.counts, *s.ends, s.engine] for s in states], np.int16
    ).reshape(len(states), columns.size)


def step(frontier: Frontier, i: int, state: State, device: int) -> Tuple[State, List[float]]:
    """Places item i on a device: (the state after it, what it adds to the load of each device in us per period)."""
    return counted_step(frontier, i, state, device)[:2]


def counted_step(frontier: Frontier, i: int, state: State, device: int) -> Tuple[State, List[float], int]:
    """`step`, and the number of loadables it adds."""
    s = frontier.steps[i]
    items, paid, counts, ends, engine = state
    load = [0.0] * len(frontier.devices)
    load[device] = s.times[device]
    if device == 0 and s.has_layers and not engine:
        load[0] += frontier.engine_us
        engine = 1
    elif s.is_last and not engine:
        load[device] += frontier.engine_us
        engine = 1
    masks = list(paid)
    for x in s.inputs:
        source = 0 if x.producer_at is None else items[x.producer_at][0]
        mask = 1 if x.paid_at is None else paid[x.paid_at]
        if not mask >> device & 1:
            load[device if source and device else 0] += x.cost[source][device]
            mask |= 1 << device
        masks.append(mask)
    for producer_at, cost in s.links:
        if items[producer_at][0] != device:
            load[device] += cost[device]
    slack, new = [], []
    for a, core in enumerate(frontier.cores):
        if s.predecessors:
            left = min(items[p][1 + a] - (device == core != items[p][0]) for p in s.predecessors)
        else:
            left = counts[a] - (device == core)
        new.append(int(left < 0))
        slack.append(max(left, 0))
    if s.is_end:
        ends = tuple(_ended(new, a, end, core == device, slack[a]) for a, (core, end) in enumerate(zip(frontier.cores, ends)))
    elif any(new):
        ends = tuple(0 if n and end == 1 else end for n, end in zip(new, ends))
    live_rest = tuple(items[p] for p in s.items_at)
    if any(new):
        for core, n in zip(frontier.cores, new):
            load[core] += n * frontier.loadable_us
        live_rest = tuple((x[0], *(v + n for v, n in zip(x[1:], new))) for x in live_rest)
        counts = tuple(c + n for c, n in zip(counts, new))
    if s.is_kept:
        live_rest += ((device, *slack),)
    for out in s.outputs:
        mask = 1 << device
        if out.is_output and device:
            load[0] += out.to_gpu[device]
            mask |= 1
        masks.append(mask)
    masks.append(1)
    left_over = State(
        live_rest,
        tuple(masks[p] for p in s.masks_at),
        counts if s.more_sources else (0,) * len(frontier.cores),
        ends if s.more_ends else (0,) * len(frontier.cores),
        0 if s.ends_model else engine,
    )
    return left_over, [x * s.rate for x in load], sum(new)


def _ended(new: List[int], a: int, end: int, on_core: bool, slack: int) -> int:
    """`State.ends` of a core after an item that nothing reads; adds to `new` the loadable that this may cost."""
    if new[a] and end == 1:
        end = 0
    if on_core:
        new[a] += end == 1
        return 2
    if slack == 0:
        new[a] += end == 2
        return 2 if end == 2 else 1
    return end


def mirrored(state: State) -> State:
    """The state with the two cores swapped."""
    swap = (0, 2, 1)
    return State(
        tuple([(swap[d], b, a) for d, a, b in state.items]),
        tuple([(0, 1, 4, 5, 2, 3, 6, 7)[m] for m in state.paid]),
        state.counts[::-1],
        state.ends[::-1],
        state.engine,
    )
