"""Makes the Placement document of a solution: names in place of indices, figures, baselines, reasons, timeline."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost, total
from edgedla.costs.model import CostModel
from edgedla.placement.prediction.one_in_flight import OneInFlight
from edgedla.placement.problem.baselines import TITLES, size
from edgedla.placement.problem.doubts import doubts
from edgedla.placement.problem.evaluate import Evaluation, engine_device, evaluate, worth
from edgedla.placement.problem.goal import Goal, Solution, bounds_broken
from edgedla.placement.problem.model import Model, import_notes
from edgedla.placement.problem.problem import Limits, Problem
from edgedla.placement.problem.schedule import Schedule, in_turn, shortest_schedule, steady_state
from edgedla.placement.problem.validate import limits_broken
from edgedla.placement.result import placement as p
from edgedla.placement.result.reasons import reasons
from edgedla.placement.solvers.solve import MOST_ITEMS
from edgedla.placement.worth.ways import on_device
from edgedla.regions.transitions import BORDER_BYTES
from edgedla.targets import Platform
from edgedla.text.printable import short, slower
from edgedla.vocabulary import GPU


def assemble(
    models: Sequence[Model],
    problem: Problem,
    goal: Goal,
    solution: Solution,
    baselines: Mapping[str, Tuple[str, ...]],
    platform: Platform,
    costs: CostModel,
    use_unknown: bool,
    one_in_flight: Optional[OneInFlight] = None,
) -> p.Placement:
    """The document of a solution that has a best assignment.

    Args:
        one_in_flight: paces of streams with one frame in flight; None for many.
    """
    from edgedla.placement.worth.own_model import against_gpu
    from edgedla.rules import load_rules

    best = solution.best
    assert best is not None
    frame_us: Tuple[float, ...] = ()
    if one_in_flight is not None:
        frame_us = tuple(pace.frame_us for pace in one_in_flight.paces(problem, best))
    if one_in_flight is not None or goal.objective == "makespan":
        schedule, kind = shortest_schedule(problem, best), "schedule"
    elif goal.objective == "throughput":
        (schedule, frame_us), kind = steady_state(problem, best), "period"
    else:
        schedule, kind = in_turn(problem, best), "frame"
    return p.Placement(
        platform=platform.to_dict(),
        precision=costs.precision,
        power_mode=costs.power_mode,
        rules_version=load_rules().version,
        costs=costs.to_dict(),
        objective=goal.objective,
        latency_bound_us=goal.latency_bound_us,
        devices=problem.devices,
        limits=asdict(problem.limits),
        use_unknown=use_unknown,
        models=tuple(_model(m, model, problem, best, goal.objective, costs.precision) for m, model in enumerate(models)),
        figures=figures_of(problem, best, one_in_flight=one_in_flight),
        frame_latency_us=frame_us,
        baselines=(
            *_own_model(models, problem, platform, costs),
            *(_baseline(problem, goal, name, one_in_flight, assignment) for name, assignment in baselines.items()),
        ),
        timeline=_timeline(kind, schedule, problem),
        proof=p.Proof(
            solution.solver,
            solution.value,
            solution.bound,
            solution.gap,
            solution.optimal,
            solution.timed_out,
            solution.one_core_per_model,
        ),
        frames_per_second=goal.frames_per_second,
        in_flight="many" if one_in_flight is None else "one",
        one_process=one_in_flight is not None and one_in_flight.one_process,
        against_gpu=against_gpu(models, problem, best, platform, costs),
        notes=(
            *_notes(models, problem, best, platform, goal, solution.optimal),
            *doubts(problem, best, models, costs),
            *costs.notes,
            *_stopped(solution, len(problem.items)),
        ),
        solve_time_s=solution.solve_time_s,
        rounds=solution.rounds,
    )


def figures_of(
    problem: Problem, evaluation: Evaluation, is_legal: bool = True, one_in_flight: Optional[OneInFlight] = None
) -> p.Figures:
    """Predictions of an assignment; without a makespan if it is illegal."""
    models = range(len(problem.models))
    return p.Figures(
        latency=total(evaluation.latency(m) for m in models),
        period=one_in_flight.period(problem, evaluation) if one_in_flight else evaluation.period(problem),
        energy=evaluation.energy(),
        makespan_us=shortest_schedule(problem, evaluation).length_us if is_legal and len(models) > 1 else None,
        loads={d: evaluation.load(problem, d) for d in problem.devices},
        regions={c: sum(r.core == c for r in evaluation.regions) for c in problem.cores},
        busy_gpu_us=worth(problem, evaluation, "gpu-time"),
    )


def _own_model(models: Sequence[Model], problem: Problem, platform: Platform, costs: CostModel) -> Tuple[p.Baseline, ...]:
    """The user's own model on the GPU alone, where `fix` made the one that is placed; its spreads are those of this one there."""
    from edgedla.placement.worth.own_model import baselines_of

    own = [x for m in models for x in baselines_of(m.graph, platform, costs) if x.precision == costs.precision]
    if len(models) > 1 or not own or GPU not in problem.devices:
        return ()
    here = on_device(problem, GPU).latency(0)
    cost = replace(here, latency_us=own[0].latency_us, energy_mj=own[0].energy_mj)
    figures = p.Figures(cost, cost, cost, None, {GPU: cost}, dict.fromkeys(problem.cores, 0), cost.latency_us)
    return (p.Baseline("own", TITLES["own"], figures, ()),)


def _baseline(
    problem: Problem, goal: Goal, name: str, one_in_flight: Optional[OneInFlight], assignment: Sequence[str]
) -> p.Baseline:
    title, problem = _title(problem, name), problem.by_default()
    e = evaluate(problem, assignment)
    broken = [v.message for v in limits_broken(problem, e.regions)]
    broken += bounds_broken(problem, e, goal)
    return p.Baseline(name, title, figures_of(problem, e, not broken, one_in_flight), tuple(broken))


def _model(m: int, model: Model, problem: Problem, best: Evaluation, objective: str, precision: str) -> p.PlacedModel:
    graph = model.graph
    items = problem.items_of(m)
    item_of = {layer: i for i in items for layer in problem.items[i].layers}
    regions = [r for r in best.regions if r.model == m]
    region_of = {i: k for k, r in enumerate(regions) for i in r.items}
    why = reasons(problem, best, objective)
    caller = engine_device(problem, best.assignment, m)
    layers: List[p.PlacedLayer] = []
    device_of: Dict[int, str] = {}
    for layer in graph.layers:
        i = item_of.get(layer.index)
        costs: Mapping[str, Cost] = {}
        if i is None:
            # A folded layer is listed with the device of the layer that feeds it.
            device = next((device_of[x] for x in graph.predecessors(layer.index)), GPU)
            region, reason = None, ("folded", p.WHY["folded"])
        else:
            item, device = problem.items[i], best.assignment[i]
            region, reason, costs = region_of.get(i), why[i], item.costs if layer.index == item.layers[0] else {}
        device_of[layer.index] = device
        layers.append(p.PlacedLayer(layer.index, layer.name, layer.type, device, region, *reason, costs))
    return p.PlacedModel(
        name=graph.name,
        sha256=graph.sha256,
        rate=model.rate,
        inputs={name: graph.tensors[name].dims for name in graph.inputs},
        layers=tuple(layers),
        regions=tuple(
            p.PlacedRegion(
                k,
                r.core,
                tuple(sorted(x for i in r.items for x in problem.items[i].layers)),
                size(problem, r.items),
                total([*(problem.items[i].cost(r.core) for i in r.items), problem.loadable]),
            )
            for k, r in enumerate(regions)
        ),
        transitions=tuple(
            p.PlacedTransition(
                problem.flows[c.flow].name,
                c.source,
                c.target,
                graph.tensors[problem.flows[c.flow].name].size_bytes(BORDER_BYTES[precision]),
                c.cost,
            )
            for c in best.crossings
            if problem.flows[c.flow].model == m
        ),
        latency=best.latency(m),
        call=None if caller is None else p.DeviceCost(caller, problem.engine),
        torn=_separation_costs(m, problem, best),
    )


def _separation_costs(m: int, problem: Problem, best: Evaluation) -> Tuple[p.DeviceCost, ...]:
    by_device: Dict[str, List[Cost]] = {}
    for index, device in best.separations:
        link = problem.links[index]
        if problem.items[link.consumer].model == m:
            by_device.setdefault(device, []).append(link.cost(device))
    return tuple(p.DeviceCost(device, total(costs)) for device, costs in sorted(by_device.items()))


def _title(problem: Problem, name: str) -> str:
    """The baseline's title, with the names of the cores that may be used."""
    title = TITLES[name]
    return title if "DLA0" in problem.cores else title.replace("DLA0, then DLA1", "DLA1").replace("DLA0", "DLA1")


def _timeline(kind: str, schedule: Schedule, problem: Problem) -> p.Timeline:
    return p.Timeline(
        kind,
        schedule.length_us,
        tuple(
            p.TimelineBar(
                b.device,
                b.model,
                b.segment,
                b.start_us,
                b.end_us,
                b.frame,
                tuple(sorted(x for i in b.items for x in problem.items[i].layers)),
            )
            for b in schedule.bars
        ),
    )


def _stopped(solution: Solution, items: int) -> Tuple[str, ...]:
    notes = []
    if solution.too_large:
        notes.append(
            f"{items} items are too many for a search (up to {MOST_ITEMS}): this is the best of TensorRT's defaults, whole "
            "models on a device, and balanced stages"
        )
    if solution.timed_out:
        notes.append("stopped by the time limit: another run may find another placement")
    return tuple(notes)


def _notes(
    models: Sequence[Model], problem: Problem, best: Evaluation, platform: Platform, goal: Goal, proven: bool
) -> Tuple[str, ...]:
    notes = [platform.release.note] if platform.release.note else []
    if not platform.has_dla:
        known = "unknown whether there is a DLA" if platform.dla_unknown else "no DLA on this platform"
        notes.append(f"{known}, so everything runs on the GPU: {platform.no_dla}")
    elif not problem.cores:
        notes.append("no DLA core may be used, so everything runs on the GPU")
    else:
        for m, model in enumerate(models):
            if not any(problem.items[i].legal for i in problem.items_of(m)):
                notes.append(f"no layer of {model.graph.name} has a DLA verdict, so all of it runs on the GPU")
        if not best.regions and any(len(i.allowed) > 1 for i in problem.items):
            tight = problem.limits != Limits() or goal.is_bounded
            notes.append(
                "nothing runs on the DLA: every placement with it costs more under the cost model"
                + (", or breaks a limit or the bound" if tight else "")
                if proven
                else "nothing runs on the DLA in the best placement found; that none with it is better is not proven"
            )
    if goal.objective == "gpu-time" and best.regions and all(GPU in item.allowed for item in problem.items):
        notes.append(_freed(problem, best))
    if len(best.engines) > 1 and not goal.one_in_flight:
        factors = {d: f"{problem.factor(best.engines, d):.2f}" for d in problem.devices if d in best.engines}
        slow = ", ".join(f"{d} {factor}x" for d, factor in factors.items() if factor != "1.00")
        if slow:
            notes.append(f"with frames in flight on all engines, their memory traffic slows them down: {slow}")
    notes += import_notes(models)
    return tuple(notes)


def _freed(problem: Problem, best: Evaluation) -> str:
    """What the DLA buys under "gpu-time", and for how much time of a frame."""
    alone = evaluate(problem, (GPU,) * len(problem.items))
    kept, frame = (worth(problem, best, name) / worth(problem, alone, name) for name in ("gpu-time", "latency"))
    freed = (
        f"{100 * (1 - kept):.0f} % of the GPU's time per frame ({short(worth(problem, alone, 'gpu-time'))} us with the GPU alone)"
    )
    return f"the DLA frees {freed}, {slower(frame)} per frame"
