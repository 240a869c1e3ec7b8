"""One of several models as a problem of its own."""

from __future__ import annotations

from dataclasses import replace

from edgedla.placement.problem.problem import Problem


def problem_of_model(problem: Problem, model: int) -> Problem:
    """The items, flows and links of one model, counted from its first item."""
    members = problem.items_of(model)
    at = {i: k for k, i in enumerate(members)}
    return replace(
        problem,
        items=tuple(replace(problem.items[i], model=0) for i in members),
        flows=tuple(
            replace(
                f,
                model=0,
                producer=None if f.producer is None else at[f.producer],
                consumers=tuple(at[c] for c in f.consumers),
            )
            for f in problem.flows
            if f.model == model
        ),
        links=tuple(
            replace(k, producer=at[k.producer], consumer=at[k.consumer]) for k in problem.links if k.consumer in at
        ),
        models=(problem.models[model],),
        rates=(1.0,),
    )
