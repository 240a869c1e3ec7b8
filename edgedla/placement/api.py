"""`place`: from models and a platform to a Placement; `verify`: whether a placement still holds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.costs.model import CostModel
from edgedla.costs.profile import Profile
from edgedla.costs.trt_profile import with_measurements
from edgedla.errors import NoPlacement, UsageError
from edgedla.placement.problem.baselines import baselines
from edgedla.placement.problem.goal import GAP, Goal, Solution
from edgedla.placement.problem.inputs import problem_of
from edgedla.placement.problem.problem import Limits, Problem
from edgedla.placement.problem.read_models import ModelSource, read_models
from edgedla.placement.result.assemble import assemble
from edgedla.placement.result.placement import Placement
from edgedla.placement.solvers.pipeline_starts import stage_starts
from edgedla.placement.solvers.solve import SOLVERS, solve
from edgedla.regions.cap import subgraphs_per_core
from edgedla.targets import Platform, platform_for
from edgedla.vocabulary import DEVICES, OBJECTIVES, PRECISIONS, one_of


def place(
    models: Union[ModelSource, Sequence[ModelSource]],
    *,
    target: str,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: str = "fp16",
    objective: str = "latency",
    devices: Optional[Sequence[str]] = None,
    pins: Sequence[str] = (),
    limits: Optional[Limits] = None,
    latency_bound_us: Optional[float] = None,
    rates: Optional[Sequence[float]] = None,
    power_mode: Optional[str] = None,
    profile: Union[None, str, Path, Profile] = None,
    layer_info: Union[None, str, Path] = None,
    sparsity: bool = False,
    use_unknown: bool = False,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    time_limit_s: float = 10.0,
    solver: str = "auto",
    gap: float = GAP,
) -> Placement:
    """Where each layer runs at least cost under the cost model, with proof, baselines and reasons.

    Args:
        models: one model or several: path, bytes, ModelProto or LayerGraph.
        objective: "latency" of one frame (several models: one after the other); "throughput" of a stream with many
            frames in flight; "energy" above idle of one frame; "makespan" of one frame of every model side by side.
        devices: of "GPU", "DLA0", "DLA1". Default: GPU and DLA0 for latency and energy, because one TensorRT engine uses one
            core; all of the module's for throughput and makespan.
        pins: as trtexec's --layerDeviceTypes, for example "conv1:DLA,*:GPU".
        limits: default: TensorRT's for this release.
        latency_bound_us: no model's frame, alone, takes longer.
        rates: for throughput, frames of each model per period; 1 each by default.
        profile: measured times that replace predictions: a profile that edgedla wrote, a file of trtexec's
            --exportProfile, or a Profile.
        layer_info: for trtexec's, the file of --exportLayerInfo: it tells which ForeignNodes run on the DLA.
        use_unknown: layers whose support no source states may go to the DLA.
        time_limit_s: of the solver; after it the best found is returned with its bound.
        solver: "auto", "highs" or "python".

    Raises:
        UsageError: unknown target, objective, device, or a pin that breaks a rule.
        ModelError: a model cannot be read.
        NoPlacement: no placement keeps the bound and the limits (exit code 1).
    """
    objective = one_of("objective", objective, OBJECTIVES)
    precision = one_of("precision", precision, PRECISIONS)
    _known("solver", solver, SOLVERS)
    if latency_bound_us is not None and not latency_bound_us > 0:
        raise UsageError(f"a latency bound of {latency_bound_us:g} us", where="latency bound", allowed="a number > 0")
    if not time_limit_s >= 0:
        raise UsageError(f"a time limit of {time_limit_s:g} s", where="time limit", allowed="a number >= 0")
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    several = list(models) if isinstance(models, (list, tuple)) else [models]
    if not several:
        raise UsageError("there is no model to place")
    allowed = devices_of(platform, objective, devices)
    limits = limits or Limits(loadables_per_core=subgraphs_per_core(platform))
    costs = CostModel.load(platform, precision, power_mode, sparsity=sparsity)
    inputs = read_models(several, platform, precision, pins, allowed, use_unknown, shapes, batch, rates)
    if isinstance(profile, Profile):
        costs = costs.with_profile(profile)
    elif profile is not None:
        costs = with_measurements(costs, profile, [m.graph for m in inputs], layer_info)
    problem = problem_of(inputs, costs, allowed, limits, use_unknown)
    goal = Goal(objective, latency_bound_us)
    known = baselines(problem)
    solution = _solved(problem, goal, list(known.values()), time_limit_s, solver, gap)
    return assemble(inputs, problem, goal, solution, known, platform, costs, use_unknown)


def devices_of(platform: Platform, objective: str, asked: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """The devices that may be used, in the order of DEVICES.

    Raises:
        UsageError: a device that does not exist, or that the module does not have.
    """
    cores = platform.module.dla_cores if platform.has_dla else 0
    there = DEVICES[: 1 + cores]
    if asked is None:
        return there[:2] if objective in ("latency", "energy") else there
    wanted = [d.upper() for d in asked]
    for d in wanted:
        if d == "DLA" and cores:
            continue
        if d not in there:
            reason = platform.no_dla if d.startswith("DLA") and not cores else None
            raise UsageError(
                f"{d} cannot be used on {platform.module.title}" + (f": {reason}" if reason else ""),
                where="devices",
                allowed=", ".join(there),
            )
    chosen = {c for d in wanted for c in (there[1:] if d == "DLA" else (d,))}
    if not chosen:
        raise UsageError("no device is left to place on", where="devices", allowed=", ".join(there))
    return tuple(d for d in there if d in chosen)


def _solved(
    problem: Problem, goal: Goal, start: List[Tuple[str, ...]], time_limit_s: float, solver: str, gap: float
) -> Solution:
    nowhere = [i for i in problem.items if not i.allowed]
    if nowhere:
        first = nowhere[0]
        raise NoPlacement(
            f"{first.name} may stand on none of {', '.join(problem.devices)}"
            + (f" ({len(nowhere)} layers in all)" if len(nowhere) > 1 else "")
            + f": {first.reason}",
            hint="Allow the GPU.",
        )
    if goal.objective in ("throughput", "makespan") and len(problem.devices) > 1:
        start = start + stage_starts(problem, goal)
    solution = solve(problem, goal, start, time_limit_s, solver, gap)
    if solution.best is not None:
        return solution
    if goal.latency_bound_us is not None:
        free = solve(problem, Goal("latency"), start, time_limit_s, solver, gap)
        if free.best is not None:
            best = max(free.best.latency(m).latency_us for m in range(len(problem.models)))
            said = "the least" if free.optimal and len(problem.models) == 1 else "the best found"
            raise NoPlacement(
                f"no placement keeps every frame within {goal.latency_bound_us:g} us",
                hint=f"On {', '.join(problem.devices)} {said} is {best:.1f} us.",
            )
    if solution.timed_out:
        raise NoPlacement(
            f"no placement that keeps the limits was found within {time_limit_s:g} s", hint="Allow more time."
        )
    raise NoPlacement(
        f"no placement keeps the limits: {_limits_text(problem)}", hint="Allow the GPU, or loosen a limit."
    )


def _limits_text(problem: Problem) -> str:
    limits = {k: v for k, v in asdict(problem.limits).items() if v is not None}
    return f"devices {', '.join(problem.devices)}; " + ", ".join(f"{k} {v}" for k, v in limits.items())


def _known(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UsageError(f"unknown {what} {value!r}", where=what, allowed=", ".join(allowed))
