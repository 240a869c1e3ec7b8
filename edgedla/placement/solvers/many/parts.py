"""Some of several models as a problem of their own, which no schedule of all is shorter than."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Dict, FrozenSet, Mapping, Sequence, Tuple

from edgedla.placement.problem.problem import Problem


def part_of(problem: Problem, models: Sequence[int]) -> Tuple[Problem, Tuple[int, ...]]:
    """(the items, flows and links of these models, ascending; the items by their index in the whole).

    A schedule of all models without those of the others is one of these: it uses fewer engines, or as many.
    """
    members = tuple(i for m in models for i in problem.items_of(m))
    at = {i: k for k, i in enumerate(members)}
    model_at = {m: k for k, m in enumerate(models)}

    def group(part: Problem, core: str, own: Tuple[int, ...]) -> Tuple[Tuple[int, ...], ...]:
        formed = problem.grouping(problem, core, tuple(members[k] for k in own))
        return tuple(tuple(at[i] for i in g) for g in formed)

    part = replace(
        problem,
        grouping=group,
        defaults=None,
        items=tuple(replace(problem.items[i], model=model_at[problem.items[i].model]) for i in members),
        flows=tuple(
            replace(
                f,
                model=model_at[f.model],
                producer=None if f.producer is None else at[f.producer],
                consumers=tuple(at[c] for c in f.consumers),
            )
            for f in problem.flows
            if f.model in model_at
        ),
        links=tuple(
            replace(k, producer=at[k.producer], consumer=at[k.consumer]) for k in problem.links if k.consumer in at
        ),
        models=tuple(problem.models[m] for m in models),
        rates=(1.0,) * len(models),
        slowdown=_least_slowdown(problem),
    )
    return part, members


def _least_slowdown(problem: Problem) -> Mapping[FrozenSet[str], Mapping[str, float]]:
    """By set of engines the least factors of the sets that hold it: the other models may use more engines."""
    devices = problem.devices
    sets = [frozenset(s) for n in range(2, len(devices) + 1) for s in itertools.combinations(devices, n)]
    least: Dict[FrozenSet[str], Dict[str, float]] = {}
    for engines in sets:
        holding = [s for s in sets if s >= engines]
        least[engines] = {d: min(problem.factor(s, d) for s in holding) for d in devices}
    return least
