"""Adds predicted costs to a check report, as `edgedla check` shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.placement.changes import by_time, with_times
from edgedla.placement.pricer import Pricer
from edgedla.placement.problem.priced import require_sizes
from edgedla.placement.worth import CostOptions, costs_of, worth_of
from edgedla.regions.report import CheckReport
from edgedla.rules import load_rules


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
    # A profile holds only times of the unchanged network: the changed one is predicted without it.
    prices = costs if costs.profile is None else replace(costs, profile=None)
    timer = Pricer(graph, verdicts, report.platform, prices).latency_us
    if report.mode == "fallback":
        ranking, slower = by_time(report, graph, verdicts, timer, every_change)
        return replace(report, worth=worth, ranking=ranking, slower=slower)
    return replace(report, worth=worth, ranking=with_times(report.ranking, timer, every_change))
