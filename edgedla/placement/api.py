"""`place`: from models and a platform to a Placement; `verify`: whether a placement still holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.costs.model import CostModel
from edgedla.costs.profile import Profile
from edgedla.errors import NoPlacement, UsageError
from edgedla.placement.deadline import Deadline, Stopwatch
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.problem.baselines import baselines, starts
from edgedla.placement.problem.evaluate import Evaluation
from edgedla.placement.problem.goal import GAP, GAPS, Goal, Solution
from edgedla.placement.problem.inputs import limits_on, problem_of
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Limits, Problem
from edgedla.placement.problem.read_models import ModelSource, read_models
from edgedla.placement.request import PlacementRequest
from edgedla.placement.result.placement import Placement
from edgedla.placement.solvers.solve import MOST_ITEMS, solve
from edgedla.placement.solvers.stages import MANY_ITEMS, stage_starts, whole_model_starts
from edgedla.processes.malloc import paused_garbage_collection
from edgedla.targets import Platform, platform_for
from edgedla.text.printable import short
from edgedla.vocabulary import DEVICES, GPU

#: Time to assemble and write the answer, as a share of the time to read and cost the models.
ANSWERING = 0.8


def place(
    models: Union[ModelSource, Sequence[ModelSource]],
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    objective: str = "latency",
    devices: Union[None, str, Sequence[str]] = None,
    pins: Union[str, Sequence[str]] = (),
    limits: Optional[Limits] = None,
    latency_bound_us: Union[None, float, Sequence[float]] = None,
    rates: Optional[Sequence[float]] = None,
    power_mode: Optional[str] = None,
    profile: Union[None, str, Path, Profile] = None,
    layer_info: Union[None, str, Path] = None,
    sparsity: bool = False,
    use_unknown: bool = False,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    time_limit_s: float = 10.0,
    gap: Optional[float] = None,
    clocks: Optional[Mapping[str, float]] = None,
    frames_per_second: Optional[Sequence[float]] = None,
    in_flight: str = "many",
    one_process: bool = False,
    clocks_locked: Optional[bool] = None,
) -> Placement:
    """Finds the placement of layers at the optimum of the predicted cost, with proof, baselines and reasons.

    Args:
        models: one model or several: path, bytes, ModelProto or LayerGraph. For the rest see `PlacementRequest`.

    Raises:
        UsageError: unknown target, objective, device, or a pin that breaks a rule.
        ModelError: a model cannot be read.
        NoPlacement: no placement keeps the latency bound and the limits (exit code 1).
    """
    # The arguments are the request's fields, by the same names.
    request = PlacementRequest(**{name: value for name, value in locals().items() if name != "models"})
    return place_request(models, request)


@typed
def place_request(
    models: Union[ModelSource, Sequence[ModelSource]], request: PlacementRequest, spent_s: float = 0.0
) -> Placement:
    """`place` for a request.

    Args:
        spent_s: seconds of the time limit that are already used.
    """
    watch, deadline = Stopwatch(), Deadline.after(request.time_limit_s - spent_s)
    request.check_objectives(request.objective)
    prepared = prepare(models, request)
    goal = goal_of(request)
    prepared.problem(goal)
    return prepared.assembled(goal, prepared.solved(goal, deadline.later(-ANSWERING * watch.seconds)))


def goal_of(request: PlacementRequest) -> Goal:
    """The request's objective and bounds as a Goal."""
    bound = request.latency_bound_us
    return Goal(
        request.objective,
        bound if bound is None or isinstance(bound, (int, float)) else tuple(bound),
        tuple(request.frames_per_second or ()),
        one_in_flight=request.in_flight == "one",
    )


class Prepared:
    """Models, read and costed once, for one or several searches."""

    def __init__(self, inputs: Tuple[Model, ...], costs: CostModel, platform: Platform, request: PlacementRequest) -> None:
        self.inputs, self.costs, self.platform, self.request = inputs, costs, platform, request
        #: By devices, and whether one frame is in flight.
        self.problems: Dict[Tuple[Tuple[str, ...], bool], Problem] = {}

    def problem(self, goal: Goal) -> Problem:
        """The placement problem on the devices that the objective may use. With one frame in flight the slowdown is in the pace."""
        allowed = devices_of(self.platform, goal.objective, self.request.devices)
        key = allowed, goal.one_in_flight
        if key not in self.problems:
            limits = limits_on(self.platform, self.request.limits, len(self.inputs))
            problem = problem_of(self.inputs, self.costs, allowed, limits, self.request.use_unknown)
            self.problems[key] = replace(problem, slowdown={}) if goal.one_in_flight else problem
        return self.problems[key]

    def solved(self, goal: Goal, deadline: Deadline, gap: Optional[float] = None) -> Solution:
        """The best assignment that the search finds before the deadline. `gap`: at which it ends, in place of the request's.

        Raises:
            NoPlacement: no assignment keeps the bound and the limits.
        """
        problem = self.problem(goal)
        with paused_garbage_collection():
            request = self.request if gap is None else replace(self.request, gap=gap)
            return _solved(problem, goal, self._pace(goal), starts(problem), deadline, request)

    def assembled(self, goal: Goal, solution: Solution) -> Placement:
        """The Placement document of a solution from `solved`."""
        from edgedla.placement.result.assemble import assemble

        problem = self.problem(goal)
        placement = assemble(
            self.inputs,
            problem,
            goal,
            solution,
            baselines(problem),
            self.platform,
            self.costs,
            self.request.use_unknown,
            self._pace(goal),
        )
        if goal.objective == "throughput" and len(problem.models) > 1 and solution.best is not None:
            note = _rates_note(problem, solution.best, self._pace(goal), self.costs)
            placement = replace(placement, notes=(note, *placement.notes))
        return placement

    def _pace(self, goal: Goal) -> Optional[OneInFlight]:
        return OneInFlight(self.costs, self.request.one_process) if goal.one_in_flight else None


def prepare(models: Union[ModelSource, Sequence[ModelSource]], request: PlacementRequest) -> Prepared:
    """Reads the models and the cost model of a request.

    Raises:
        UsageError, ModelError: as `place`.
    """
    platform = platform_for(request.target, jetpack=request.jetpack, trt=request.trt)
    several = list(models) if isinstance(models, (list, tuple)) else [models]
    if not several:
        raise UsageError("there is no model to place")
    request.check_models(len(several))
    allowed = devices_of(platform, request.objective, request.devices)
    asked = request.precision or platform.precision
    inputs = read_models(
        several, platform, asked, request.pins, allowed, request.use_unknown, request.shapes, request.batch, request.rates
    )
    from edgedla.costs.trt_profile import with_measurements
    from edgedla.regions.float16_model import built_precision

    precision = built_precision((x.type for m in inputs for x in m.graph.layers), platform, asked)
    costs = CostModel.load(
        platform,
        precision,
        request.power_mode,
        clocks=request.clocks,
        clocks_locked=request.clocks_locked,
        sparsity=request.sparsity,
    )

    costs = with_measurements(costs, request.profile, [m.graph for m in inputs], request.layer_info)
    return Prepared(tuple(inputs), costs, platform, request)


def devices_of(platform: Platform, objective: str, given: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """The devices that may be used, in the order of DEVICES.

    Raises:
        UsageError: a device that does not exist, or that the module does not have.
    """
    cores = platform.module.dla_cores if platform.has_dla else 0
    present = DEVICES[: 1 + cores]
    if given is None:
        return present[:2] if objective in ("latency", "energy", "gpu-time") else present
    names = [d.upper() for d in given]
    for d in names:
        if d == "DLA" and cores:
            continue
        if d not in present:
            reason = platform.no_dla if d.startswith("DLA") and not cores else None
            raise UsageError(
                f"{d} cannot be used on {platform.module.title}" + (f": {reason}" if reason else ""),
                where="devices",
                allowed=", ".join(present),
            )
    chosen = {c for d in names for c in (present[1:] if d == "DLA" else (d,))}
    if not chosen:
        raise UsageError("no device is left to place on", where="devices", allowed=", ".join(present))
    return tuple(d for d in present if d in chosen)


def _rates_note(problem: Problem, best: Evaluation, pace: Optional[OneInFlight], costs: CostModel) -> str:
    """A note on frames per second of each model with one frame in flight, which queues for the GPU each time it needs it."""
    one = pace or OneInFlight(costs, one_process=True)
    rates = ", ".join(f"{name} {short(1e6 / p.frame_us)}" for name, p in zip(problem.models, one.paces(problem, best)))
    process = "in one process" if one.one_process else "in processes of their own"
    if pace:
        return f"with one frame of each model in flight, {process}, frames/s: {rates}"
    return f"this takes several frames of each model in flight; with only one of each, {process}, frames/s: {rates}"


def _solved(
    problem: Problem,
    goal: Goal,
    pace: Optional[OneInFlight],
    start: List[Tuple[str, ...]],
    deadline: Deadline,
    request: PlacementRequest,
) -> Solution:
    nowhere = [i for i in problem.items if not i.allowed]
    if nowhere:
        first = nowhere[0]
        raise NoPlacement(
            f"no device is left for layer {first.name} (of {', '.join(problem.devices)})"
            + (f" ({len(nowhere)} layers in all)" if len(nowhere) > 1 else "")
            + f": {first.reason}",
            hint="Allow the GPU.",
        )
    if goal.objective in ("throughput", "makespan") and len(problem.devices) > 1:
        if goal.objective == "makespan" or pace is not None or len(problem.items) > MANY_ITEMS or deadline.passed:
            start = start + stage_starts(problem, goal, pace, deadline=deadline.to_prepare)
        if len(problem.models) > 1:
            start = start + whole_model_starts(problem, deadline)
    gap = GAPS[goal.objective] if request.gap is None else max(request.gap, GAP)
    solution = solve(problem, goal, start, gap=gap, value_of=pace, deadline=deadline)
    if solution.best is not None:
        return solution
    if isinstance(goal.latency_bound_us, (int, float)) and not goal.frames_per_second:
        free = solve(problem, Goal("latency"), start, max(deadline.left_s, 1.0), gap)
        if free.best is not None:
            best = max(free.best.latency(m).latency_us for m in range(len(problem.models)))
            standing = "the optimum" if free.optimal and len(problem.models) == 1 else "the best found"
            unproven = solution.timed_out or solution.too_large
            within = f"every frame within {goal.latency_bound_us:g} us"
            raise NoPlacement(
                f"no placement was found that keeps {within}" if unproven else f"no placement keeps {within}",
                hint=f"On {', '.join(problem.devices)} {standing} is {best:.1f} us.",
            )
    if solution.too_large:
        raise NoPlacement(
            f"{len(problem.items)} items are too many for a search (up to {MOST_ITEMS}), and none of TensorRT's defaults, "
            "whole models on a device, and balanced stages keeps the limits",
            hint=_limits_text(problem, goal, request.pins),
        )
    if solution.timed_out:
        raise NoPlacement(
            f"no placement that keeps the limits was found within {request.time_limit_s:g} s", hint="Allow more time."
        )
    loosen = "loosen a limit, or leave out a pin." if request.pins else "loosen a limit."
    hint = loosen[0].upper() + loosen[1:] if GPU in problem.devices else f"Allow the GPU, {'' if request.pins else 'or '}{loosen}"
    raise NoPlacement(f"no placement keeps the limits: {_limits_text(problem, goal, request.pins)}", hint=hint)


def _limits_text(problem: Problem, goal: Goal, pins: Union[str, Sequence[str]]) -> str:
    limits, bound, fps = problem.limits, goal.latency_bound_us, goal.frames_per_second
    parts = [f"devices {', '.join(problem.devices)}", f"at most {limits.loadables_per_core} loadables per core"]
    if limits.max_regions is not None:
        parts.append(f"at most {limits.max_regions} in all")
    if limits.min_region_layers > 1:
        parts.append(f"at least {limits.min_region_layers} layers each")
    pools = limits.local_dram_bytes >> 20, limits.global_dram_bytes >> 20
    parts.append("{} MiB for tensors and {} MiB for weights of a loadable".format(*pools))
    for value, unit in ((bound, "us per frame"), (fps, "frames/s")):
        if value:
            each = value if isinstance(value, tuple) else (value,)
            parts.append(f"{', '.join(f'{x:g}' for x in each)} {unit}")
    if pins:
        parts.append(f"pins {pins if isinstance(pins, str) else '; '.join(pins)}")
    return "; ".join(parts)
