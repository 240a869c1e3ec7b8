"""A check with its cost: what `edgedla check` shows beside the verdicts, for Python too."""

from __future__ import annotations

from dataclasses import replace
from typing import FrozenSet, List, Optional

from edgedla.errors import UsageError
from edgedla.graph import LayerGraph
from edgedla.placement.problem.inputs import require_sizes
from edgedla.placement.worth import CostOptions, Worthiness, worth_of
from edgedla.regions.ranking import changed
from edgedla.regions.report import CheckReport
from edgedla.regions.values import RankedChange
from edgedla.rules import load_rules


def has_sizes(graph: LayerGraph) -> bool:
    """Whether a time can be predicted: no open sizes, and something is left to run."""
    try:
        require_sizes(graph)
    except UsageError:
        return False
    return bool(graph.layers)


def with_cost(
    report: CheckReport, graph: LayerGraph, options: Optional[CostOptions] = None, every_change: bool = False
) -> CheckReport:
    """The report with what its network costs; without change where a size is open.

    Args:
        graph: the one that the report is of.
        every_change: each ranked change gets its time; else the last one alone, which shows the sum.

    Raises:
        UsageError: an unknown power mode, or a profile of another module or mode.
        DocumentError: the profile cannot be read, or is of another network.
    """
    if not has_sizes(graph):
        return report
    verdicts = report.verdicts or load_rules().check(graph, report.platform, report.precision)
    worth = worth_of(graph, report.platform, report.precision, verdicts, options)
    ranking: List[RankedChange] = []
    taken: FrozenSet[str] = frozenset()
    for place, change in enumerate(report.ranking, 1):
        taken |= frozenset(change.fixes)
        if every_change or place == len(report.ranking):
            after, answers = changed(graph, verdicts, taken)
            # Measured times are of the network as it is: the changed one is predicted.
            mode = CostOptions(options.power_mode) if options is not None else None
            way = Worthiness(after, report.platform, report.precision, answers, mode).way("tensorrt")
            change = replace(change, latency_us=way.cost.latency_us)
        ranking.append(change)
    return replace(report, worth=worth, ranking=tuple(ranking))
