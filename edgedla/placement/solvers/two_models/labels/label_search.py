"""The makespan of two models that share the GPU, each with a core of its own: a search over labels.

A label says: one moment per model, how early each can be there, when the GPU is free, and what is settled of who acquires it
next. It is the turn of the model that is behind. It runs on; or, if its next step needs the GPU, leaves that to the other one
first. So the times of a label are those of a schedule, waits included, and all orders are covered. A label is dropped if
another one at the same moments, with no more settled, is at least as early in every time, or if the bounds show that it leads
to nothing below the limit. Both models stay side by side: one far ahead of the other would be combined with all that the other
may do in the meantime.

A loadable may still take GPU work before it while it runs, for an item that joins it late. Until it no longer can, the GPU
counts as held. The other model acquires it only if the loadable then takes no more, and what acquires next is settled.
"""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.best import HANDED_OUT
from edgedla.placement.solvers.busiest.rows import ranges, row_maxima
from edgedla.placement.solvers.two_models.labels.next_runs import Labels, Next, labels_behind, runs_of, whose_turn
from edgedla.placement.solvers.two_models.labels.timelines import AT_ONCE, Known, Timelines

#: A new moment takes as much time as so many labels.
LABELS_PER_MOMENT = 15

#: Labels per step that are asked which weights give their bounds.
ASKED = 48

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

    def __init__(self, timelines: Timelines, weights: np.ndarray, items: int, room: Room, deadline: Deadline) -> None:
        self._timelines, self._room, self._deadline = timelines, room, deadline
        self._weights = weights
        self.crowded, self.labels, self.used = False, 0, np.zeros(len(weights), int)
        # Each model ends with one more step.
        self._steps = items + 2

    def look(self, limit: float) -> Tuple[float, List[List[Tuple[int, int, int]]]]:
        """(a lower bound of all schedules, at most `limit`; the shortest ones found below it, as (model, item, device))."""
        first, second = (np.array([moment]) for moment in self._timelines.starts)
        us = np.zeros(1)
        labels = Labels(first, second, us, us, us, np.array([Next.OPEN], np.int8), us - INFINITY, np.zeros(1, int))
        per_us = self._weights[self._timelines.telling]
        bound, least, steps = limit, -INFINITY, []
        room, before = self._room, self._timelines.size
        self.crowded, self.labels, self.used = False, 0, np.zeros(len(self._weights), int)
        for _ in range(self._steps):
            known = None
            self.labels += len(labels.first)
            if not self._deadline.passed and self.labels < room.in_all:
                most_moments = min(before + room.new_moments + self.labels // LABELS_PER_MOMENT, room.moments)
                turns = whose_turn(self._timelines.known, labels, per_us)
                moments = np.concatenate([turns.moment, turns.other[turns.yields]])
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
        length = np.maximum(labels.first_us, labels.second_us)
        order = np.argsort(length, kind="stable")
        return min(bound, float(length.min())), [self._traced(steps, int(k)) for k in order[:HANDED_OUT]]

    def _stepped(self, known: Known, labels: Labels, limit: float) -> Tuple[Labels, Step, float, float]:
        """(the labels after a step, their origin, a bound of the dropped labels, a bound of the kept ones)."""
        per_us = self._weights[self._timelines.telling]
        runs = runs_of(known, labels, whose_turn(known, labels, per_us), per_us, limit)
        behind = labels_behind(known, labels.taken(runs.label), runs)
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
        step = Step(runs.label[keep].astype(np.int32), runs.way[keep].astype(np.int32))
        some = behind.taken(slice(None, None, len(keep) // ASKED + 1))
        of_all = self._least(some, known.rest, self._weights)
        self.used += np.bincount(of_all.argmax(axis=1), minlength=len(self.used))
        return behind, step, left_out, float(behind.bound.min(initial=limit))

    def _most_promising(self, known: Known, labels: Labels) -> np.ndarray:
        """The labels in the order in which they are kept."""
        room = self._room
        rest = known.telling[labels.first, labels.row] + known.telling[labels.second, labels.row]
        order: np.ndarray = np.argsort(labels.bound + room.dearer * rest, kind="stable")
        if room.evenly == 0.0:
            return order
        come = self._timelines.run[labels.first][order]
        # Per label, how many with a first model as far precede it.
        by_come = np.argsort(come, kind="stable")
        begins: np.ndarray = np.flatnonzero(np.diff(come[by_come], prepend=-1))
        rank = np.zeros(len(order), int)
        rank[by_come] = ranges(np.zeros(len(begins), int), np.diff(begins, append=len(order)))
        rank[: round(room.labels * (1.0 - room.evenly))] = -1
        return order[np.argsort(rank, kind="stable")]

    def _bounds(self, known: Known, labels: Labels, limit: float) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the labels with a bound below the limit, their bounds, the telling rows of weights that give them)."""
        weights = self._weights[self._timelines.telling].astype(known.telling.dtype)
        parts = []
        for start in range(0, len(labels.first), AT_ONCE):
            least = self._least(labels.taken(slice(start, start + AT_ONCE)), known.telling, weights)
            # The error of a sum of a few numbers in single precision.
            bounds = row_maxima(least) * (1.0 - 8 * np.finfo(np.float32).eps)
            keep = np.flatnonzero(bounds < limit)
            parts.append((start + keep, bounds[keep], least[keep].argmax(axis=1)))
        if not parts:
            return np.zeros(0, int), np.zeros(0), np.zeros(0, int)
        keep, bounds, row = (np.concatenate(columns) for columns in zip(*parts))
        return keep, bounds, row

    def _least(self, labels: Labels, rest: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(labels, weights): the bound by each row of weights; `rest` is (moments, weights)."""
        least: np.ndarray = rest.take(labels.first, axis=0)
        least += rest.take(labels.second, axis=0)
        least += np.stack([labels.free_us, labels.first_us, labels.second_us], axis=1).astype(rest.dtype) @ weights.T
        return least

    def _traced(self, steps: List[Step], label: int) -> List[Tuple[int, int, int]]:
        choices = []
        for step in reversed(steps):
            m, item, device = self._timelines.choices[step.way[label]].tolist()
            choices.append((m, item, device))
            label = int(step.parent[label])
        return choices


def _undominated(labels: Labels) -> np.ndarray:
    """Indices of the labels that no other at the same moments dominates, as far as near neighbours show."""
    pairs = labels.first * (labels.second.max(initial=0) + 1) + labels.second
    # One sort of whole numbers takes a fraction of the time of a sort by two columns: a time in as many steps as 64 bits leave room for.
    steps = 2**62 // (int(pairs.max(initial=0)) + 1) - 1
    now = (labels.first_us * (steps / max(labels.first_us.max(initial=0.0), 1e-9))).astype(int)
    order = np.argsort(pairs * (steps + 1) + now)
    pairs, kind, times = pairs[order], labels.kind[order], [column[order] for column in labels[2:5]]
    keep = np.ones(len(order), bool)
    for shift in NEIGHBOURS:
        left = np.flatnonzero(keep)
        before, behind = left[:-shift], left[shift:]
        ahead = pairs[before] == pairs[behind]
        # A settled label has fewer schedules. To acquire the GPU next includes to do so after the other one.
        ahead &= (
            (kind[before] == Next.OPEN) | (kind[before] == kind[behind]) | (kind[before] + Next.AFTER - Next.MUST == kind[behind])
        )
        for us in times:
            ahead &= us[before] <= us[behind] + 1e-9
        keep[behind[ahead]] = False
    return order[keep]
