"""Rows (cuts) added to the relaxation after TensorRT's grouping has been evaluated for one assignment."""

from __future__ import annotations

from typing import Set

from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.solvers.highs import Linear, add
from edgedla.placement.solvers.relaxation import Relaxation


def flips(r: Relaxation, model: int, core: str, members: Set[int]) -> Linear:
    """Number of a model's items that differ from the assignment with exactly `members` on the core."""
    result: Linear = {}
    for i in r.problem.items_of(model):
        on_core = r.on(i, core)
        if i in members:
            add(add(result, {None: 1.0}), on_core, -1.0)
        else:
            add(result, on_core)
    return result


def cut_count(r: Relaxation, evaluation: Evaluation) -> None:
    """count >= k - k * flips: TensorRT forms k loadables from exactly these items. Any flip disables the row."""
    for (m, core), count in r.count.items():
        members = {i for i in r.problem.items_of(m) if evaluation.assignment[i] == core}
        k = sum(region.core == core and region.model == m for region in evaluation.regions)
        if k > 1:
            r.model.at_least(add(add({count: 1.0}, {None: -float(k)}), flips(r, m, core, members), float(k)))


def cut_assignment(r: Relaxation, evaluation: Evaluation) -> None:
    """Forbids the present assignment of the cores: it breaks a limit that only the formed regions show."""
    difference: Linear = {}
    for m, core in r.count:
        members = {i for i in r.problem.items_of(m) if evaluation.assignment[i] == core}
        add(difference, flips(r, m, core, members))
    r.model.at_least(difference, 1.0)
