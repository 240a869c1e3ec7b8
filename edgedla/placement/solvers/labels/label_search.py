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
LABELS_PER_MOMENT = 15

#: Largest relative error of a sum of a few numbers in single precision.
SINGLE = 1e-6

#: Labels per step that are asked which weights give their bounds.
ASKED = 48

#: Schedules returned.
SHORTEST = 12

#: Steps of a model's time in the order of labels: with the numbers of both moments they fit 64 bits.
NOW_STEPS = 1 << 20

#: A label is compared with the ones so many places before it, in the order of their times.
NEIGHBOURS = (1, 2, 3, 5, 8)


class Room(NamedTuple):
    """Limits of a look.

    Attributes:
        labels: kept after a step, by default those with the lowest bounds. The bound accounts for dropped ones.
        in_all: labels of all steps together, limited by memory: each is kept until the look ends.
        new_moments, moments: found by the look and in all. Beyond, the models have too many branches that may run in any order.
        evenly: share of the kept labels that is dealt out over how far the first model has come. A narrow look dies out
            without it: it keeps many labels that differ in little, and all of them lead to nothing.
        dearer: so much more than its bound the rest is taken to cost where labels are chosen; 0 chooses by the bound.
    """

    labels: int = 256_000
    in_all: int = 24_000_000
    new_moments: int = 45_000
    moments: int = 300_000
    evenly: float = 0.0
    dearer: float = 0.0


class Labels(NamedTuple):
    """Moments of the running and of the waiting model, and the times they are reached.

    Attributes:
        free_us: when the GPU is free.
        bound: lower bound of all schedules that continue from here.
        row: the telling row of weights that gives it.
    """

    runs: np.ndarray
    waits: np.ndarray
    now_us: np.ndarray
    waits_us: np.ndarray
    free_us: np.ndarray
    bound: np.ndarray
    row: np.ndarray

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
        us = np.zeros(2)
        labels = Labels(
            np.array([first, second]), np.array([second, first]), us, us, us, np.full(2, -INFINITY), np.zeros(2, int)
        )
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
        starts = self._starts(labels.waits)
        count = np.where(starts, known.ways[labels.waits], known.acquiring[labels.waits])
        parent, other_way = _ways(known.first, count, labels.waits, np.flatnonzero(hands_over))
        goes_on, way = _below(known, labels, goes_on, way, limit)
        parent, other_way = _below(known, labels, parent, other_way, limit)
        on, over = labels.taken(goes_on), labels.taken(parent)
        both = [
            _run(known, way, on, on.waits, on.now_us, on.waits_us),
            _run(known, other_way, over, over.runs, over.waits_us, over.now_us),
        ]
        behind = Labels(*(np.concatenate(columns) for columns in zip(*both)))
        step = Step(np.concatenate([goes_on, parent]), np.concatenate([way, other_way]))
        behind = behind._replace(waits_us=self._waits_at_least(known, behind))
        keep, bound, row = self._bounds(known, behind, limit)
        behind = behind.taken(keep)._replace(bound=bound, row=row)
        which = _undominated(behind)
        behind, keep = behind.taken(which), keep[which]
        left_out = INFINITY
        most = self._room.labels
        if len(keep) > most:
            which = self._most_promising(known, behind)
            left_out = float(behind.bound[which[most:]].min())
            behind, keep = behind.taken(which[:most]), keep[which[:most]]
        step = Step(step.parent[keep].astype(np.int32), step.way[keep].astype(np.int32))
        some = behind.taken(slice(None, None, len(keep) // ASKED + 1))
        of_all = self._least(some, known.rest, self._weights)
        self.used += np.bincount(of_all.argmax(axis=1), minlength=len(self.used))
        return behind, step, left_out, float(behind.bound.min(initial=limit))

    def _most_promising(self, known: Known, labels: Labels) -> np.ndarray:
        """The labels in the order in which they are kept."""
        room = self._room
        rest = known.telling[labels.runs, labels.row] + known.telling[labels.waits, labels.row]
        order: np.ndarray = np.argsort(labels.bound + room.dearer * rest, kind="stable")
        if room.evenly == 0.0:
            return order
        first = self._timelines.model[labels.runs] == 0
        come = self._timelines.run[np.where(first, labels.runs, labels.waits)][order]
        # Per label, how many with a first model as far precede it.
        by_come = np.argsort(come, kind="stable")
        begins: np.ndarray = np.flatnonzero(np.diff(come[by_come], prepend=-1))
        rank = np.zeros(len(order), int)
        rank[by_come] = ranges(np.zeros(len(begins), int), np.diff(begins, append=len(order)))
        rank[: round(room.labels * (1.0 - room.evenly))] = -1
        return order[np.argsort(rank, kind="stable")]

    def _starts(self, moments: np.ndarray) -> np.ndarray:
        """Per moment, whether its model has not begun."""
        first, second = self._timelines.starts
        return (moments == first) | (moments == second)

    def _waits_at_least(self, known: Known, labels: Labels) -> np.ndarray:
        """When the waiting model can run: if its next step needs the GPU, not before the GPU is free."""
        needs_it = ~known.ended[labels.waits] & ~self._starts(labels.waits)
        return np.where(needs_it, np.maximum(labels.waits_us, labels.free_us), labels.waits_us)

    def _bounds(self, known: Known, labels: Labels, limit: float) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the labels with a bound below the limit, their bounds, the telling rows of weights that give them)."""
        weights = self._weights[self._timelines.telling].astype(known.telling.dtype)
        parts = []
        for start in range(0, len(labels.runs), AT_ONCE):
            least = self._least(labels.taken(slice(start, start + AT_ONCE)), known.telling, weights)
            bounds = row_maxima(least) * (1.0 - SINGLE)
            keep = np.flatnonzero(bounds < limit)
            parts.append((start + keep, bounds[keep], least[keep].argmax(axis=1)))
        if not parts:
            return np.zeros(0, int), np.zeros(0), np.zeros(0, int)
        keep, bounds, row = (np.concatenate(columns) for columns in zip(*parts))
        return keep, bounds, row

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
            m, item, device = self._timelines.choices[step.way[label]].tolist()
            choices.append((m, item, device))
            label = int(step.parent[label])
        return choices


def _ways(
    first: np.ndarray, counts: np.ndarray, moments: np.ndarray, labels: np.ndarray
) -> Tuple[np.ndarray, np.ndarray]:
    """(label, way) for all ways of these labels; `counts` and `moments` are by label."""
    counts = counts[labels]
    return np.repeat(labels, counts), ranges(first[moments[labels]], counts)


def _below(
    known: Known, labels: Labels, label: np.ndarray, way: np.ndarray, limit: float
) -> Tuple[np.ndarray, np.ndarray]:
    """The pairs of label and way without those that the label's own row of weights shows to lead to nothing below the limit."""
    excess = known.excess[way, labels.row[label]]
    below = np.flatnonzero(excess < (limit - labels.bound)[label])
    return label[below], way[below]


def _run(
    known: Known, way: np.ndarray, labels: Labels, waits: np.ndarray, now_us: np.ndarray, waits_us: np.ndarray
) -> Labels:
    """The labels after one model runs on; a way that acquires the GPU begins once the GPU is free."""
    acquires, gpu_us = known.acquires[way], known.gpu_us[way]
    begin_us = np.where(acquires, np.maximum(now_us, labels.free_us), now_us)
    free_us = np.where(acquires, begin_us, labels.free_us) + gpu_us
    now_us = begin_us + gpu_us + known.core_us[way]
    return Labels(known.target[way], waits, now_us, waits_us, free_us, labels.bound, labels.row)


def _undominated(labels: Labels) -> np.ndarray:
    """Indices of the labels that no other at the same moments dominates, as far as near neighbours show."""
    # One sort of whole numbers takes a fraction of the time of a sort by two columns.
    steps = (labels.now_us * (NOW_STEPS / max(labels.now_us.max(initial=0.0), 1e-9))).astype(int)
    order = np.argsort((labels.runs * (labels.waits.max(initial=0) + 1) + labels.waits) * (NOW_STEPS + 1) + steps)
    runs, waits, *times = (column[order] for column in labels[:5])
    keep = np.ones(len(order), bool)
    for shift in NEIGHBOURS:
        left = np.flatnonzero(keep)
        before, behind = left[:-shift], left[shift:]
        ahead = (runs[before] == runs[behind]) & (waits[before] == waits[behind])
        for us in times:
            ahead &= us[before] <= us[behind] + 1e-9
        keep[behind[ahead]] = False
    return order[keep]
