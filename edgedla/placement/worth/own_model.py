"""The user's own model on the GPU alone, as `fix` writes it into the metadata of the model that it makes from it, and what an
assignment gains against it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Dict, Sequence, Tuple

from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.inputs import problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.placement.worth.headline import axes
from edgedla.placement.worth.value import Baseline, Ways
from edgedla.placement.worth.ways import on_device, way_of
from edgedla.rules import load_rules
from edgedla.targets import Platform
from edgedla.text.printable import significant
from edgedla.vocabulary import GPU, PRECISIONS


def to_metadata(graph: LayerGraph, platform: Platform, costs: CostModel) -> str:
    """The figures of a network at both precisions, for its module and power mode; of its own original where it has one."""
    if baselines_of(graph, platform, costs):
        return graph.gpu_alone
    rows = []
    for precision in PRECISIONS:
        verdicts = load_rules().check(graph, platform, precision)
        prices = costs if precision == costs.precision else costs.at(precision)
        problem = problem_on((Model(graph, tuple(verdicts), {}, 1.0),), prices, platform, most_cores=1)
        cost = on_device(problem, GPU).latency(0)
        rows.append({"precision": precision, "latency_us": cost.latency_us, "energy_mj": cost.energy_mj})
    return json.dumps({**_where(platform, costs), "rows": rows}, sort_keys=True)


def baselines_of(graph: LayerGraph, platform: Platform, costs: CostModel) -> Tuple[Baseline, ...]:
    """The figures in a network's metadata; () if there are none for this module, release and power mode, and beside measured times."""
    if costs.profile is not None:
        return ()
    try:
        written = json.loads(graph.gpu_alone or "{}")
        if any(written.get(key) != value for key, value in _where(platform, costs).items()):
            return ()
        rows = [Baseline(r["precision"], float(r["latency_us"]), float(r["energy_mj"])) for r in written["rows"]]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        # Anyone may write metadata of this name.
        return ()
    sound = all(r.precision in PRECISIONS and all(math.isfinite(x) and x > 0 for x in (r.latency_us, r.energy_mj)) for r in rows)
    return tuple(rows) if sound else ()


def against_gpu(models: Sequence[Model], problem: Problem, evaluation: Evaluation, platform: Platform, costs: CostModel) -> str:
    """`against the GPU alone: 1.4 times faster per frame, 63 % less energy, ...`; against the user's own model where `fix` made this one.
    "" for several models, where nothing is on the DLA, or where the GPU may not be used."""
    if len(models) > 1 or not evaluation.regions or GPU not in problem.devices:
        return ""
    graph, precision, alone = models[0].graph, costs.precision, on_device(problem, GPU)
    gpu = way_of("gpu", graph, precision, problem, alone, alone)
    placed = way_of("tensorrt", graph, precision, problem, evaluation, alone)
    own = baselines_of(graph, platform, costs)
    ways = (gpu, placed, replace(placed, name="throughput"))
    answers = axes(Ways(precision, ways, None, (), None, baselines=own, energy_known=costs.energy.known))
    whose = "the GPU alone"
    if own and answers:
        whose = f"your model, before `edgedla fix`, on the GPU ({significant(answers[0].base / 1e3)} ms)"
    return f"against {whose}: {', '.join(axis.text for axis in answers)}" if answers else ""


def _where(platform: Platform, costs: CostModel) -> Dict[str, str]:
    return {"target": platform.module.id, "trt": platform.release.trt_text, "power_mode": costs.power_mode or ""}
