"""A way to run one network, from an assignment of its layers: its figures, and the spreads of their ratios to the GPU alone."""

from __future__ import annotations

import math
from functools import partial

from edgedla.costs.cost import Cost, total
from edgedla.costs.features import STRUCTURE_SPREAD
from edgedla.graph import LayerGraph
from edgedla.placement.prediction.breakdown import breakdown
from edgedla.placement.prediction.memory import alive_bytes, weight_bytes
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.evaluate import Evaluation, engine_device, evaluate
from edgedla.placement.problem.problem import Problem
from edgedla.placement.worth.value import ALIKE, Spreads, Way
from edgedla.regions.work import work_of
from edgedla.vocabulary import GPU

#: The devices whose load counts for the spread of a rate: those that are busy for such a share of the period.
BUSY = 0.9


def on_device(problem: Problem, device: str) -> Evaluation:
    """Every layer on the device if it is allowed there, the rest on the GPU, as TensorRT does."""
    problem = problem.by_default()
    return evaluate(problem, after_cap(problem, greedy(problem, (device,))))


def way_of(name: str, graph: LayerGraph, precision: str, problem: Problem, evaluation: Evaluation, alone: Evaluation) -> Way:
    return Way(
        name,
        precision,
        evaluation.latency(0),
        evaluation.period(problem),
        breakdown(problem, evaluation),
        _work_on_dla(graph, problem, evaluation),
        graph.once(f"memory {precision}", partial(_memory_bytes, precision)),
        ALIKE if name == "gpu" else _spreads(problem, evaluation, alone),
    )


def _memory_bytes(precision: str, graph: LayerGraph) -> int:
    live = [layer.index for layer in graph.layers if layer.index not in graph.unread]
    return weight_bytes(graph, live, precision) + sum(alive_bytes(graph, live, precision, packed=False))


def _work_on_dla(graph: LayerGraph, problem: Problem, evaluation: Evaluation) -> float:
    """Share of the MACs on the DLA; of the layers in a network without MACs."""
    work = work_of(graph)
    placed = [(i, d != GPU) for item, d in zip(problem.items, evaluation.assignment) for i in item.layers]
    macs = sum(work[i].macs for i, _ in placed)
    if not macs:
        return sum(on_dla for _, on_dla in placed) / max(len(placed), 1)
    return sum(work[i].macs for i, on_dla in placed if on_dla) / macs


def _spreads(problem: Problem, evaluation: Evaluation, alone: Evaluation) -> Spreads:
    """Relative deviations of the ratios to the GPU alone.

    One side's time is S + A, the other's S + B: layers on the GPU in both (S), and what only one side has. The errors of the GPU's
    times go together, so those of S cancel, and to first order
        spread of (S + A) / (S + B) = A / (S + A) * sqrt(spread of A ^2 + spread of the GPU's times ^2)
    """
    gpu = alone.latency(0)
    kept = [item.cost(GPU) for item, device in zip(problem.items, evaluation.assignment) if device == GPU]
    if engine_device(problem, evaluation.assignment, 0) == GPU:
        kept.append(problem.engine)
    shared, own = total(kept), total(evaluation.loads.values())
    widening = evaluation.widening[0] if evaluation.widening else 0.0
    busy = total([*kept, *(c.cost for c in evaluation.crossings if c.engine == GPU)])
    loads = {d: evaluation.load(problem, d) for d in problem.devices}
    busiest = max(cost.latency_us for cost in loads.values())
    frames = [
        _of_ratio(cost, shared if d == GPU else Cost(), gpu) for d, cost in loads.items() if cost.latency_us >= BUSY * busiest
    ]
    return Spreads(
        _of_ratio(own, shared, gpu, widening),
        _of_ratio(_as_energy(own), _as_energy(shared), _as_energy(gpu)),
        _of_ratio(busy, shared, gpu),
        max(frames),
        _of_ratio(own, shared, gpu, min(widening, STRUCTURE_SPREAD["fp16"])),
    )


def _as_energy(cost: Cost) -> Cost:
    """The energy in the place of the time, for `_of_ratio`."""
    return Cost(cost.energy_mj, basis=cost.basis, spread=cost.energy_spread)


def _of_ratio(cost: Cost, shared: Cost, gpu: Cost, widening: float = 0.0) -> float:
    """The deviation of cost / gpu, `shared` of which cancels."""
    alone_us = cost.latency_us - shared.latency_us
    if alone_us <= 1e-9 * cost.latency_us or not cost.latency_us:
        return 0.0
    deviation = max(cost.spread * cost.latency_us - shared.spread * shared.latency_us, 0.0) / alone_us
    return min(alone_us / cost.latency_us, 1.0) * math.sqrt(deviation**2 + gpu.spread**2 + widening**2)
