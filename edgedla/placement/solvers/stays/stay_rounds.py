"""Looks at two models by the stays of one of them at the GPU, below rising limits."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import NEVER, Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.labels.timelines import Timelines
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.stays.closing import Closing
from edgedla.placement.solvers.stays.counted_rest import CountedRest, is_known
from edgedla.placement.solvers.stays.gaps import Gaps
from edgedla.placement.solvers.stays.host import Host, can_be_host
from edgedla.placement.solvers.stays.stays import MOST_NEW, Stays

#: Gaps of the host that are told apart.
MOST_GAPS = 8

#: States of the guest before one step.
GUEST_STATES = 4_000

#: Rows of weights that a look goes by: those that say most.
TELLING = 9

#: States of the host before one item, without segments: one search after the other, as long as each gets through.
HOST_STATES: Tuple[int, ...] = (3_000, 12_000, 40_000)

#: How far the first look goes above the bound, as a share of it; the next one goes twice as far if that gets through.
STEP = 1.2e-3

#: How often host and guest are narrowed by each other.
TIMES = 2


class StayRounds:
    """One model, the host, has so many loadables, and a gap in its use of the GPU beside each. The other, the guest, uses the
    GPU in these gaps and before and behind all of the host's GPU segments. A schedule takes no less than

        the host's GPU segments + the guest's stays at both edges + in each gap the longer one of loadable and stay

    nor than the guest's own time. Any mixture of these is a lower bound, and it is a sum of one term for each model. The
    gaps are what bounds in any order lack: a guest of many GPU segments finds few gaps, or pays for its loadables in them.

    Args:
        timelines: what is known of the guest's moments, by rows of weights.
        weights: (weights, 3): of the GPU's load and of both models' own times, those of the timelines.
    """

    def __init__(self, pair: Pair, timelines: Timelines, weights: np.ndarray, host: int) -> None:
        self._pair, self._timelines, self._host, self._guest = pair, timelines, host, 1 - host
        self._at = timelines.telling
        gpu, *own = weights[self._at].T
        self._weights = np.stack([gpu, own[host], own[1 - host]], axis=1)
        #: By the number of gaps, a bound of all pairs; the last one holds for more.
        self._known: np.ndarray = np.zeros(MOST_GAPS + 2)
        #: By gaps and weights, what the host takes at least; by weights, what the guest takes, whatever the gaps.
        self._beside: np.ndarray = np.zeros((0, len(self._at)))
        self._rest: np.ndarray = timelines.known.rest[timelines.starts[self._guest], self._at]
        self._until = NEVER
        self._guests: Dict[int, Tuple[Stays, Graph]] = {}

    @classmethod
    def of(cls, pair: Pair, timelines: Timelines, weights: np.ndarray) -> Optional[StayRounds]:
        """With the model of more moments as the host; None if it cannot be."""
        host = int((timelines.model == 1).sum() > (timelines.model == 0).sum())
        return cls(pair, timelines, weights, host) if can_be_host(pair.frontiers[host]) else None

    def is_soon_through(self, bound: float, until: Deadline) -> bool:
        """Whether the gaps alone raise the bound as far as few states of the host allow: then `run` takes little time."""
        self._until = until
        host = self._host_with(HOST_STATES[0])
        ceiling = self._ceiling(host)
        # A ceiling below what is known says nothing.
        if host.graph.stopped or ceiling <= bound:
            return False
        return host.graph.empty or self._learnt(host, bound) >= ceiling

    def run(self, bound: float, until: Deadline) -> float:
        """Searches until then, or until that raises no bound.

        Returns the bound, at least the known one.
        """
        pair, self._until = self._pair, until
        for states in HOST_STATES:
            host = self._host_with(states)
            if host.graph.stopped:
                break
            ceiling = self._ceiling(host)
            bound = max(bound, ceiling if host.graph.empty else self._raised(host, bound))
            if bound >= pair.limit or bound < ceiling or until.passed:
                break
        return min(bound, pair.best.value)

    def _host_with(self, states: int) -> Host:
        return Host(self._pair, self._host, self._of_host(self._weights), self._rest, states, self._until)

    def _ceiling(self, host: Host) -> float:
        """No pair below it has other placements of the host."""
        return min(self._pair.limit, host.graph.dropped)

    def _learnt(self, host: Host, bound: float) -> float:
        """The bound from what host and guest take with so many gaps; finds the guest's states."""
        ceiling = self._ceiling(host)
        beside = self._beside = host.least(MOST_GAPS)
        self._known = np.clip((beside + self._rest).max(axis=1), bound, ceiling)
        self._guests.clear()
        self._learn(beside, ceiling)
        return float(self._known.min())

    def _raised(self, host: Host, bound: float) -> float:
        """The bound, as far as this host allows."""
        ceiling, step = self._ceiling(host), STEP
        self._learnt(host, bound)
        while self._known.min() < min(ceiling, self._pair.limit) and not self._until.passed:
            before = self._known.copy()
            limit = min(float(before.min()) * (1 + step), ceiling, self._pair.limit)
            self._look(host.narrowed(self._rest, limit), host.weights, limit)
            if (self._known == before).all():
                break
            step *= 2 if self._known.min() >= limit else 0.5
        return float(self._known.min())

    @staticmethod
    def _of_host(weights: np.ndarray) -> np.ndarray:
        """(weights, 2): what a microsecond of the host counts, on the GPU and on the core."""
        return np.stack([weights[:, 0] + weights[:, 1], weights[:, 1]], axis=1)

    def _learn(self, beside: np.ndarray, limit: float) -> None:
        """Finds the guest's states, by the number of gaps."""
        pair, w = self._pair, self._weights
        for gaps in np.flatnonzero(self._known[:-1] < limit).tolist():
            most = self._timelines.size + MOST_NEW
            stays = Stays(self._timelines, self._guest, gaps, self._at, most, self._until)
            columns = [w.sum(axis=1), *[w[:, 0] + w[:, 2]] * gaps, *[w[:, 2]] * (gaps + 2)]
            guest = Graph(
                stays, pair.items[self._guest] + 1, np.stack(columns, axis=1), beside[gaps], limit, GUEST_STATES,
                self._until,
            )  # fmt: skip
            if stays.stopped or guest.stopped:
                continue
            least = limit if guest.empty else float((guest.least + beside[gaps]).max())
            self._known[gaps] = max(self._known[gaps], min(least, guest.dropped, limit))
            if not guest.empty:
                self._guests[gaps] = stays, guest

    def _look(self, left: Graph, weights: np.ndarray, limit: float) -> None:
        """Raises what is known towards the limit.

        Args:
            left: the host's placements that matter below it.
        """
        if left.stopped:
            return
        if left.empty:
            self._known = np.maximum(self._known, limit)
            return
        for gaps in np.flatnonzero(self._known[:-1] < limit).tolist():
            if gaps in self._guests and not self._until.passed:
                low = self._with_gaps(left, weights, gaps, min(limit, self._pair.limit))
                self._known[gaps] = max(self._known[gaps], low)

    def _with_gaps(self, left: Graph, weights: np.ndarray, gaps: int, limit: float) -> float:
        """A bound of the pairs with so many gaps, `limit` at most; the shortest ones are offered."""
        pair, beside = self._pair, self._beside[gaps]
        stays, known = self._guests[gaps]
        rows = np.sort(np.argsort(-(beside + known.least), kind="stable")[:TELLING])
        guest = known.narrowed(None, beside, limit)
        low = min(limit, guest.dropped)
        if guest.empty:
            return low
        if guest.stopped or not is_known(left, TELLING, gaps):
            return -INFINITY
        guest.told(rows)
        flat = CountedRest(pair.frontiers[self._host], left, weights[rows], gaps)
        host = Gaps(pair, self._host, gaps, self._of_host(self._weights[rows]), flat, guest.least, limit, self._until)
        low = min(low, host.graph.dropped)
        for _ in range(TIMES):
            if not (host.graph.stopped or host.graph.empty or guest.stopped or guest.empty):
                guest.narrow(limit, host.least, None)
                if not (guest.stopped or guest.empty):
                    host.narrow(guest.least, limit)
        if host.graph.stopped or guest.stopped:
            return -INFINITY
        if host.graph.empty or guest.empty:
            return low
        best = np.argsort(-(host.least + guest.least), kind="stable")
        return min(
            low, Closing(pair, self._host, host, self._weights[rows][best], self._until).bound(guest, stays, limit)
        )
