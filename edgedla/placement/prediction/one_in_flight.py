"""The pace of several models, each with one frame in flight: a frame queues for the GPU each time it needs it."""

from __future__ import annotations

from typing import Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.costs.model import CostModel
from edgedla.placement.prediction.streams import GPU_SWITCH_US, Beside, Lane, Pace, beside, by_kernels, lanes_of, side_by_side
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.problem import Problem


class OneInFlight:
    """Paces of assignments of one problem, as in `predict`. Called with an assignment, it gives the value that a solver minimises:

    value = max(over models m: rates[m] * frame_us[m]; over devices: their work)
    """

    def __init__(self, costs: CostModel, one_process: bool) -> None:
        self.costs, self.one_process = costs, one_process
        self.kernels = by_kernels(costs.platform.chip, one_process)

    def paces(self, problem: Problem, evaluation: Evaluation) -> Tuple[Pace, ...]:
        """One pace per model."""
        return self.of_lanes(lanes_of(problem, evaluation))

    def of_lanes(self, lanes: Sequence[Lane]) -> Tuple[Pace, ...]:
        """One pace per lane."""
        return side_by_side(lanes, self.costs.transfer_factor, GPU_SWITCH_US, self.kernels)

    def period_us(self, problem: Problem, evaluation: Evaluation) -> float:
        """Time for `rates[m]` frames of every model, in microseconds."""
        paces = self.paces(problem, evaluation)
        slowest = max((rate * pace.frame_us for rate, pace in zip(problem.rates, paces)), default=0.0)
        return max(slowest, evaluation.busiest(problem).latency_us)

    def period(self, problem: Problem, evaluation: Evaluation) -> Cost:
        """`period_us` with its basis and spread."""
        work = evaluation.period(problem)
        stretch = self.period_us(problem, evaluation) / work.latency_us if work.latency_us > 0 else 1.0
        both = self.beside(problem, evaluation)
        return work.stretched(stretch, max(both.spread(m, stretch) for m in range(len(both.paces))))

    def beside(self, problem: Problem, evaluation: Evaluation) -> Beside:
        """The paces by both ways of taking turns on the GPU, where figures do not tell which holds."""
        lanes = lanes_of(problem, evaluation)
        return beside(lanes, self.costs.transfer_factor, self.costs.platform.chip, self.one_process)

    def __call__(self, problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
        """(value, value): the value is exact, so it is its own lower bound."""
        value = self.period_us(problem, evaluation)
        return value, value
