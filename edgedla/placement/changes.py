"""Ranks changes of the model by the predicted time of a frame, if costs are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, FrozenSet, Iterable, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.ranking import in_order, removals
from edgedla.regions.report import CheckReport
from edgedla.regions.values import LEAST_GAIN, RankedChange, SlowerChanges
from edgedla.rules.verdict import Verdict

#: applied remedies -> microseconds of one frame, as TensorRT places the network: `Pricer.latency_us`.
Timer = Callable[[FrozenSet[str]], float]


def by_time(
    report: CheckReport, graph: LayerGraph, verdicts: Sequence[Verdict], timer: Timer, every: bool = False
) -> Tuple[Tuple[RankedChange, ...], Optional[SlowerChanges]]:
    """(the report's changes that save LEAST_GAIN of a frame or more, the one that saves most first; the changes that do not).

    The ranking by layers and MACs proposes changes; those that remove layers which the DLA runs slowly come on top. Often
    they only help together, because each by itself adds a loadable. So the search starts with all of them, and repeatedly drops
    the one whose removal helps most. A change saves what the others would lose without it.

    Args:
        report: a check with GPU fallback. In other modes every layer must run on the DLA, whatever it costs.
        verdicts: of the unchanged network.
        timer: remembers the sets that it has timed.
        every: predict the time after each change; else only after the last one, for all together.
    """
    limit = subgraphs_per_core(report.platform)
    slow = removals(graph, verdicts, report.layers, report.ranking, limit, report.precision)
    remaining = [*report.ranking, *slow]
    if not remaining:
        return (), None
    now = timer(fixes_of(remaining))
    without: List[float] = []
    while remaining:
        without = [timer(fixes_of(c for c in remaining if c is not change)) for change in remaining]
        if now <= min(without) * (1 - LEAST_GAIN):
            break
        now = min(without)
        del remaining[without.index(now)]
    before = timer(frozenset())
    if now > before * (1 - LEAST_GAIN):
        remaining = []
    order = sorted(range(len(remaining)), key=lambda i: (-without[i], i))
    ranking = in_order(graph, verdicts, [remaining[i] for i in order], limit, report.precision)
    timed = with_times(ranking, timer, every)
    slower = [c for c in report.ranking if not any(c is k for k in remaining)]
    if not slower:
        return timed, None
    fixes = tuple(fix for change in slower for fix in change.fixes)
    return timed, SlowerChanges(fixes, timer(fixes_of([*remaining, *slower])), timer(fixes_of(remaining)))


def fixes_of(changes: Iterable[RankedChange]) -> FrozenSet[str]:
    return frozenset(fix for change in changes for fix in change.fixes)


def with_times(ranking: Sequence[RankedChange], timer: Timer, every: bool) -> Tuple[RankedChange, ...]:
    """The changes with the time of a frame after each of them, or only after the last one."""
    timed = range(len(ranking)) if every else range(len(ranking))[-1:]
    return tuple(
        replace(change, latency_us=timer(fixes_of(ranking[: n + 1]))) if n in timed else change
        for n, change in enumerate(ranking)
    )
