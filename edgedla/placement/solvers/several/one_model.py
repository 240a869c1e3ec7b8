"""Some of several models as a problem of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from edgedla.placement.problem.problem import Problem


def problem_of_models(problem: Problem, models: Sequence[int]) -> Problem:
    """The items, flows and links of these models, ascending, counted from their first item; grouping is that of the whole."""
    members = tuple(i for m in models for i in problem.items_of(m))
    at = {i: k for k, i in enumerate(members)}
    model_at = {m: k for k, m in enumerate(models)}
    return replace(
        problem,
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
    )


def problem_of_model(problem: Problem, model: int) -> Problem:
    """The items, flows and links of one model, counted from its first item."""
    return problem_of_models(problem, (model,))
