"""Adds predicted costs to a check report, as `edgedla check` shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Sequence

from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.placement.changes import Times, by_time, with_times
from edgedla.placement.problem.inputs import require_sizes
from edgedla.placement.worth import CostOptions, Worthiness, costs_of, worth_of
from edgedla.regions.report import CheckReport
from edgedla.rules import load_rules
from edgedla.rules.verdict import Verdict


def has_sizes(graph: LayerGraph) -> bool:
    """Whether a time can be predicted: no size is open, and some layer is left to run."""
    try:
        require_sizes(graph)
    except (ModelError, UsageError):
        return False
    return bool(graph.layers)


def with_cost(
    report: CheckReport, graph: LayerGraph, options: Optional[CostOptions] = None, every_change: bool = False
) -> CheckReport:
    """The report with predicted costs; unchanged if a size is open.

    Args:
        graph: the report's network.
        every_change: predict the time after each ranked change; else only after the last one, for all together.

    Raises:
        UsageError: an unknown power mode, or a profile of another module or mode.
        DocumentError: the profile cannot be read, or is for another network.
    """
    if not has_sizes(graph):
        return report
    verdicts = report.verdicts or load_rules().check(graph, report.platform, report.precision)
    costs = costs_of(graph, report.platform, report.precision, options)
    worth = worth_of(graph, report.platform, verdicts, costs)
    predicted = costs.profile is None
    # A profile holds only times of the unchanged network: the changed one is predicted without it.
    prices = costs if predicted else replace(costs, profile=None)

    def timer(after: LayerGraph, answers: Sequence[Verdict]) -> float:
        return Worthiness(after, report.platform, answers, prices, 1).way("tensorrt").cost.latency_us

    as_it_is = next((way.cost.latency_us for way in worth.ways if predicted and way.name == "tensorrt"), None)
    times = Times(graph, verdicts, timer, as_it_is)
    if report.mode == "fallback":
        ranking, slower = by_time(report, graph, verdicts, times, every_change)
        return replace(report, worth=worth, ranking=ranking, slower=slower)
    return replace(report, worth=worth, ranking=with_times(report.ranking, times.of, every_change))
