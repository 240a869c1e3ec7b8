"""One of several models on its own, and its placements item by item, with their number of loadables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from edgedla.placement.problem.problem import Problem
from edgedla.placement.solvers.bounds.prices import Prices
from edgedla.placement.solvers.states.frontier import Frontier, State
from edgedla.placement.solvers.states.state_arrays import StateArrays, distinct, packed
from edgedla.placement.solvers.two_models.model_graph import Ways


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


class ModelStates:
    """All placements of a model on a frontier's devices; columns are the devices and, last, how many loadables there are."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier, self.start = frontier, frontier.start
        self.columns = len(frontier.devices) + 1
        self.known: List[Dict[Any, Any]] = [{} for _ in frontier.allowed]

    def choices(self, i: int, state: State) -> Sequence[int]:
        return self.frontier.allowed[i]

    def step(self, i: int, state: State, device: int) -> Tuple[State, List[float]]:
        behind, load, more = self.frontier.counted_step(i, state, device)
        return behind, [*load, float(more)]

    def is_whole(self, state: State) -> bool:
        return True


class ModelStateArrays:
    """The same for arrays of states, as `Columns` has them: sooner where they are many.

    Args:
        prices: what bounds go by.
    """

    def __init__(self, frontier: Frontier, prices: Prices) -> None:
        self.frontier, self._prices = frontier, prices
        self._arrays = StateArrays(frontier, alike=False)
        self.start, self.columns = self._arrays.start, len(frontier.devices) + 1

    def ways(self, i: int, states: np.ndarray) -> Tuple[np.ndarray, Ways]:
        """(the states behind item i, the ways there from these states before it)."""
        allowed, count = self.frontier.allowed[i], len(states)
        steps = [self._arrays.counted_step(i, states, d) for d in allowed]
        behind, load, added = (np.stack(x, axis=1).reshape(-1, *x[0].shape[1:]) for x in zip(*steps))
        first, target = distinct(packed(behind))
        ways = Ways(
            np.arange(count + 1) * len(allowed), target, np.tile(np.array(allowed, np.int8), count),
            np.concatenate([load, added[:, None]], axis=1),
        )  # fmt: skip
        return behind[first], ways

    def taken(self, states: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Some of the states."""
        return states[which]

    def is_whole(self, states: np.ndarray) -> np.ndarray:
        return np.ones(len(states), bool)

    def rest(self, i: int, states: np.ndarray) -> np.ndarray:
        """By state before item i and by weight, the least that is still to come."""
        return self._prices.rest_of_rows(i, states)
