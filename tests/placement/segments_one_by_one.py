"""`SegmentArrays` in readable form: one state and one choice at a time, to compare the arrays with."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from edgedla.placement.solvers.streams.frontier import Frontier, State


class Placed(NamedTuple):
    """All that the items placed so far mean for the cost of the rest.

    Attributes:
        items: the segment of every item that is still to be read.
        brought: of every tensor that is still to be read, by device the first segment that reads it there; -1 for none.
        engine: the segment that pays the call of the model's engine; -1 for none so far.
        used: the segments that have items or reformats, as bits.
    """

    items: Tuple[int, ...]
    brought: Tuple[Tuple[int, ...], ...]
    engine: int
    used: int


class Segmented:
    """The placements of a model whose loadables run on one core, one after the other; `SegmentArrays` says which."""

    def __init__(self, frontier: Frontier, loadables: int) -> None:
        self.frontier = frontier
        self.devices = (0, *(1, 0) * loadables)
        self.columns, self.last = len(self.devices), len(self.devices) - 1
        self.fixed = tuple(frontier.loadable_us if d else 0.0 for d in self.devices)
        self.start = Placed((), (), -1, 0)
        self.known: List[Dict[Any, Any]] = [{} for _ in frontier.allowed]
        self._none = (-1,) * len(frontier.devices)

    def choices(self, i: int, state: Placed) -> Iterator[int]:
        """The segments in which item i may stand."""
        step = self.frontier.steps[i]
        first = max((state.items[p] for p in step.predecessors), default=0)
        for device in self.frontier.allowed[i]:
            if device == 0:
                least = first + first % 2
                yield least
                if not step.predecessors and self.last >= 2:
                    yield 2
                continue
            for k in range(first + 1 - first % 2, self.last, 2):
                if self.devices[k] == device:
                    yield k
                    is_last_reader = first % 2 and len(state.items) == 1 and not step.items_at
                    if is_last_reader and not state.used >> first + 1:
                        # Nothing ran beside it, and nothing will, that could part it from what it reads.
                        break

    def step(self, i: int, state: Placed, k: int) -> Tuple[Placed, List[float]]:
        """Item i goes to segment k: the state behind it, and what that adds to each segment."""
        f, devices = self.frontier, self.devices
        s, device = f.steps[i], devices[k]
        load = [0.0] * len(devices)
        load[k] = s.times[device]
        engine = state.engine
        if s.has_layers and device == 0 and (engine < 0 or k < engine):
            load[k] += f.engine_us
            if engine >= 0:
                load[engine] -= f.engine_us
            engine = k
        elif s.is_last and engine < 0:
            load[k] += f.engine_us
            engine = k
        brought, used = list(state.brought), state.used | 1 << k
        for x in s.inputs:
            source = 0 if x.producer_at is None else devices[state.items[x.producer_at]]
            had = self._none if x.paid_at is None else state.brought[x.paid_at]
            at = had[device]
            if device != source and (at < 0 or k < at):
                cost, before = x.cost[source][device], 1 if source == 0 else 0
                load[k - before] += cost
                if at >= 0:
                    load[at - before] -= cost
                if cost > 0:
                    used |= 1 << k - before
                had = (*had[:device], k, *had[device + 1 :])
            brought.append(had)
        for producer_at, cost_by_device in s.links:
            if devices[state.items[producer_at]] != device:
                load[k] += cost_by_device[device]
        for out in s.outputs:
            had = self._none
            if out.is_output and device:
                load[self.last] += out.to_gpu[device]
                had = (self.last, *had[1:])
            brought.append(had)
        brought.append(self._none)
        items = s.kept_items(state.items) + ((k,) if s.is_kept else ())
        return Placed(items, s.kept_masks(brought), engine, used), load

    def is_whole(self, state: Placed) -> bool:
        """At the end: no loadable is empty, and between two of them the GPU has work."""
        return all(state.used >> k & 1 for k in range(1, self.last))

    def without_segments(self, i: int, state: Placed) -> State:
        """The state of the frontier before item i, for bounds that count no loadables."""
        none = (0,) * (len(self.frontier.devices) - 1)
        items = tuple([(self.devices[k], *none) for k in state.items])
        masks = []
        live = {j: a for a, j in enumerate(self.frontier.live_items[i])}
        for k, had in zip(self.frontier.live_flows[i], state.brought):
            producer = self.frontier.problem.flows[k].producer
            source = 0 if producer is None else items[live[producer]][0]
            masks.append(1 << source | sum(1 << d for d, at in enumerate(had) if at >= 0))
        return State(items, tuple(masks), none, none, int(state.engine >= 0))
