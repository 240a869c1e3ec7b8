"""Goal and Solution of a solver, and when an assignment is legal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Sequence, Tuple, Union

from edgedla.placement.problem.evaluate import Evaluation, worth
from edgedla.placement.problem.problem import Problem
from edgedla.placement.problem.validate import limits_broken, wait_in_circle
from edgedla.vocabulary import GPU

INFINITY = float("inf")

#: Relative gap up to which a placement counts as proven optimum.
GAP = 1e-4

#: Relative gap at which a search ends by default. The cost model is 10 to 35 % off, so the rest of a stream's or a
#: makespan's gap is worth no further search; latency, energy and GPU time are proven in a fraction of a second.
GAPS = {"latency": GAP, "energy": GAP, "gpu-time": GAP, "throughput": 1e-3, "makespan": 1e-2}

#: Microseconds that a device has in a second.
SECOND_US = 1e6

#: One bound on the latency of every model's frame, or one per model; None is no bound.
LatencyBound = Union[None, float, Tuple[float, ...]]


@dataclass(frozen=True)
class Goal:
    """What to minimise: "latency", "throughput" (the period), "energy", "gpu-time" or "makespan", within bounds.

    Attributes:
        latency_bound_us: of a frame that runs alone.
        frames_per_second: for "energy" and "gpu-time", of each model: minimises the power of these frames in watts above idle,
            or the GPU's time for them in us per second, and no device may have more than one second of work per second.
        total_latency_us: bound on the time of one frame of every model, one after the other.
        gpu_bound_us: bound on what "gpu-time" minimises.
        one_in_flight: for "throughput", a model's next frame starts when its last one is done.
    """

    objective: str
    latency_bound_us: LatencyBound = None
    frames_per_second: Tuple[float, ...] = ()
    total_latency_us: Optional[float] = None
    gpu_bound_us: Optional[float] = None
    one_in_flight: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether the goal has a bound, so that not every assignment within the limits is legal."""
        bounds = (self.latency_bound_us, self.total_latency_us, self.gpu_bound_us)
        return bool(self.frames_per_second) or any(bound is not None for bound in bounds)

    def bound_of(self, model: int) -> Optional[float]:
        """The latency bound of a model's frame; None without one."""
        bound = self.latency_bound_us
        return bound[model] if isinstance(bound, tuple) else bound

    def weight(self, model: int) -> float:
        """Weight of a microsecond or millijoule per frame of a model: 1, or with frame rates what gives us per second or watts."""
        if not self.frames_per_second:
            return 1.0
        return self.frames_per_second[model] / (1e3 if self.objective == "energy" else 1.0)


@dataclass(frozen=True)
class Solution:
    """The best legal assignment found, and what is proven about it.

    Attributes:
        best: None if no assignment keeps the limits, or none was found in time.
        value: of the objective; infinity without one.
        bound: lower bound of every legal assignment (with `one_core_per_model`: of those assignments).
        solver: name of the solver that found it.
        rounds: number of times that the relaxation was solved.
        solve_time_s: wall time.
        timed_out: whether the time limit stopped the search.
        too_large: whether the problem is too large for a search; `best` is then the best starting assignment.
        one_core_per_model: whether `bound` holds only for assignments in which no model uses both cores.
    """

    best: Optional[Evaluation]
    value: float
    bound: float
    solver: str
    rounds: int
    solve_time_s: float
    timed_out: bool
    too_large: bool = False
    one_core_per_model: bool = False

    @property
    def gap(self) -> float:
        """(value - bound) / value; 0 is proven optimal."""
        if self.value == INFINITY:
            return INFINITY if self.bound < INFINITY else 0.0
        return max(self.value - self.bound, 0.0) / self.value if self.value > 0 else 0.0

    @property
    def optimal(self) -> bool:
        return self.gap <= 2 * GAP


#: (value reached, lower bound for this assignment), for objectives whose `worth` is not exact (makespan).
Value = Callable[[Problem, Evaluation], Tuple[float, float]]


def measure_of(goal: Goal, value_of: Optional[Value]) -> Value:
    """`value_of`; by default the worth under the goal, which is exact."""

    def exact(problem: Problem, evaluation: Evaluation) -> Tuple[float, float]:
        if goal.objective == "gpu-time":
            value = gpu_time_us(evaluation, goal)
        elif goal.frames_per_second and goal.objective == "energy":
            value = power_above_idle_w(evaluation, goal.frames_per_second)
        else:
            value = worth(problem, evaluation, goal.objective)
        return value, value

    return value_of or exact


def power_above_idle_w(evaluation: Evaluation, frames_per_second: Sequence[float]) -> float:
    """Watts above idle of these frames: sum over models of frames_per_second * millijoules per frame / 1000."""
    return sum(frames_per_second[m] * cost.energy_mj / 1e3 for (m, _), cost in evaluation.loads.items())


def gpu_time_us(evaluation: Evaluation, goal: Goal) -> float:
    """The GPU's time for one frame of every model, in us; with frame rates, its time per second."""
    return sum(goal.weight(m) * cost.latency_us for (m, d), cost in evaluation.loads.items() if d == GPU)


def busiest_us(problem: Problem, evaluation: Evaluation, frames_per_second: Sequence[float]) -> float:
    """Work of the busiest device in a second of these frames, slowed down by the other engines in use."""
    work = dict.fromkeys(problem.devices, 0.0)
    for (m, device), cost in evaluation.loads.items():
        factor = problem.factor(evaluation.engines, device)
        work[device] = work.get(device, 0.0) + frames_per_second[m] * cost.latency_us * factor
    return max(work.values(), default=0.0)


def bounds_broken(problem: Problem, evaluation: Evaluation, goal: Goal) -> Tuple[str, ...]:
    """The goal's bounds that an assignment breaks, with a relative tolerance of 1e-9; () for none."""
    broken = []
    for m, name in enumerate(problem.models):
        bound = goal.bound_of(m)
        if bound is not None and (latency_us := evaluation.latency(m).latency_us) > bound * (1 + 1e-9):
            broken.append(f"{name} takes {latency_us:.1f} us, bound {bound:g} us")
    if goal.total_latency_us is not None:
        latency_us = sum(evaluation.latency(m).latency_us for m in range(len(problem.models)))
        if latency_us > goal.total_latency_us * (1 + 1e-9):
            broken.append(f"one frame of every model takes {latency_us:.1f} us, bound {goal.total_latency_us:g} us")
    if goal.gpu_bound_us is not None:
        gpu_us = gpu_time_us(evaluation, goal)
        if gpu_us > goal.gpu_bound_us * (1 + 1e-9):
            broken.append(f"the GPU works for {gpu_us:.1f} us, bound {goal.gpu_bound_us:g} us")
    if goal.frames_per_second:
        work_us = busiest_us(problem, evaluation, goal.frames_per_second)
        if work_us > SECOND_US * (1 + 1e-9):
            rates = ", ".join(f"{fps:g}" for fps in goal.frames_per_second)
            broken.append(f"{rates} frames/s keep a device busy for {work_us / SECOND_US:.2f} s per second")
    return tuple(broken)


def legal(problem: Problem, evaluation: Evaluation, goal: Goal) -> bool:
    """Whether an assignment with allowed devices keeps every limit and bound, and its regions can run.

    Regions on one core never wait for each other in a circle; regions on two cores may.
    """
    return (
        not bounds_broken(problem, evaluation, goal)
        and not limits_broken(problem, evaluation.regions)
        and not (len({r.core for r in evaluation.regions}) > 1 and wait_in_circle(problem, evaluation.regions))
    )
