"""Changes of the model by what they do to the predicted time of a frame, where costs are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.cap import subgraphs_per_core
from edgedla.regions.ranking import changed, in_order
from edgedla.regions.report import CheckReport
from edgedla.regions.values import RankedChange, SlowerChanges
from edgedla.rules.verdict import Verdict

#: A share of the time that is no difference.
SAME = 1e-3
#: The network and its verdicts -> microseconds of one frame as TensorRT places it.
Timer = Callable[[LayerGraph, Sequence[Verdict]], float]


def by_time(
    report: CheckReport, graph: LayerGraph, verdicts: Sequence[Verdict], times: Times, every: bool = False
) -> Tuple[Tuple[RankedChange, ...], Optional[SlowerChanges]]:
    """The report's changes without those that make a frame slower, the one that saves most first; and the slower ones.

    The ranking by layers and MACs proposes. Changes often help together only, each of them alone adding a loadable, so that
    all are taken at first and the one whose loss helps most is given up, again and again. A change saves what the rest
    would lose without it.

    Args:
        report: a check with GPU fallback; in the other modes every layer must go to the DLA, whatever it costs.
        verdicts: of the network as it is.
        every: each change gets its time on top of those before it; else the last one alone, which shows the sum.
    """
    if not report.ranking:
        return (), None
    remaining, now = list(report.ranking), times.of(report.ranking)
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
    limit = subgraphs_per_core(report.platform)
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
    """The changes with the time of a frame after them: after each, or after all at the last one."""
    timed = range(len(ranking)) if every else range(len(ranking))[-1:]
    return tuple(
        replace(change, latency_us=time_of(ranking[: n + 1])) if n in timed else change
        for n, change in enumerate(ranking)
    )


class Times:
    """Time of a frame by the remedies that are applied, each set predicted once.

    Args:
        as_it_is: of the network without a change, where it is known.
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
