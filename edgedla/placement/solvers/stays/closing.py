"""What is left of host and guest with so many gaps, one placement of the guest after the other."""

from __future__ import annotations

from typing import Sequence, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.several.front import front
from edgedla.placement.solvers.several.graph import Graph
from edgedla.placement.solvers.several.pair import Pair
from edgedla.placement.solvers.stays.gaps import Gaps
from edgedla.placement.solvers.stays.stays import EDGES, Stays

#: Rows of weights that differ from window to window: how many for each of how many others.
MIXED, MIXED_ROWS = 20, 3

#: Their factors of the host's share in a gap, and how much of its remaining share is given up beside a GPU segment.
APART, GIVEN_UP = (0.5, 0.8, 1.0, 1.25, 1.6), (1.0, 0.7, 0.4, 0.0, 0.0)

#: Rows of a front of the guest and of the host.
GUESTS, HOSTS = 4_000, 20_000

#: Placements of the guest that are looked into, and schedules offered for each.
MOST_GUESTS, OFFERED = 400, 2


class Closing:
    """
    Args:
        gaps: the placements of the host.
        rows: (weights, 3): of the GPU's load, of the host's own time, and of the guest's; those that say most come first.
    """

    def __init__(self, pair: Pair, host: int, gaps: Gaps, rows: np.ndarray, until: Deadline) -> None:
        self._pair, self._host, self._gaps, self._until = pair, host, gaps, until
        self._of_host, self._of_guest = mixed(rows, gaps.count)

    def bound(self, guest: Graph, stays: Stays, limit: float) -> float:
        """A bound of all pairs, `limit` at most; the shortest ones are offered."""
        guests = front(guest, limit, GUESTS, self._until)
        if guests.stopped:
            return -INFINITY
        low, least = min(limit, guests.lost), guests.loads @ self._of_guest.T
        hosts = self._gaps.by(self._of_host, least.min(axis=0, initial=INFINITY), limit)
        if hosts.stopped or hosts.empty:
            return -INFINITY if hosts.stopped else low
        fixed = self._of_host @ self._gaps.fixed_us
        bounds = (least + hosts.least + fixed).max(axis=1)
        for count, k in enumerate(np.argsort(bounds, kind="stable")):
            limit = min(limit, self._pair.limit)
            if bounds[k] >= min(low, limit):
                break
            if count == MOST_GUESTS or self._until.passed:
                return min(low, float(bounds[k]))
            left = hosts.narrowed(None, least[k] + fixed, limit)
            if left.stopped:
                return min(low, float(bounds[k]))
            if not left.empty:
                found = self._around(guests.loads[k], stays.devices(guests.choices[k]), left, limit)
                low = min(low, max(found, float(bounds[k])))
        return min(low, limit)

    def _around(self, guest: np.ndarray, devices: Sequence[int], left: Graph, limit: float) -> float:
        """A bound of the pairs of one placement of the guest, `limit` at most."""
        hosts = front(left, limit, HOSTS, self._until)
        if hosts.stopped:
            return -INFINITY
        length = lengths(guest, hosts.loads + self._gaps.fixed_us)
        for k in np.argsort(length, kind="stable")[:OFFERED]:
            if length[k] < self._pair.limit:
                both = [self._gaps.devices(hosts.choices[k]), devices]
                first, second = (np.array(x) for x in (both if self._host == 0 else both[::-1]))
                self._pair.best.offer(self._pair.placed(self._pair.named(0, first), self._pair.named(1, second)))
        return min(limit, hosts.lost, float(length.min(initial=INFINITY)))


def lengths(guest: np.ndarray, hosts: np.ndarray) -> np.ndarray:
    """By placement of the host, how long a schedule with one of the guest takes at least.

    Args:
        guest: what it takes by column of `Stays`.
        hosts: (placements, segments).
    """
    gaps = hosts.shape[1] // 2
    stays, beside = guest[1 : gaps + 1], guest[gaps + 1 : -1]
    # When the next gap begins, and when the guest's next stay may.
    host_us, guest_us = hosts[:, 0], beside[0]
    for gap in range(gaps):
        stayed_us = np.maximum(host_us, guest_us) + stays[gap]
        host_us = np.maximum(host_us + hosts[:, 2 * gap + 1], stayed_us) + hosts[:, 2 * gap + 2]
        guest_us = stayed_us + beside[gap + 1]
    # At both edges the host waits.
    length: np.ndarray = np.maximum(guest[EDGES] + np.maximum(host_us, guest_us), guest.sum())
    return length


def mixed(rows: np.ndarray, gaps: int) -> Tuple[np.ndarray, np.ndarray]:
    """Weights of the host's segments and of the guest's columns: those of `rows`, and some that differ from window to window.

    Each is a mixture of paths through the schedule. A path may change from host to guest where a GPU segment ends and a stay
    begins, and back where a stay ends and a GPU segment begins, but not to or from what is outside of stays. So the host's
    share beside what lies between two stays is no smaller than its share of either gap.
    """
    random = np.random.default_rng(0)
    many = np.concatenate([rows, np.repeat(rows[:MIXED_ROWS], MIXED, axis=0)])
    new = slice(len(rows), None)
    both, own = many[:, :1] + many[:, 1:2], many[:, 2:]
    # At the edges the host has no share.
    share: np.ndarray = np.zeros((len(many), gaps + 2))
    share[:, 1:-1] = many[:, 1:2] / np.maximum(both, 1e-9)
    share[new, 1:-1] *= random.choice(APART, share[new, 1:-1].shape)
    share = np.minimum(share, 1.0)
    on_gpu = np.ones((len(many), gaps + 1))
    on_gpu[new] -= ((1.0 - np.maximum(share[:, :-1], share[:, 1:])) * random.choice(GIVEN_UP, on_gpu.shape))[new]
    of_host = np.empty((len(many), 2 * gaps + 1))
    of_host[:, ::2], of_host[:, 1::2] = both * on_gpu, both * share[:, 1:-1]
    of_guest = [both + own, both * (1.0 - share[:, 1:-1]) + own, both * (1.0 - on_gpu) + own, own]
    return of_host, np.concatenate(of_guest, axis=1)
