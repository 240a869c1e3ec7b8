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

import time
from typing import List, NamedTuple, Tuple, Union

import numpy as np

from edgedla.placement.problem.goal import INFINITY
from edgedla.placement.solvers.labels.execution import HOLDS_NOT, MAY_HOLD
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

#: What is settled of who acquires the GPU next: nothing; the next step of model m does, once the other one does not hold it
#: (MUST + m); it does, but only after the other one has acquired it once (AFTER + m).
OPEN, MUST, AFTER = 0, 1, 3


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
    """A moment of each model, and the times they are reached.

    Attributes:
        free_us: when the GPU is free.
        kind: what is settled of who acquires the GPU next.
        bound: lower bound of all schedules that continue from here.
        row: the telling row of weights that gives it.
    """

    first: np.ndarray
    second: np.ndarray
    first_us: np.ndarray
    second_us: np.ndarray
    free_us: np.ndarray
    kind: np.ndarray
    bound: np.ndarray
    row: np.ndarray

    def taken(self, which: Union[np.ndarray, slice]) -> Labels:
        return Labels(*(column[which] for column in self))


class _Turns(NamedTuple):
    """Per label, the model whose turn it is, and the other one.

    Attributes:
        second: whether it is the second model's turn.
        moment, us, per_us: of the model whose turn it is; the last is the weight of its own time in the label's row.
        other, other_us, other_per_us: of the other one.
        must: the next step of the model whose turn it is acquires the GPU.
        awaits: the next step of the other one does.
        yields: the model may leave the GPU to the other one first, as far as its moment is known.
    """

    second: np.ndarray
    moment: np.ndarray
    us: np.ndarray
    per_us: np.ndarray
    other: np.ndarray
    other_us: np.ndarray
    other_per_us: np.ndarray
    must: np.ndarray
    awaits: np.ndarray
    yields: np.ndarray


class _Runs(NamedTuple):
    """Models that run on: the index of the label, the way, whether the second model runs, and the kind of the label behind."""

    label: np.ndarray
    way: np.ndarray
    second: np.ndarray
    kind: np.ndarray


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
        first, second = (np.array([moment]) for moment in self._timelines.starts)
        us = np.zeros(1)
        labels = Labels(first, second, us, us, us, np.array([OPEN], np.int8), us - INFINITY, np.zeros(1, int))
        per_us = self._weights[self._timelines.telling]
        bound, least, steps = limit, -INFINITY, []
        room, before = self._room, self._timelines.size
        self.crowded, self.labels, self.used = False, 0, np.zeros(len(self._weights), int)
        for _ in range(self._steps):
            known = None
            self.labels += len(labels.first)
            if time.monotonic() < self._deadline and self.labels < room.in_all:
                most_moments = min(before + room.new_moments + self.labels // LABELS_PER_MOMENT, room.moments)
                turns = _turns(self._timelines.known, labels, per_us)
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
        return min(bound, float(length.min())), [self._traced(steps, int(k)) for k in order[:SHORTEST]]

    def _stepped(self, known: Known, labels: Labels, limit: float) -> Tuple[Labels, Step, float, float]:
        """(the labels after a step, their origin, a bound of the dropped labels, a bound of the kept ones)."""
        per_us = self._weights[self._timelines.telling]
        runs = _runs(known, labels, _turns(known, labels, per_us), per_us, limit)
        behind = _behind(known, labels.taken(runs.label), runs)
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
            bounds = row_maxima(least) * (1.0 - SINGLE)
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


def _turns(known: Known, labels: Labels, per_us: np.ndarray) -> _Turns:
    """`per_us`: the telling rows of weights."""
    first, second, first_us, second_us, _, kind, _, row = labels
    first_ended, second_ended = known.ended[first], known.ended[second]
    # The one behind; on a tie one whose next step acquires the GPU, so that it does or is known to wait for the other's.
    is_second = (second_us < first_us) | (kind == MUST + 1) & (second_us <= first_us)
    is_second = np.where(first_ended | second_ended, first_ended, is_second)
    is_second = np.where(kind >= AFTER, kind == AFTER, is_second)
    settled, of_one = kind > OPEN, (kind - MUST) % 2 == is_second
    moment, other = np.where(is_second, second, first), np.where(is_second, first, second)
    must = settled & of_one
    yields = (must | (known.acquiring[moment] != 0)) & ~known.ended[other] & (kind < AFTER)
    of_first, of_second = per_us[row, 1], per_us[row, 2]
    return _Turns(
        is_second, moment, np.where(is_second, second_us, first_us), np.where(is_second, of_second, of_first),
        other, np.where(is_second, first_us, second_us), np.where(is_second, of_first, of_second),
        must, settled & ~of_one, yields,
    )  # fmt: skip


def _runs(known: Known, labels: Labels, turns: _Turns, per_us: np.ndarray, limit: float) -> _Runs:
    """All that may run next, without what the label's own row of weights shows to lead to nothing below the limit."""
    ways, acquiring, holds, second = known.ways, known.acquiring, known.holds[turns.other], turns.second
    free_us, per_gpu_us, room = labels.free_us, per_us[labels.row, 0], limit - labels.bound
    # The other one's loadable takes no more GPU work: its next step acquires the GPU.
    closes = ~turns.awaits & (holds == MAY_HOLD) & (acquiring[turns.other] > 0)
    may_acquire = turns.awaits | (holds == HOLDS_NOT) | closes
    begin = np.where(may_acquire, 0, acquiring[turns.moment])
    end = np.where(turns.must, acquiring[turns.moment], ways[turns.moment])
    other_waits, waits = MUST + ~second, MUST + second
    # What waits for the GPU, and the GPU that waits, raise the bound.
    idle = per_gpu_us * np.maximum(turns.us - free_us, 0.0)
    idle += turns.per_us * np.maximum(free_us - turns.us, 0.0)
    on = _below(
        known, labels, second, np.arange(len(second)), (known.first[turns.moment], begin, end), (room, room - idle),
        (np.where(turns.awaits, labels.kind, OPEN), np.where(turns.awaits | closes, other_waits, OPEN)),
    )  # fmt: skip
    end = np.where(turns.awaits, acquiring[turns.other], ways[turns.other])
    earliest = np.where(holds == HOLDS_NOT, turns.other_us, free_us)
    begin_us = np.maximum(turns.other_us, free_us)
    idle = per_gpu_us * (begin_us - free_us) + turns.other_per_us * (begin_us - turns.other_us)
    over = _below(
        known, labels, ~second, np.flatnonzero(turns.yields), (known.first[turns.other], np.zeros(len(end), int), end),
        (
            room - turns.per_us * np.maximum(earliest - turns.us, 0.0),
            room - turns.per_us * np.maximum(begin_us - turns.us, 0.0) - idle,
        ),
        (np.where(holds == HOLDS_NOT, AFTER + second, waits), waits),
    )  # fmt: skip
    return _Runs(*(np.concatenate(columns) for columns in zip(on, over)))


def _below(
    known: Known,
    labels: Labels,
    second: np.ndarray,
    which: np.ndarray,
    ways: Tuple[np.ndarray, np.ndarray, np.ndarray],
    room: Tuple[np.ndarray, np.ndarray],
    kind: Tuple[np.ndarray, np.ndarray],
) -> _Runs:
    """Some of the ways of some labels, by label.

    Args:
        ways: the first one of the moment, and from which to which one counted from there.
        room: by how much a way may raise the bound, if it acquires the GPU or not.
        kind: of the label behind, likewise.
    """
    first, begin, end = ways
    counts = np.maximum(end - begin, 0)[which]
    label, way = np.repeat(which, counts), ranges((first + begin)[which], counts)
    acquires = known.acquires[way]
    room_us = np.where(acquires, room[1][label], room[0][label])
    below = np.flatnonzero(known.excess[way, labels.row[label]] < room_us)
    label, way, acquires = label[below], way[below], acquires[below]
    return _Runs(label, way, second[label], np.where(acquires, kind[1][label], kind[0][label]).astype(np.int8))


def _behind(known: Known, labels: Labels, runs: _Runs) -> Labels:
    """The labels after one model runs on, one for each; a way that acquires the GPU begins once the GPU is free."""
    acquires, gpu_us, target = known.acquires[runs.way], known.gpu_us[runs.way], known.target[runs.way]
    now_us = np.where(runs.second, labels.second_us, labels.first_us)
    other_us = np.where(runs.second, labels.first_us, labels.second_us)
    begin_us = np.where(acquires, np.maximum(now_us, labels.free_us), now_us)
    free_us = np.where(acquires, begin_us, labels.free_us) + gpu_us
    now_us = begin_us + gpu_us + known.core_us[runs.way]
    # Where the other one acquires the GPU next, it waits until that is free, or until this one has acquired it.
    earliest_us = np.where(runs.kind >= AFTER, np.maximum(now_us, free_us), free_us)
    other_us = np.where(runs.kind > OPEN, np.maximum(other_us, earliest_us), other_us)
    return Labels(
        np.where(runs.second, labels.first, target), np.where(runs.second, target, labels.second),
        np.where(runs.second, other_us, now_us), np.where(runs.second, now_us, other_us), free_us, runs.kind,
        labels.bound, labels.row,
    )  # fmt: skip


def _undominated(labels: Labels) -> np.ndarray:
    """Indices of the labels that no other at the same moments dominates, as far as near neighbours show."""
    # One sort of whole numbers takes a fraction of the time of a sort by two columns.
    steps = (labels.first_us * (NOW_STEPS / max(labels.first_us.max(initial=0.0), 1e-9))).astype(int)
    pairs = labels.first * (labels.second.max(initial=0) + 1) + labels.second
    order = np.argsort(pairs * (NOW_STEPS + 1) + steps)
    pairs, kind, times = pairs[order], labels.kind[order], [column[order] for column in labels[2:5]]
    keep = np.ones(len(order), bool)
    for shift in NEIGHBOURS:
        left = np.flatnonzero(keep)
        before, behind = left[:-shift], left[shift:]
        ahead = pairs[before] == pairs[behind]
        # What is settled leaves fewer schedules; and acquiring it next includes doing so after the other one.
        ahead &= (kind[before] == OPEN) | (kind[before] == kind[behind]) | (kind[before] + AFTER - MUST == kind[behind])
        for us in times:
            ahead &= us[before] <= us[behind] + 1e-9
        keep[behind[ahead]] = False
    return order[keep]
