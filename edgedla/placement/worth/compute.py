"""Computes `Worth`: the GPU alone, TensorRT's own placement, and the best splits, at one precision or both."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional, Sequence, Tuple

from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.graph.batch import batch_of
from edgedla.placement.deadline import Deadline
from edgedla.placement.problem.baselines import after_cap, greedy
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import Goal
from edgedla.placement.problem.inputs import problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.placement.worth.own_model import baselines_of
from edgedla.placement.worth.value import BEST_FOR, SlowLayer, Way
from edgedla.placement.worth.ways import on_device, way_of
from edgedla.placement.worth.worth import Worth
from edgedla.regions.values import GivenCosts
from edgedla.rules.verdict import Support, Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import GPU

#: Most processor seconds of the search for frames/s; where little can be gained, SHORT_S. Most end after 0.1 to 0.5 s, within SEARCH_GAP.
#: Where the limit ends a search (DenseNet at FP16), a slower processor may find some percent less, which the gap says.
SEARCH_S, SHORT_S = 4.0, 0.08

#: The gap at which that search ends: a difference that changes no answer.
SEARCH_GAP = 0.03

#: Less of the GPU's time that could leave it is worth no search.
LITTLE = 0.1

#: Layers to name: so many times as slow on the DLA as on the GPU, each of such a share of the frame, together of such a share.
SLOWER, SLOW_EACH, SLOW = 5.0, 0.05, 0.2


class Worthiness:
    """Answers about one network on one platform, computed on demand.

    Args:
        costs: of the platform, at one precision.

    Raises:
        UsageError: open dims.
    """

    def __init__(self, graph: LayerGraph, platform: Platform, verdicts: Sequence[Verdict], costs: CostModel) -> None:
        self.costs, self.platform = costs, platform
        self.model = Model(graph, tuple(verdicts), {}, 1.0)
        self.problem = problem_on((self.model,), costs, platform, most_cores=1)
        self._alone = on_device(self.problem, GPU)

    def way(self, name: str) -> Way:
        """The GPU alone, or TensorRT's own placement on the first core."""
        cores = self.problem.cores if name == "tensorrt" else ()
        return self._way(name, self.problem, on_device(self.problem, cores[0]) if cores else self._alone)

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
        evaluation = on_device(problem, core)
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
        if not any(self.problem.cores[0] in item.allowed for item in self.problem.items):
            return tuple(replace(self.way("gpu"), name=objective) for objective in BEST_FOR)
        prepared = Prepared((self.model,), self.costs, self.platform, PlacementRequest(self.platform.module.id))
        prepared.problems[self.problem.devices, False] = self.problem
        ways = []
        for objective in BEST_FOR:
            goal = Goal(objective)
            problem = prepared.problem(goal)
            seconds = search_s if objective != "throughput" or _may_gain(problem) else min(search_s, SHORT_S)
            solution = prepared.solved(goal, Deadline.after(seconds), SEARCH_GAP if objective == "throughput" else None)
            evaluation = solution.best
            assert evaluation is not None, "without bounds the GPU alone is always legal"
            way = self._way(objective, problem, evaluation)
            ways.append(way if solution.optimal else replace(way, gap=solution.gap))
        return tuple(ways)

    def _way(self, name: str, problem: Problem, evaluation: Evaluation) -> Way:
        return way_of(name, self.model.graph, self.costs.precision, problem, evaluation, self._alone)


def costs_of(graph: LayerGraph, platform: Platform, precision: str, options: GivenCosts) -> CostModel:
    """The cost model for one network with these options.

    Raises:
        UsageError: an unknown power mode, a profile of another module or mode, or layers of an engine without their times.
        DocumentError: the profile cannot be read, or is of another network.
    """
    costs = CostModel.load(platform, precision, options.power_mode, clocks_locked=options.clocks_locked)
    if options.profile is None and options.layer_info is None:
        return costs
    from edgedla.costs.trt_profile import with_measurements

    return with_measurements(costs, options.profile, [graph], options.layer_info)


def worth_of(graph: LayerGraph, platform: Platform, verdicts: Sequence[Verdict], costs: CostModel, both: bool = False) -> Worth:
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
        beside = Worthiness(graph, platform, load_rules().check(graph, platform, other), costs.at(other))
        # An FP16 search where the DLA is made for INT8 would answer what nobody asked, in as much time as the whole check.
        ways += [*(beside.way(name) for name in names), *(beside.best() if both and platform.module.dla_version == 1 else ())]
    return Worth(
        costs.precision,
        tuple(ways),
        costs.power_mode,
        tuple(costs.notes),
        ways[0].parts if platform.has_dla else None,
        batch_of(graph),
        worthiness.slow(),
        worthiness.pinned(),
        idle_w=costs.energy.idle_w,
        energy_known=costs.energy.known,
        mode_text=costs.mode_text,
        budget_w=costs.energy.budget_w,
        unknown=any(v.support is Support.UNKNOWN for v in verdicts),
        baselines=baselines_of(graph, platform, costs),
    )


def _may_gain(problem: Problem) -> bool:
    """Whether the layers that may leave the GPU take LITTLE of its time or more."""
    gpu_us = [(item.time_us(GPU), len(item.allowed) > 1) for item in problem.items if GPU in item.allowed]
    return sum(us for us, may_leave in gpu_us if may_leave) >= LITTLE * sum(us for us, _ in gpu_us)
