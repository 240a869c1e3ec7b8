"""How the frames of an assignment run: segments, transfers and traffic of each model, for `streams.side_by_side`."""

from __future__ import annotations

from typing import Dict, Tuple

from edgedla.placement.prediction.streams import Lane
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.schedule import segments


def lanes_of(problem: Problem, evaluation: Evaluation) -> Tuple[Lane, ...]:
    """One lane per model."""
    return tuple(lane_of(problem, evaluation, m) for m in range(len(problem.models)))


def lane_of(problem: Problem, evaluation: Evaluation, m: int) -> Lane:
    """The lane of one model."""
    parts = tuple((s.device, s.time_us) for s in segments(problem, evaluation, m))
    transfer = {device: cost.transfer_us for (model, device), cost in evaluation.loads.items() if model == m}
    traffic: Dict[str, float] = {}
    for i in problem.items_of(m):
        item, device = problem.items[i], evaluation.assignment[i]
        traffic[device] = traffic.get(device, 0.0) + item.traffic(device)
    return Lane(parts, transfer, traffic)
