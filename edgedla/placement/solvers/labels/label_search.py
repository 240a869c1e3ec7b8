"""The makespan of two models that share the GPU, each with a core of its own: a search over labels.

A label says how early both models can be at a moment each, when the GPU is free, and which model ran last. One model runs on,
or, where its next step needs the GPU, hands it over to the other one, which waits in front of such a step. So a label's times
are those of a schedule: who waited for whom is in them, and no order is left to guess. Of labels at the same two moments those
that another is nowhere behind are dropped, and those from which no weights lead below the limit.
"""

from __future__ import annotations

import time
from typing import List, NamedTuple, Tuple

import numpy as np

from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.labels.timelines import Known, Timelines
from edgedla.placement.solvers.streams.rows import ranges

#: Labels whose bounds are reckoned at once.
AT_ONCE = 32_768

#: Schedules that are handed out.
SHORTEST = 12

#: New moments that tell how many there will be.
TELLING = 12_000

#: A label is compared with these before it, in the order of its times.
NEIGHBOURS = (1, 2, 3, 5, 8)


class Labels(NamedTuple):
    """Labels: the moments of the model that runs and of the one that waits, when they are there, when the GPU is free."""

    runs: np.ndarray
    waits: np.ndarray
    now_us: np.ndarray
    waits_us: np.ndarray
    free_us: np.ndarray

    def taken(self, which: np.ndarray) -> Labels:
        return Labels(*(column[which] for column in self))


class Step(NamedTuple):
    """Of labels behind a step: which label before it, and which way, they come from."""

    parent: np.ndarray
    way: np.ndarray


class LabelSearch:
    """Looks below a limit.

    Args:
        weights: (weights, 3): of the GPU's load and of the own times of both models; each row sums to 1, and no schedule is
            shorter than the sum that it gives.
        items: of both models.

    Attributes:
        crowded: the last look ended because there are too many moments, or will be.
    """

    def __init__(
        self, timelines: Timelines, weights: np.ndarray, items: int, most_moments: int, deadline: float
    ) -> None:
        self._timelines, self._most_moments, self._deadline = timelines, most_moments, deadline
        self._on_gpu, self._own = weights[:, 0], weights[:, 1:]
        self.crowded = False
        # A last step ends each model.
        self._steps = items + 2

    def look(self, limit: float, most: int) -> Tuple[float, List[List[Tuple[int, int, int]]]]:
        """(a bound of all schedules, `limit` at most; the shortest ones met below it, as (model, item, device)).

        Args:
            most: labels that are kept behind a step, those with the lowest bounds; what is left out is in the bound.
        """
        first, second = self._timelines.starts
        labels = Labels(np.array([first, second]), np.array([second, first]), *[np.zeros(2) for _ in range(3)])
        bound, least, steps = limit, -INFINITY, []
        before = self._timelines.size
        for step_number in range(self._steps):
            known = None
            self.crowded = self._is_crowded(before, step_number)
            if time.monotonic() < self._deadline and not self.crowded:
                moments = np.concatenate([labels.runs, labels.waits])
                known = self._timelines.look(moments, self._most_moments, self._deadline)
            if known is None:
                # Whatever is shorter goes on from here.
                return min(bound, least), []
            labels, step, left_out, least = self._stepped(known, labels, limit, most)
            bound = min(bound, left_out)
            steps.append(step)
            if not len(step.way):
                return bound, []
        length = np.maximum(labels.now_us, labels.waits_us)
        order = np.argsort(length, kind="stable")
        return min(bound, float(length.min())), [self._traced(steps, int(k)) for k in order[:SHORTEST]]

    def _is_crowded(self, before: int, steps: int) -> bool:
        """Whether there are too many moments, or will be: some are enough to tell."""
        new = self._timelines.size - before
        return before + new * (self._steps / max(steps, 1) if new > TELLING else 1) > self._most_moments

    def _stepped(self, known: Known, labels: Labels, limit: float, most: int) -> Tuple[Labels, Step, float, float]:
        """(the labels behind a step, where they come from, a bound of those that were left out, one of the others)."""
        goes_on, way = _ways(known.first, known.ways[labels.runs], labels.runs, np.arange(len(labels.runs)))
        # Who stands in front of a step that needs the GPU, or has ended, hands over; who starts may need none.
        hands_over = (known.ended[labels.runs] | (known.acquiring[labels.runs] > 0)) & ~known.ended[labels.waits]
        starts = np.isin(labels.waits, self._timelines.starts)
        count = np.where(starts, known.ways[labels.waits], known.acquiring[labels.waits])
        parent, other_way = _ways(known.first, count, labels.waits, np.flatnonzero(hands_over))
        on, over = labels.taken(goes_on), labels.taken(parent)
        both = [
            _run(known, way, on.waits, on.now_us, on.waits_us, on.free_us),
            _run(known, other_way, over.runs, over.waits_us, over.now_us, over.free_us),
        ]
        behind = Labels(*(np.concatenate(columns) for columns in zip(*both)))
        step = Step(np.concatenate([goes_on, parent]), np.concatenate([way, other_way]))
        behind = behind._replace(waits_us=self._waits_at_least(known, behind))
        bound = self._bounds(known, behind)
        keep = np.flatnonzero(bound < limit)
        keep = keep[_undominated(behind.taken(keep))]
        left_out = INFINITY
        if len(keep) > most:
            keep = keep[np.argsort(bound[keep], kind="stable")]
            left_out, keep = float(bound[keep[most]]), keep[:most]
        step = Step(step.parent[keep].astype(np.int32), step.way[keep].astype(np.int32))
        return behind.taken(keep), step, left_out, float(bound[keep].min(initial=limit))

    def _waits_at_least(self, known: Known, labels: Labels) -> np.ndarray:
        """When the waiting model can go on: in front of a step that needs the GPU, not before that is free."""
        needs_it = ~known.ended[labels.waits] & ~np.isin(labels.waits, self._timelines.starts)
        return np.where(needs_it, np.maximum(labels.waits_us, labels.free_us), labels.waits_us)

    def _bounds(self, known: Known, labels: Labels) -> np.ndarray:
        """By label, what no schedule that goes on from it is shorter than."""
        bounds = np.empty(len(labels.runs))
        first = self._timelines.model[labels.runs] == 0
        a_us = np.where(first, labels.now_us, labels.waits_us)
        b_us = np.where(first, labels.waits_us, labels.now_us)
        for start in range(0, len(bounds), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            least = known.rest[labels.runs[part]] + known.rest[labels.waits[part]]
            least += np.stack([labels.free_us[part], a_us[part], b_us[part]], axis=1) @ np.concatenate(
                [self._on_gpu[None], self._own.T]
            )
            bounds[part] = least.max(axis=1)
        return bounds

    def _traced(self, steps: List[Step], label: int) -> List[Tuple[int, int, int]]:
        choices = []
        for step in reversed(steps):
            choices.append(self._timelines.choices[step.way[label]])
            label = int(step.parent[label])
        return choices


def _ways(
    first: np.ndarray, counts: np.ndarray, moments: np.ndarray, labels: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """(label, way) for all ways of these labels; `counts` and `moments` are by label."""
    counts = counts[labels]
    return np.repeat(labels, counts), ranges(first[moments[labels]], counts)


def _run(
    known: Known, way: np.ndarray, waits: np.ndarray, now_us: np.ndarray, waits_us: np.ndarray, free_us: np.ndarray
) -> Labels:
    """One model runs on; a way that acquires the GPU begins when that is free."""
    begin_us = np.where(known.acquires[way], np.maximum(now_us, free_us), now_us)
    free_us = np.where(known.acquires[way], begin_us, free_us) + known.gpu_us[way]
    now_us = begin_us + known.gpu_us[way] + known.core_us[way]
    return Labels(known.target[way], waits, now_us, waits_us, free_us)


def _undominated(labels: Labels) -> np.ndarray:
    """Labels without those that another at the same moments is nowhere behind, as far as neighbours show it."""
    pair = labels.runs * (labels.waits.max(initial=0) + 1) + labels.waits
    order = np.lexsort((labels.free_us, labels.waits_us, labels.now_us, pair))
    pair, waits_us, free_us = pair[order], labels.waits_us[order], labels.free_us[order]
    keep = np.ones(len(order), bool)
    for shift in NEIGHBOURS:
        left = np.flatnonzero(keep)
        before, behind = left[:-shift], left[shift:]
        # In the order of `now_us` of a pair, none before is later in that.
        ahead = pair[before] == pair[behind]
        ahead &= (waits_us[before] <= waits_us[behind] + 1e-9) & (free_us[before] <= free_us[behind] + 1e-9)
        keep[behind[ahead]] = False
    return order[keep]
