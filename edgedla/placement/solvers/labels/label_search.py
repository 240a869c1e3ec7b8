"""The makespan of two models that share the GPU, each with a core of its own: a search over labels.

A label says: one moment per model, how early each can be there, when the GPU is free, and which model ran last. The model that
ran last runs on or, if its next step needs the GPU, hands over to the other, which waits before such a step. So the times of
a label are those of a schedule, waits included, and no order is left to choose. A label is dropped if another one at the same
moments is at least as early in every time, or if the bounds show that it leads to nothing below the limit.
"""

from __future__ import annotations

import time
from typing import List, NamedTuple, Tuple, Union

import numpy as np

from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.labels.timelines import Known, Timelines
from edgedla.placement.solvers.streams.rows import ranges, row_maxima

#: Labels whose bounds are computed at once: their intermediate values fit the processor's cache.
AT_ONCE = 4_096

#: A new moment takes as much time as so many labels.
LABELS_PER_MOMENT = 30

#: Largest relative error of a sum of a few numbers in single precision.
SINGLE = 1e-6

#: Labels per step that are asked which weights give their bounds.
ASKED = 48

#: Schedules returned.
SHORTEST = 12

#: A label is compared with the ones so many places before it, in the order of their times.
NEIGHBOURS = (1, 2, 3, 5, 8)


class Room(NamedTuple):
    """Limits of a look.

    Attributes:
        labels: kept after a step, those with the lowest bounds. The bound accounts for dropped ones.
        in_all: labels of all steps together, limited by memory: each is kept until the look ends.
        new_moments, moments: found by the look and in all. Beyond, the models have too many branches that may run in any order.
    """

    labels: int = 256_000
    in_all: int = 24_000_000
    new_moments: int = 25_000
    moments: int = 150_000


class Labels(NamedTuple):
    """Labels: moments of the running and of the waiting model, the times they are reached, and when the GPU is free."""

    runs: np.ndarray
    waits: np.ndarray
    now_us: np.ndarray
    waits_us: np.ndarray
    free_us: np.ndarray

    def taken(self, which: Union[np.ndarray, slice]) -> Labels:
        return Labels(*(column[which] for column in self))


class Step(NamedTuple):
    """For each label after a step: the index of the label before it, and the way taken."""

    parent: np.ndarray
    way: np.ndarray


class LabelSearch:
    """Searches for schedules below a limit.

    Args:
        weights: (weights, 3): of the GPU's load and of both models' own times. Each row sums to 1, and its weighted sum is
            a lower bound of every schedule.
        items: of both models.

    Attributes:
        crowded: the last look ended because there are too many moments.
        labels: of all steps of the last look.
        used: per row of weights, for how many sampled labels of the last look it gave the highest bound.
    """

    def __init__(self, timelines: Timelines, weights: np.ndarray, items: int, room: Room, deadline: float) -> None:
        self._timelines, self._room, self._deadline = timelines, room, deadline
        self._weights = weights
        self.crowded, self.labels, self.used = False, 0, np.zeros(len(weights), int)
        # Each model ends with one more step.
        self._steps = items + 2

    def look(self, limit: float) -> Tuple[float, List[List[Tuple[int, int, int]]]]:
        """(a lower bound of all schedules, at most `limit`; the shortest ones found below it, as (model, item, device))."""
        first, second = self._timelines.starts
        labels = Labels(np.array([first, second]), np.array([second, first]), *[np.zeros(2) for _ in range(3)])
        bound, least, steps = limit, -INFINITY, []
        room, before = self._room, self._timelines.size
        self.crowded, self.labels, self.used = False, 0, np.zeros(len(self._weights), int)
        for _ in range(self._steps):
            known = None
            self.labels += len(labels.runs)
            if time.monotonic() < self._deadline and self.labels < room.in_all:
                most_moments = min(before + room.new_moments + self.labels // LABELS_PER_MOMENT, room.moments)
                moments = np.concatenate([labels.runs, labels.waits])
                known = self._timelines.look(moments, most_moments, self._deadline)
                self.crowded = self._timelines.size > most_moments
            if known is None:
                # Every shorter schedule continues from one of these labels.
                return min(bound, least), []
            labels, step, left_out, least = self._stepped(known, labels, limit)
            bound = min(bound, left_out)
            steps.append(step)
            if not len(step.way):
                return bound, []
        length = np.maximum(labels.now_us, labels.waits_us)
        order = np.argsort(length, kind="stable")
        return min(bound, float(length.min())), [self._traced(steps, int(k)) for k in order[:SHORTEST]]

    def _stepped(self, known: Known, labels: Labels, limit: float) -> Tuple[Labels, Step, float, float]:
        """(the labels after a step, their origin, a bound of the dropped labels, a bound of the kept ones)."""
        goes_on, way = _ways(known.first, known.ways[labels.runs], labels.runs, np.arange(len(labels.runs)))
        # A model hands over if its next step needs the GPU or if it has ended. A model that starts may do so without the GPU.
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
        most = self._room.labels
        if len(keep) > most:
            keep = keep[np.argsort(bound[keep], kind="stable")]
            left_out, keep = float(bound[keep[most]]), keep[:most]
        step = Step(step.parent[keep].astype(np.int32), step.way[keep].astype(np.int32))
        behind = behind.taken(keep)
        some = behind.taken(slice(None, None, len(keep) // ASKED + 1))
        of_all = self._least(some, known.rest, self._weights)
        self.used += np.bincount(of_all.argmax(axis=1), minlength=len(self.used))
        return behind, step, left_out, float(bound[keep].min(initial=limit))

    def _waits_at_least(self, known: Known, labels: Labels) -> np.ndarray:
        """When the waiting model can run: if its next step needs the GPU, not before the GPU is free."""
        needs_it = ~known.ended[labels.waits] & ~np.isin(labels.waits, self._timelines.starts)
        return np.where(needs_it, np.maximum(labels.waits_us, labels.free_us), labels.waits_us)

    def _bounds(self, known: Known, labels: Labels) -> np.ndarray:
        """Per label, a lower bound of all schedules that continue from it."""
        bounds = np.empty(len(labels.runs))
        weights = self._weights[self._timelines.telling].astype(known.telling.dtype)
        for start in range(0, len(bounds), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            bounds[part] = row_maxima(self._least(labels.taken(part), known.telling, weights))
        return bounds * (1.0 - SINGLE)

    def _least(self, labels: Labels, rest: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(labels, weights): the bound by each row of weights; `rest` is (moments, weights)."""
        first = self._timelines.model[labels.runs] == 0
        a_us = np.where(first, labels.now_us, labels.waits_us)
        b_us = np.where(first, labels.waits_us, labels.now_us)
        least: np.ndarray = rest.take(labels.runs, axis=0)
        least += rest.take(labels.waits, axis=0)
        least += np.stack([labels.free_us, a_us, b_us], axis=1).astype(rest.dtype) @ weights.T
        return least

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
    """The labels after one model runs on; a way that acquires the GPU begins once the GPU is free."""
    begin_us = np.where(known.acquires[way], np.maximum(now_us, free_us), now_us)
    free_us = np.where(known.acquires[way], begin_us, free_us) + known.gpu_us[way]
    now_us = begin_us + known.gpu_us[way] + known.core_us[way]
    return Labels(known.target[way], waits, now_us, waits_us, free_us)


def _undominated(labels: Labels) -> np.ndarray:
    """Indices of the labels that no other at the same moments dominates, as far as near neighbours show."""
    pair = labels.runs * (labels.waits.max(initial=0) + 1) + labels.waits
    order = np.lexsort((labels.now_us, pair))
    pair, waits_us, free_us = pair[order], labels.waits_us[order], labels.free_us[order]
    keep = np.ones(len(order), bool)
    for shift in NEIGHBOURS:
        left = np.flatnonzero(keep)
        before, behind = left[:-shift], left[shift:]
        # Sorted by `now_us` within a pair, so an earlier label is never later in that.
        ahead = pair[before] == pair[behind]
        ahead &= (waits_us[before] <= waits_us[behind] + 1e-9) & (free_us[before] <= free_us[behind] + 1e-9)
        keep[behind[ahead]] = False
    return order[keep]
