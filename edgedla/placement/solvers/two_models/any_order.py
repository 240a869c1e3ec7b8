"""Pairs of placements as if segments could run in any order: a bound by the loads of both models, and good pairs.

Each model's placements that a pair below a limit may have, without dominated ones, come from its states. What is known of
one model leaves fewer of the other one. Weights alone bound mixtures of placements; few placements are no such mixture.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.bounds.weights import STEPS, moved, of_model
from edgedla.placement.solvers.busiest.loads_ahead import POINTS, LoadsAhead
from edgedla.placement.solvers.busiest.pooled_cores import MOST_STATES
from edgedla.placement.solvers.busiest.rows import row_maxima
from edgedla.placement.solvers.states.state_graph import StateGraph
from edgedla.placement.solvers.two_models.pair import Pair, simple_bounds

#: Pairs handed to the rounds, which take 1 to 3 ms each. From 12 of them HRNet + YOLOv3-tiny on Xavier ends 0.8 % above the optimum.
OFFERED = 60


class Placements(NamedTuple):
    """All placements of a model that matter: their states, and the loads of those that no other dominates."""

    graph: StateGraph
    ahead: LoadsAhead

    @property
    def loads(self) -> np.ndarray:
        """(placements, 2): of the GPU, ascending, and of the core, without slowdown."""
        return self.ahead.points[0]

    def choices(self, k: int) -> Optional[np.ndarray]:
        """The devices by item of a placement; None if it stands for several that were merged."""
        state, left = 0, self.loads[k]
        devices: List[int] = []
        for i, edges in enumerate(self.graph.edges):
            first = self.ahead.first[i + 1]
            for e in range(edges.first[state], edges.first[state + 1]):
                rest = left - np.array([edges.load[e, 0], edges.load[e, 1:].sum()])
                t = edges.target[e]
                if np.isclose(self.ahead.points[i + 1][first[t] : first[t + 1]], rest, 0.0, 1e-6).all(axis=1).any():
                    break
            else:
                return None
            devices.append(int(edges.device[e]))
            state, left = int(t), rest
        return np.array(devices)


class AnyOrder:
    """One look at both models below a limit.

    Attributes:
        bound: no pair of placements is shorter, `limit` at most.
        is_through: all placements that matter were found.
    """

    def __init__(self, pair: Pair, weights: np.ndarray, weighed: np.ndarray, limit: float, until: Deadline) -> None:
        near = [moved(weights, step, weighed) for step in STEPS[1::2]]
        rows: np.ndarray = np.unique(np.round(np.concatenate([np.eye(len(weights))[weighed], *near]), 7), axis=0)
        self._pair, self.limit, self._until = pair, limit, until
        self._prices = [Prices(f, of_model(rows, m, pair.factors)) for m, f in enumerate(pair.frontiers)]
        #: By model and weight, the least of its placements.
        self._least = [p.root for p in self._prices]
        self._gpu_row = int(np.flatnonzero(rows[:, 0] == 1.0)[0])
        self.bound, self.is_through = min(float((self._least[0] + self._least[1]).max()), limit), False
        self._of: Dict[int, Placements] = {}
        for m in (*sorted((0, 1), key=lambda m: pair.items[m]),) * 2:
            if self.bound >= limit or not self._look(m):
                return
        # As many pairs as fit the memory.
        if len(self._of) == 2 and len(self._of[0].loads) * len(self._of[1].loads) <= 50 * POINTS:
            self.is_through = True
            self.bound = max(self.bound, min(limit, float(self._lengths().min())))

    def pairs(self) -> List[Evaluation]:
        """The shortest pairs below the limit, if order did not matter."""
        lengths, pair, met = self._lengths(), self._pair, []
        for at in np.argsort(lengths, axis=None, kind="stable")[:OFFERED]:
            ks = np.unravel_index(at, lengths.shape)
            choices = [self._of[m].choices(int(ks[m])) for m in (0, 1)]
            if lengths[ks] < self.limit and choices[0] is not None and choices[1] is not None:
                met.append(pair.placed(pair.named(0, choices[0]), pair.named(1, choices[1])))
        return met

    def _look(self, m: int) -> bool:
        """Finds the placements of model m; False if time or states end that. Raises `bound`."""
        states, bounds = self._pair.states[m], lambda least: self._bounds(m, least)
        graph = StateGraph(states, self._prices[m], self.limit, MOST_STATES, self._until, whole=True, bound_of=bounds)
        if graph.stopped or graph.dropped < self.limit:
            return False
        found = None if graph.empty else Placements(graph, LoadsAhead(graph, self._pair.factors, self.limit))
        if found is None or not len(found.loads):
            self.bound = self.limit
            return True
        self._of[m], self._least[m] = found, np.maximum(self._least[m], graph.root)
        self.bound = max(self.bound, min(self.limit, float((self._least[0] + self._least[1]).max())))
        return True

    def _bounds(self, m: int, least: np.ndarray) -> np.ndarray:
        """A bound of the pairs with placements of model m, from the least that these take by weight."""
        bound = row_maxima(least + self._least[1 - m])
        other = self._of.get(1 - m)
        if other is not None:
            gpu_us, own_us = self._times(other)
            # From here on the GPU time is the longer one.
            at = np.searchsorted(gpu_us - own_us, -least[:, self._gpu_row])
            on_gpu = least[:, self._gpu_row] + np.r_[gpu_us, np.inf][at]
            bound = np.maximum(bound, np.minimum(on_gpu, np.r_[np.inf, own_us][at]))
        return bound

    def _times(self, of: Placements) -> Tuple[np.ndarray, np.ndarray]:
        """By placement the GPU's time, and the time of a frame alone: only those that no other beats in both."""
        slowed = self._slowed(of)
        gpu_us, own_us = slowed[:, 0], slowed.sum(axis=1)
        keep = np.r_[True, own_us[1:] < np.minimum.accumulate(own_us)[:-1]]
        return gpu_us[keep], own_us[keep]

    def _slowed(self, of: Placements) -> np.ndarray:
        slowed: np.ndarray = of.loads * np.r_[self._pair.factors, 1.0][:2]
        return slowed

    def _lengths(self) -> np.ndarray:
        """(placements, placements): the largest of both models' own times and of the loads of the devices."""
        names = self._pair.names
        return simple_bounds((names[0], names[1]), (self._slowed(self._of[0])[:, None], self._slowed(self._of[1])))
