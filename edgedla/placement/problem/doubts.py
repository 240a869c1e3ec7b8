"""Notes on what the published figures do not tell about an assignment, and on the measurement that would settle it."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from edgedla.costs.features import LOWER_CLOCK_SPREAD, STRUCTURE_SPREAD
from edgedla.costs.prices import Prices
from edgedla.costs.work import TABLE_ACTIVATIONS
from edgedla.graph.branches import Choice
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.vocabulary import GPU

SETTLE = "`edgedla bench ARTIFACT --export-profile times.json` on the board tells; `--profile times.json` uses it."


def doubts(problem: Problem, evaluation: Evaluation, models: Sequence[Model], costs: Prices) -> Tuple[str, ...]:
    """One sentence per model with doubts, whose causes the spread of its time includes, and one for each condition."""
    sentences: List[str] = []
    for m, model in enumerate(models):
        causes = [
            *_parts(problem, evaluation, m),
            *_tables(problem, evaluation, m, model),
            *_loops(model),
            *_clocks(evaluation, m, costs),
        ]
        if causes and evaluation.basis(m) != "measured":
            sentences.append(f"{model.graph.name}: no published figure tells apart {'; nor '.join(causes)}. {SETTLE}")
    sentences += [_longer(models[m], choice) for m, choices in enumerate(problem.choices) for choice in choices]
    return tuple(sentences)


def _parts(problem: Problem, evaluation: Evaluation, m: int) -> List[str]:
    if not evaluation.widening or not evaluation.widening[m]:
        return []
    loadables = sum(r.model == m for r in evaluation.regions)
    fallback = sum(evaluation.assignment[i] == GPU and bool(problem.items[i].layers) for i in problem.items_of(m))
    parts = f"{loadables} loadable{'s' * (loadables > 1)}" + (
        f" and {fallback} GPU layer{'s' * (fallback > 1)}" if fallback else ""
    )
    up_to = (
        ", and INT8 engines of this kind took up to 5 times the predicted time"
        if evaluation.widening[m] == STRUCTURE_SPREAD["int8"]
        else ""
    )
    return [f"slow layers from waits between {parts} (±{evaluation.widening[m]:.0%} for it{up_to})"]


def _clocks(evaluation: Evaluation, m: int, costs: Prices) -> List[str]:
    cores = sorted({r.core for r in evaluation.regions if r.model == m and costs.clock_is_doubtful(r.core)})
    if not cores:
        return []
    return [f"the clock of {' and '.join(cores)} in this mode from the cost of FP16 layers (±{LOWER_CLOCK_SPREAD:.0%} for it)"]


def _tables(problem: Problem, evaluation: Evaluation, m: int, model: Model) -> List[str]:
    on_dla = [x for i in problem.items_of(m) if evaluation.assignment[i] != GPU for x in problem.items[i].layers]
    tables = [
        x
        for x in on_dla
        if model.graph.layers[x].type == "ACTIVATION" and model.graph.layers[x].params.get("op") in TABLE_ACTIVATIONS
    ]
    if not tables:
        return []
    several = "s" * (len(tables) > 1)
    return [
        f"the table look-ups of {len(tables)} activation{several} on the DLA (Sigmoid, Tanh, ...) from the layers before them"
    ]


def _longer(model: Model, choice: Choice) -> str:
    times = sorted(((choice.then, "then_branch"), (choice.otherwise, "else_branch")), key=lambda t: -t[0])
    longer, shorter = (f"{name}, {time_us:.3g} us on the GPU" for time_us, name in times)
    return (
        f"{model.graph.name}: a frame runs one branch of If {choice.node!r}; predicted is the longer one ({longer}; {shorter})."
    )


def _loops(model: Model) -> List[str]:
    inside = sum(1 for n in model.graph.runs.values() if n is not None and n > 1)
    if not inside:
        return []
    return [f"the work of {inside} layer{'s' * (inside > 1)} inside a loop from the waits between its passes"]
