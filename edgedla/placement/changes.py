"""Ranks changes of the model by the predicted time of a frame, if costs are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.ranking import changed, in_order, removals
from edgedla.regions.report import CheckReport
from edgedla.regions.values import RankedChange, SlowerChanges
from edgedla.rules.verdict import Verdict

#: Times that differ by less than this share count as equal.
SAME = 1e-3
#: (network, verdicts) -> microseconds of one frame, as TensorRT places the network.
Timer = Callable[[LayerGraph, Sequence[Verdict]], float]


def by_time(
    report: CheckReport, graph: LayerGraph, verdicts: Sequence[Verdict], times: Times, every: bool = False
) -> Tuple[Tuple[RankedChange, ...], Optional[SlowerChanges]]:
    """(the report's changes that make a frame faster, the one that saves most first; the changes that make it slower).

    The ranking by layers and MACs proposes changes; those that remove layers which the DLA runs slowly come on top. Often
    they only help together, because each by itself adds a loadable. So the search starts with all of them, and repeatedly drops
    the one whose removal helps most. A change saves what the others would lose without it.

    Args:
        report: a check with GPU fallback. In other modes every layer must run on the DLA, whatever it costs.
        verdicts: of the unchanged network.
        every: predict the time after each change; else only after the last one, for all together.
    """
    limit = subgraphs_per_core(report.platform)
    slow = removals(graph, verdicts, report.layers, report.ranking, limit, report.precision)
    remaining = [*report.ranking, *slow]
    if not remaining:
        return (), None
    now = times.of(remaining)
    without: List[float] = []
    while remaining:
        without = [times.of([c for c in remaining if c is not change]) for change in remaining]
        if min(without) >= now * (1 - SAME):
            break
        now = min(without)
        del remaining[without.index(now)]
    before = times.of(())
    if now >= before * (1 - SAME):
        remaining = []
    order = sorted(range(len(remaining)), key=lambda i: (-without[i], i))
    ranking = in_order(graph, verdicts, [remaining[i] for i in order], limit, report.precision)
    timed = with_times(ranking, times.of, every)
    slower = [c for c in report.ranking if not any(c is k for k in remaining)]
    if not slower:
        return timed, None
    fixes = tuple(fix for change in slower for fix in change.fixes)
    return timed, SlowerChanges(fixes, times.of([*remaining, *slower]), times.of(remaining))


def with_times(
    ranking: Sequence[RankedChange], time_of: Callable[[Sequence[RankedChange]], float], every: bool
) -> Tuple[RankedChange, ...]:
    """The changes with the time of a frame after each of them, or only after the last one."""
    timed = range(len(ranking)) if every else range(len(ranking))[-1:]
    return tuple(
        replace(change, latency_us=time_of(ranking[: n + 1])) if n in timed else change
        for n, change in enumerate(ranking)
    )


class Times:
    """Time of a frame by set of applied remedies; predicts each set once.

    Args:
        as_it_is: time of the unchanged network, if known.
    """

    def __init__(
        self, graph: LayerGraph, verdicts: Sequence[Verdict], timer: Timer, as_it_is: Optional[float] = None
    ) -> None:
        self._graph, self._verdicts, self._timer = graph, verdicts, timer
        self._known: Dict[FrozenSet[str], float] = {} if as_it_is is None else {frozenset(): as_it_is}

    def of(self, changes: Sequence[RankedChange]) -> float:
        key = frozenset(fix for change in changes for fix in change.fixes)
        if key not in self._known:
            self._known[key] = self._timer(*changed(self._graph, self._verdicts, key))
        return self._known[key]
