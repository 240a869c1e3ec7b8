"""What may run next from a label of two models, and the labels behind it."""

from __future__ import annotations

from typing import NamedTuple, Tuple, Union

import numpy as np

from edgedla.placement.solvers.busiest.rows import ranges
from edgedla.placement.solvers.two_models.labels.execution import Gpu
from edgedla.placement.solvers.two_models.labels.timelines import Known


class Next:
    """Who acquires the GPU next.

    OPEN: undecided. MUST + m: model m, once the other releases it. AFTER + m: model m, after the other has had it once.
    """

    OPEN, MUST, AFTER = 0, 1, 3


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


class WhoseTurn(NamedTuple):
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


class Runs(NamedTuple):
    """Models that run on: the index of the label, the way, whether the second model runs, and the kind of the label behind."""

    label: np.ndarray
    way: np.ndarray
    second: np.ndarray
    kind: np.ndarray


def whose_turn(known: Known, labels: Labels, per_us: np.ndarray) -> WhoseTurn:
    """`per_us`: the telling rows of weights."""
    first, second, first_us, second_us, _, kind, _, row = labels
    first_ended, second_ended = known.ended[first], known.ended[second]
    # The one behind; on a tie one whose next step acquires the GPU, so that it does or is known to wait for the other's.
    is_second = (second_us < first_us) | (kind == Next.MUST + 1) & (second_us <= first_us)
    is_second = np.where(first_ended | second_ended, first_ended, is_second)
    is_second = np.where(kind >= Next.AFTER, kind == Next.AFTER, is_second)
    settled, of_one = kind > Next.OPEN, (kind - Next.MUST) % 2 == is_second
    moment, other = np.where(is_second, second, first), np.where(is_second, first, second)
    must = settled & of_one
    yields = (must | (known.acquiring[moment] != 0)) & ~known.ended[other] & (kind < Next.AFTER)
    of_first, of_second = per_us[row, 1], per_us[row, 2]
    return WhoseTurn(
        is_second,
        moment,
        np.where(is_second, second_us, first_us),
        np.where(is_second, of_second, of_first),
        other,
        np.where(is_second, first_us, second_us),
        np.where(is_second, of_first, of_second),
        must,
        settled & ~of_one,
        yields,
    )


def runs_of(known: Known, labels: Labels, turns: WhoseTurn, per_us: np.ndarray, limit: float) -> Runs:
    """All that may run next, without what the label's own row of weights shows to lead to nothing below the limit."""
    ways, acquiring, holds, second = known.ways, known.acquiring, known.holds[turns.other], turns.second
    free_us, per_gpu_us, room = labels.free_us, per_us[labels.row, 0], limit - labels.bound
    # The other model's loadable is closed to GPU work, so its next step must acquire the GPU.
    closes = ~turns.awaits & (holds == Gpu.MAY_HOLD) & (acquiring[turns.other] > 0)
    may_acquire = turns.awaits | (holds == Gpu.HOLDS_NOT) | closes
    begin = np.where(may_acquire, 0, acquiring[turns.moment])
    end = np.where(turns.must, acquiring[turns.moment], ways[turns.moment])
    other_waits, waits = Next.MUST + ~second, Next.MUST + second
    # The bound grows by the time a model waits for the GPU and by the time the GPU idles.
    idle = per_gpu_us * np.maximum(turns.us - free_us, 0.0)
    idle += turns.per_us * np.maximum(free_us - turns.us, 0.0)
    on = _below(
        known,
        labels,
        second,
        np.arange(len(second)),
        (known.first[turns.moment], begin, end),
        (room, room - idle),
        (np.where(turns.awaits, labels.kind, Next.OPEN), np.where(turns.awaits | closes, other_waits, Next.OPEN)),
    )
    end = np.where(turns.awaits, acquiring[turns.other], ways[turns.other])
    earliest = np.where(holds == Gpu.HOLDS_NOT, turns.other_us, free_us)
    begin_us = np.maximum(turns.other_us, free_us)
    idle = per_gpu_us * (begin_us - free_us) + turns.other_per_us * (begin_us - turns.other_us)
    over = _below(
        known,
        labels,
        ~second,
        np.flatnonzero(turns.yields),
        (known.first[turns.other], np.zeros(len(end), int), end),
        (
            room - turns.per_us * np.maximum(earliest - turns.us, 0.0),
            room - turns.per_us * np.maximum(begin_us - turns.us, 0.0) - idle,
        ),
        (np.where(holds == Gpu.HOLDS_NOT, Next.AFTER + second, waits), waits),
    )
    return Runs(*(np.concatenate(columns) for columns in zip(on, over)))


def _below(
    known: Known,
    labels: Labels,
    second: np.ndarray,
    which: np.ndarray,
    ways: Tuple[np.ndarray, np.ndarray, np.ndarray],
    room: Tuple[np.ndarray, np.ndarray],
    kind: Tuple[np.ndarray, np.ndarray],
) -> Runs:
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
    return Runs(label, way, second[label], np.where(acquires, kind[1][label], kind[0][label]).astype(np.int8))


def labels_behind(known: Known, labels: Labels, runs: Runs) -> Labels:
    """The labels after one model runs on, one for each; a way that acquires the GPU begins once the GPU is free."""
    acquires, gpu_us, target = known.acquires[runs.way], known.gpu_us[runs.way], known.target[runs.way]
    now_us = np.where(runs.second, labels.second_us, labels.first_us)
    other_us = np.where(runs.second, labels.first_us, labels.second_us)
    begin_us = np.where(acquires, np.maximum(now_us, labels.free_us), now_us)
    free_us = np.where(acquires, begin_us, labels.free_us) + gpu_us
    now_us = begin_us + gpu_us + known.core_us[runs.way]
    # The other model, if it acquires the GPU next, waits until the GPU is free or until this one has acquired it.
    earliest_us = np.where(runs.kind >= Next.AFTER, np.maximum(now_us, free_us), free_us)
    other_us = np.where(runs.kind > Next.OPEN, np.maximum(other_us, earliest_us), other_us)
    return Labels(
        np.where(runs.second, labels.first, target),
        np.where(runs.second, target, labels.second),
        np.where(runs.second, other_us, now_us),
        np.where(runs.second, now_us, other_us),
        free_us,
        runs.kind,
        labels.bound,
        labels.row,
    )
