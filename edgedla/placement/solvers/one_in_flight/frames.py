"""The times that the frames of one model may take: a few rows that stand for all of its placements."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.one_in_flight.waits import Frames, Sharing
from edgedla.placement.solvers.states.frontier import Frontier
from edgedla.placement.solvers.states.item_order import narrow_order, reordered
from edgedla.placement.solvers.two_models.load_front import LoadFront, front
from edgedla.placement.solvers.two_models.model_graph import Graph
from edgedla.placement.solvers.two_models.model_states import ModelStateArrays, problem_of_model
from edgedla.vocabulary import GPU

#: Weights of the GPU time, besides the frame's own time, that tell placements apart.
WEIGHTS = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0])

#: Steps of GPU time for a model whose placements are not enumerated.
STEPS = 80

#: Most states before one item, most rows of a front, and most loadables for which rows are kept apart.
STATES, WIDTH, LOADABLES = 16000, 8000, 3

#: Rows kept per number of visits.
SHOWN = 150

#: Most visits of the GPU for which rows give the exact number.
VISITS = 10

#: A model that is not wholly on the GPU visits it at least before its first loadable and after its last one.
LEAST_VISITS = 2


class Rows(NamedTuple):
    """Rows of a model, and per row a placement: devices by item, in the model's order; None if unknown."""

    frames: Frames
    devices: List[Optional[np.ndarray]]

    def take(self, which: np.ndarray) -> Rows:
        """The rows at these indices."""
        return Rows(self.frames.take(which), [self.devices[k] for k in which])


class ModelFrames:
    """One of two models: its placements on the GPU and one core.

    With two equal cores, a placement takes at least as long as with all its loadables on one core: that adds no tensors
    that change devices, and no stretches on the core along any path.

    Attributes:
        order: the model's items in the problem, in the order of the rows' placements.
        whole: the row with all items on the GPU; no row if that is not allowed.
        can_be_on_core: some item may run on a core.
    """

    def __init__(self, problem: Problem, model: int, deadline: Deadline) -> None:
        alone = problem_of_model(problem, model)
        order = narrow_order(alone, deadline)
        self.order = [problem.items_of(model)[i] for i in order]
        self._frontier = Frontier(reordered(alone, order), (GPU, *problem.cores[:1]))
        self._loadable_us, items = alone.loadable.latency_us, len(order)
        self.can_be_on_core = any(1 in allowed for allowed in self._frontier.allowed)
        on_gpu_us = np.array([sum(i.time_us(GPU) for i in alone.items) + alone.engine.latency_us])
        some, none = np.ones(1), np.zeros(1)
        whole = Frames(on_gpu_us, none, on_gpu_us, some, np.zeros(1, bool), np.ones(1, bool))
        self.whole = Rows(whole, [np.zeros(items, np.int8)])
        if not all(0 in allowed for allowed in self._frontier.allowed):
            self.whole = self.whole.take(np.zeros(0, int))

    def by_prices(self, most_us: float) -> Rows:
        """Rows by steps of GPU time up to `most_us`; bounds by prices give each step's own time."""
        weights = np.array([*((1 + w, 1.0) for w in WEIGHTS), (1.0, 0.0)])
        # Both ways of counting loadables are valid here: the placements in question have at least one.
        least = Prices.both_ways(self._frontier, weights).root.reshape(2, -1).max(axis=0)
        starts = np.linspace(0.0, most_us, STEPS, endpoint=False)
        ends = starts + most_us / STEPS
        own = np.maximum((least[:-1] - WEIGHTS * ends[:, None]).max(axis=1), starts)
        possible = (ends >= least[-1]) & (own <= most_us) & self.can_be_on_core
        frames = Frames(
            starts, np.maximum(own - ends, 0.0), own, np.full(STEPS, float(LEAST_VISITS)), np.ones(STEPS, bool),
            np.zeros(STEPS, bool),
        ).take(np.flatnonzero(possible))  # fmt: skip
        return Rows(frames, [None] * len(frames.own_us))

    def one_by_one(
        self, own_rate: float, room: Callable[[np.ndarray], np.ndarray], sharing: Sharing, period_us: float,
        deadline: Deadline,
    ) -> Optional[Rows]:  # fmt: skip
        """Rows of the placements themselves; None if there are too many, or if the deadline came first.

        Args:
            room: for GPU times, the longest frame with which any pair keeps the period; negative if none does.
        """
        most_us = period_us / own_rate
        starts = np.linspace(0.0, most_us, STEPS, endpoint=False)
        rooms, ends = room(starts), starts + most_us / STEPS
        starts, rooms, ends = (x[rooms > 0] for x in (starts, rooms, ends))
        if not len(rooms):
            return self.whole.take(np.zeros(0, int))
        # Scale the weights so that a frame longer than allowed for its GPU time has a value above the period.
        telling = WEIGHTS[[0, 3, 6, 9]]
        longest = (rooms + telling[:, None] * ends).max(axis=1)
        weights = np.array([*((1 + w, 1.0) for w in telling), (1.0, 0.0)])
        weights *= (period_us / (np.r_[longest, ends.max()] * (1 + 1e-9)))[:, None]
        prices = Prices(self._frontier, weights, np.ones(len(weights), bool))
        columns = np.concatenate([weights, np.zeros((len(weights), 1))], axis=1)
        graph = Graph(
            ModelStateArrays(self._frontier, prices), len(self.order), columns, np.zeros(len(weights)), period_us, STATES,
            deadline, gpu_row=len(weights) - 1,
        )  # fmt: skip
        if graph.stopped or graph.dropped < np.inf:
            return None
        found = front(graph, period_us, WIDTH, deadline, columns=2, counted=LOADABLES)
        if found.stopped or found.lost < np.inf:
            return None
        found = found.rows(np.flatnonzero(found.loadables > 0))
        if sharing.one_process:
            count = len(found.bound)
            frames = _frames(found, np.full(count, LEAST_VISITS), np.ones(count, bool), np.zeros(count))
            return _fewer(Rows(frames, list(found.choices)))
        return _fewer(self._by_visits(found))

    def _by_visits(self, found: LoadFront) -> Rows:
        """Repeats each row for each number of visits it may have.

        The stretches of a path on a core are separate. So `loadables` of them (one may be on no path) mean at least that many
        visits. More visits need more loadables, because GPU work without a loadable in between is one visit.
        """
        least = np.maximum(found.loadables, LEAST_VISITS)
        which, visits, more, added = [], [], [], []
        for k, (loadables, fewest) in enumerate(zip(found.loadables, least)):
            last = fewest if loadables > LOADABLES else max(VISITS, fewest)
            for n in range(fewest, last + 1):
                which.append(k)
                visits.append(n)
                more.append(n == last)
                added.append(0.0 if loadables > LOADABLES else max(n - 1 - loadables, 0) * self._loadable_us)
        rows = found.rows(np.array(which, int))
        frames = _frames(rows, np.array(visits), np.array(more, bool), np.array(added))
        return Rows(frames, list(rows.choices))


def _frames(found: LoadFront, visits: np.ndarray, more: np.ndarray, added: np.ndarray) -> Frames:
    gpu_us, core_us = found.loads[:, 0], found.loads[:, 1] + added
    return Frames(
        gpu_us, core_us, gpu_us + core_us, visits.astype(float), more, np.zeros(len(gpu_us), bool)
    )  # fmt: skip


def _fewer(rows: Rows) -> Rows:
    """The undominated rows per number of visits; if there are many, each group of neighbours becomes its minimum."""
    frames = rows.frames
    kept, gpu_us, core_us = [], [], []
    kinds = 2 * frames.visits + frames.more
    for kind in np.unique(kinds):
        at = np.flatnonzero(kinds == kind)
        at = at[np.lexsort((frames.core_us[at], frames.gpu_us[at]))]
        core = frames.core_us[at]
        at = at[np.r_[True, core[1:] < np.minimum.accumulate(core)[:-1]]]
        # Of neighbours, the first has the lowest GPU time, the last the lowest core time.
        starts = np.unique(np.linspace(0, len(at), SHOWN, endpoint=False).astype(int))
        ends = np.r_[starts[1:], len(at)] - 1
        kept.append(at[starts])
        gpu_us.append(frames.gpu_us[at[starts]])
        core_us.append(frames.core_us[at[ends]])
    if not kept:
        return rows
    few = rows.take(np.concatenate(kept))
    gpu, core = np.concatenate(gpu_us), np.concatenate(core_us)
    return few._replace(frames=few.frames._replace(gpu_us=gpu, core_us=core, own_us=gpu + core))


def joined(first: Rows, second: Rows) -> Rows:
    """The rows of both."""
    frames = Frames(*(np.concatenate(pair) for pair in zip(first.frames, second.frames)))
    return Rows(frames, [*first.devices, *second.devices])


def always_visits(problem: Problem) -> bool:
    """True if a model on a core visits the GPU before and after it: all items are fed and read, and reformats take time."""
    fed = {c for f in problem.flows for c in f.consumers}
    read = {f.producer for f in problem.flows if f.consumers or f.is_output}
    items = set(range(len(problem.items)))

    def takes_time(pair: Tuple[str, str]) -> bool:
        return all(f.cost(*pair).latency_us > 0 for f in problem.flows)

    return items <= fed and items <= read and all(takes_time(p) for p in ((GPU, "DLA0"), ("DLA0", GPU)))
