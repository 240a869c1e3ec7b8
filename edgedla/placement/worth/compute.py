"""Computes `Worth`: the GPU alone, TensorRT's own placement, and the best splits, at one precision or both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Dict, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost, total
from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.graph.batch import batch_of
from edgedla.placement.deadline import Deadline
from edgedla.placement.prediction.breakdown import breakdown
from edgedla.placement.prediction.memory import alive_bytes, weight_bytes
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.evaluate import Evaluation, engine_device, evaluate
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.inputs import problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import STRUCTURE_SPREAD, Problem
from edgedla.placement.worth.value import ALIKE, SlowLayer, Spreads, Way
from edgedla.placement.worth.worth import Worth
from edgedla.regions.work import work_of
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import GPU

if TYPE_CHECKING:
    from edgedla.costs.trt_profile import PathLike

#: Most processor seconds of the search for frames/s; where little can be gained, SHORT_S. Most end after 0.1 to 0.5 s, within SEARCH_GAP;
#: latency and energy are proven in hundredths of a second.
SEARCH_S, SHORT_S = 2.0, 0.08

#: The gap at which that search ends: a difference that changes no answer.
SEARCH_GAP = 0.03

#: Less of the GPU's time that could leave it is worth no search.
LITTLE = 0.1

#: Layers to name: so many times as slow on the DLA as on the GPU, each of such a share of the frame, together of such a share.
SLOWER, SLOW_EACH, SLOW = 5.0, 0.05, 0.2

#: The devices whose load counts for the spread of a rate: those that are busy for such a share of the period.
BUSY = 0.9


@dataclass(frozen=True)
class CostOptions:
    """Options of predicted costs: the power mode, and files with measured times that replace predictions."""

    power_mode: Optional[str] = None
    profile: Optional[PathLike] = None
    layer_info: Optional[PathLike] = None


class Worthiness:
    """Answers about one network on one platform, computed on demand.

    Args:
        costs: of the platform, at one precision.
        most_cores: maximum number of DLA cores to consider; the ways "gpu" and "tensorrt" need one.

    Raises:
        UsageError: open dims.
    """

    def __init__(
        self,
        graph: LayerGraph,
        platform: Platform,
        verdicts: Sequence[Verdict],
        costs: CostModel,
        most_cores: int = 1,
    ) -> None:
        self.costs, self.platform = costs, platform
        self.model = Model(graph, tuple(verdicts), {}, 1.0)
        self.problem = problem_on((self.model,), costs, platform, most_cores=most_cores)
        self._evaluations: Dict[str, Evaluation] = {}

    def way(self, name: str) -> Way:
        """The GPU alone, or TensorRT's own placement on the first core."""
        problem = self.problem
        return self._way(name, problem, self._on(problem.cores[0] if name == "tensorrt" and problem.cores else GPU))

    def slow(self) -> Tuple[SlowLayer, ...]:
        """Layers that TensorRT puts on the DLA, slowest first: SLOWER times as slow there as on the GPU, and together a
        share of SLOW of the frame."""
        return tuple(layer for layer, _ in self._slow())

    def pinned(self) -> Optional[Way]:
        """TensorRT's own placement with the slow layers on the GPU; None without any."""
        slow = {i for _, i in self._slow()}
        if not slow:
            return None
        problem = self.problem.by_default()
        core = problem.cores[0]
        devices = [GPU if i in slow else d for i, d in enumerate(greedy(problem, (core,)))]
        return self._way("tensorrt", problem, evaluate(problem, after_cap(problem, tuple(devices))))

    def _slow(self) -> Tuple[Tuple[SlowLayer, int], ...]:
        problem = self.problem
        if not problem.cores:
            return ()
        core = problem.cores[0]
        evaluation = self._on(core)
        layers = [
            (SlowLayer(item.name, item.time_us(core), item.time_us(GPU)), i)
            for i, (item, device) in enumerate(zip(problem.items, evaluation.assignment))
            if device == core and GPU in item.allowed
        ]
        frame_us = evaluation.latency(0).latency_us
        layers = [(s, i) for s, i in layers if s.dla_us > max(SLOWER * s.gpu_us, SLOW_EACH * frame_us)]
        slow = sum(s.dla_us for s, _ in layers) > SLOW * frame_us
        return tuple(sorted(layers, key=lambda s: -s[0].dla_us)) if slow else ()

    def best(self, search_s: float = SEARCH_S) -> Tuple[Way, ...]:
        """What `place` finds for the latency, for frames/s and for energy; () without a DLA.

        Args:
            search_s: most processor seconds of each search.
        """
        from edgedla.placement.api import Prepared
        from edgedla.placement.request import PlacementRequest

        if not self.problem.cores:
            return ()
        prepared = {
            gap: Prepared((self.model,), self.costs, self.platform, PlacementRequest(self.platform.module.id, gap=gap))
            for gap in (None, SEARCH_GAP)
        }
        ways = []
        for objective in ("latency", "throughput", "energy"):
            goal = Goal(objective)
            if _gpu_alone_is_best(self.problem, objective):
                ways.append(replace(self.way("gpu"), name=objective))
                continue
            of_objective = prepared[SEARCH_GAP if objective == "throughput" else None]
            problem = of_objective.problem(goal)
            seconds = search_s if objective != "throughput" or _may_gain(problem) else min(search_s, SHORT_S)
            solution = of_objective.solved(goal, Deadline.after(seconds))
            evaluation = solution.best
            assert evaluation is not None, "without bounds the GPU alone is always legal"
            way = self._way(objective, problem, evaluation)
            ways.append(way if solution.optimal else replace(way, gap=solution.gap))
        return tuple(ways)

    def _way(self, name: str, problem: Problem, evaluation: Evaluation) -> Way:
        graph = self.model.graph
        live = [layer.index for layer in graph.layers if layer.index not in graph.unread]
        memory_bytes = weight_bytes(graph, live, self.costs.precision)
        memory_bytes += sum(alive_bytes(graph, live, self.costs.precision, packed=False))
        return Way(
            name,
            self.costs.precision,
            evaluation.latency(0),
            evaluation.period(problem),
            breakdown(problem, evaluation),
            _work_on_dla(graph, problem, evaluation),
            memory_bytes,
            ALIKE if name == "gpu" else _spreads(problem, evaluation, self._on(GPU)),
        )

    def _on(self, device: str) -> Evaluation:
        """Every layer on the device if it is allowed there, the rest on the GPU, as TensorRT does."""
        if device not in self._evaluations:
            problem = self.problem.by_default()
            self._evaluations[device] = evaluate(problem, after_cap(problem, greedy(problem, (device,))))
        return self._evaluations[device]


def costs_of(graph: LayerGraph, platform: Platform, precision: str, options: Optional[CostOptions] = None) -> CostModel:
    """The cost model for one network with these options.

    Raises:
        UsageError: an unknown power mode, a profile of another module or mode, or layers of an engine without their times.
        DocumentError: the profile cannot be read, or is of another network.
    """
    from edgedla.costs.trt_profile import require_profile, with_measurements

    options = options or CostOptions()
    require_profile(options.profile, options.layer_info)
    costs = CostModel.load(platform, precision, options.power_mode)
    if options.profile is None:
        return costs
    return with_measurements(costs, options.profile, [graph], options.layer_info)


def worth_of(
    graph: LayerGraph,
    platform: Platform,
    verdicts: Sequence[Verdict],
    costs: CostModel,
    both: bool = False,
) -> Worth:
    """All ways at the precision of `costs`, and the ways "gpu" and "tensorrt" at the other one; all of these too with `both`, on a module
    whose DLA is made for both.

    With measured costs the other precision is left out: a profile holds for one precision. So it is on a strongly typed release, where
    the model's types are its precision.
    """
    worthiness = Worthiness(graph, platform, verdicts, costs)
    names = ("tensorrt", "gpu") if platform.has_dla else ("gpu",)
    ways = [*(worthiness.way(name) for name in names), *worthiness.best()]
    if costs.profile is None and not platform.release.strongly_typed:
        from edgedla.rules import load_rules

        other = "fp16" if costs.precision == "int8" else "int8"
        verdicts = load_rules().check(graph, platform, other)
        beside = Worthiness(graph, platform, verdicts, CostModel.load(platform, other, costs.stated_mode))
        # An FP16 search where the DLA is made for INT8 would answer what nobody asked, in as much time as the whole check.
        ways += [
            *(beside.way(name) for name in names),
            *(beside.best() if both and platform.module.dla_version == 1 else ()),
        ]
    return Worth(
        costs.precision,
        tuple(ways),
        costs.power_mode,
        tuple(costs.notes),
        ways[0].parts if platform.has_dla else None,
        batch_of(graph),
        worthiness.slow(),
        worthiness.pinned(),
        idle_w=costs.idle_power_w,
        energy_known=costs.energy.known,
    )


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
        _of_ratio(cost, shared if d == GPU else Cost(), gpu)
        for d, cost in loads.items()
        if cost.latency_us >= BUSY * busiest
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


def _may_gain(problem: Problem) -> bool:
    """Whether the layers that may leave the GPU take LITTLE of its time or more."""
    gpu_us = [(item.time_us(GPU), len(item.allowed) > 1) for item in problem.items if GPU in item.allowed]
    return sum(us for us, may_leave in gpu_us if may_leave) >= LITTLE * sum(us for us, _ in gpu_us)


def _gpu_alone_is_best(problem: Problem, objective: str) -> bool:
    """Whether the start of one loadable already costs more than all layers together could gain on the DLA.

    A bound without a search; it leaves out transitions, which cost too. False proves nothing.
    """
    if any(GPU not in item.allowed for item in problem.items):
        return False
    core = problem.cores[0]
    if not any(core in item.allowed for item in problem.items):
        return True
    if objective == "throughput":
        return False

    def value(cost: Cost) -> float:
        return cost.latency_us if objective == "latency" else cost.energy_mj

    gains = sum(max(value(i.cost(GPU)) - value(i.cost(core)), 0.0) for i in problem.items if core in i.allowed)
    separated = sum(value(link.cost(GPU)) for link in problem.links)
    return gains + separated <= value(problem.loadable)
