"""Whether the DLA is worth it: costs on the GPU alone, as TensorRT places the model, of the best placement, and of streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.graph.batch import batch_of
from edgedla.placement.prediction.breakdown import Breakdown, breakdown
from edgedla.placement.prediction.lanes import lanes_of
from edgedla.placement.prediction.streams import GPU_SWITCH_US, side_by_side, together
from edgedla.placement.problem.baselines import after_cap, greedy, starts
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.inputs import problem_of, problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import DEVICES, GPU

if TYPE_CHECKING:
    from edgedla.costs.trt_profile import PathLike

#: Maximum seconds of a check for finding the best placement.
SEARCH_S = 2.0

#: Layers to name: so many times as slow on the DLA as on the GPU, each of such a share of the frame, together of such a share.
SLOWER, SLOW_EACH, SLOW = 5.0, 0.05, 0.2

TITLES: Mapping[str, str] = {
    "gpu": "on the GPU alone",
    "tensorrt": "as TensorRT places it",
    "best": "best placement",
}


@dataclass(frozen=True)
class Way:
    """One way to run the network, with its predicted cost; with a profile the cost uses measured times.

    Attributes:
        name: "gpu", "tensorrt" (one core, the rest on the GPU) or "best" (optimum of the latency on the GPU and one core).
        precision: "fp16" or "int8".
        cost: of one frame; energy is above idle.
        parts: gpu_us, dla_us and moving_us, whose sum is the latency.
        proven: for "best": whether it is the proven optimum under the cost model.
    """

    name: str
    precision: str
    cost: Cost
    parts: Breakdown
    proven: bool = False

    @property
    def title(self) -> str:
        return TITLES[self.name]

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "precision": self.precision,
            "latency_us": round(self.cost.latency_us, 1),
            "energy_mj": round(self.cost.energy_mj, 3),
            "spread": round(self.cost.spread, 3),
            "energy_spread": round(self.cost.energy_spread, 3),
            "basis": self.cost.basis,
            "gpu_us": round(self.parts.gpu_us, 1),
            "dla_us": round(self.parts.dla_us, 1),
            "moving_us": round(self.parts.moving_us, 1),
            "proven": self.proven,
        }


class Streams(NamedTuple):
    """Several streams of the model at the same time, one frame of each in flight. Frames per second, and of which streams."""

    devices: Tuple[str, ...]
    throughput_fps: float
    spread: float

    def to_dict(self) -> Dict[str, Any]:
        return {
            "devices": list(self.devices),
            "throughput_fps": round(self.throughput_fps, 1),
            "spread": round(self.spread, 3),
        }


class SlowLayer(NamedTuple):
    """A layer that TensorRT puts on the DLA, with its times there and on the GPU."""

    name: str
    dla_us: float
    gpu_us: float


@dataclass(frozen=True)
class Worth:
    """Costs that decide whether the DLA is worth it. `streams`: the GPU alone, then one stream per device; () without a DLA.

    `parts`: the breakdown of the way "tensorrt" at the chosen precision; None without a DLA. `batch`: of one frame. `slow`:
    layers that take a good part of that way's time and far less on the GPU.
    """

    ways: Tuple[Way, ...]
    streams: Tuple[Streams, ...]
    power_mode: Optional[str]
    notes: Tuple[str, ...]
    parts: Optional[Breakdown]
    batch: int = 1
    slow: Tuple[SlowLayer, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {
            "ways": [way.to_dict() for way in self.ways],
            "streams": [s.to_dict() for s in self.streams],
            "power_mode": self.power_mode,
            "notes": list(self.notes),
            "parts": None if self.parts is None else self.parts.to_dict(),
            "batch": self.batch,
            "slow": [layer._asdict() for layer in self.slow],
        }


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
        most_cores: int = 2,
    ) -> None:
        self.costs = costs
        self.model = Model(graph, tuple(verdicts), {}, 1.0)
        self.problem = problem_on((self.model,), costs, platform, most_cores=most_cores)
        self._evaluations: Dict[str, Evaluation] = {}

    def way(self, name: str) -> Way:
        """The GPU alone, or TensorRT's own placement on the first core."""
        problem = self.problem
        evaluation = self._on(problem.cores[0] if name == "tensorrt" and problem.cores else GPU)
        return Way(name, self.costs.precision, evaluation.latency(0), breakdown(problem, evaluation))

    def slow(self) -> Tuple[SlowLayer, ...]:
        """Layers that TensorRT puts on the DLA, slowest first: SLOWER times as slow there as on the GPU, and together a
        share of SLOW of the frame."""
        problem = self.problem
        if not problem.cores:
            return ()
        core = problem.cores[0]
        evaluation = self._on(core)
        layers = [
            SlowLayer(item.name, item.time_us(core), item.time_us(GPU))
            for item, device in zip(problem.items, evaluation.assignment)
            if device == core and GPU in item.allowed
        ]
        frame_us = evaluation.latency(0).latency_us
        layers = [s for s in layers if s.dla_us > max(SLOWER * s.gpu_us, SLOW_EACH * frame_us)]
        slow = sum(s.dla_us for s in layers) > SLOW * frame_us
        return tuple(sorted(layers, key=lambda s: -s.dla_us)) if slow else ()

    def best(self) -> Way:
        """The placement at the optimum of the latency on the GPU and one core; the GPU alone if a bound proves that."""
        problem = self.problem
        if not problem.cores or _gpu_alone_is_best(problem):
            return replace(self.way("gpu"), name="best", proven=True)
        from edgedla.placement.problem.goal import GAP, Goal
        from edgedla.placement.solvers.solve import solve

        pair = problem_of((self.model,), self.costs, DEVICES[:2], problem.limits)
        solution = solve(pair, Goal("latency"), starts(pair), SEARCH_S, "auto", GAP)
        if solution.best is None:
            return replace(self.way("gpu"), name="best")
        latency, parts = solution.best.latency(0), breakdown(pair, solution.best)
        return Way("best", self.costs.precision, latency, parts, solution.optimal)

    def streams(self) -> Tuple[Streams, ...]:
        """Frames per second of the GPU alone, and with one more stream on each DLA core."""
        problem = self.problem
        if not problem.cores:
            return ()
        answers = []
        for devices in ((GPU,), (GPU, *problem.cores)):
            lanes = [lanes_of(problem, self._on(device))[0] for device in devices]
            paces = side_by_side(lanes, self.costs.transfer_factor, GPU_SWITCH_US)
            throughput_fps = sum(1e6 / pace.frame_us for pace in paces if pace.frame_us > 0)
            spread = together(self._on(devices[-1]).latency(0), paces[-1]).spread
            answers.append(Streams(devices, throughput_fps, spread))
        return tuple(answers)

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
) -> Worth:
    """All ways at the precision of `costs`, and the ways "gpu" and "tensorrt" at the other precision.

    With measured costs the other precision is left out: a profile holds for one precision.
    """
    worthiness = Worthiness(graph, platform, verdicts, costs)
    names = ("tensorrt", "gpu") if platform.has_dla else ("gpu",)
    ways = [worthiness.way(name) for name in names]
    if platform.has_dla:
        ways.append(worthiness.best())
    if costs.profile is None:
        from edgedla.rules import load_rules

        other = "fp16" if costs.precision == "int8" else "int8"
        verdicts = load_rules().check(graph, platform, other)
        beside = Worthiness(graph, platform, verdicts, CostModel.load(platform, other, costs.power_mode or None), 1)
        ways += [beside.way(name) for name in names]
    parts = ways[0].parts if platform.has_dla else None
    return Worth(
        tuple(ways),
        worthiness.streams(),
        costs.power_mode,
        tuple(costs.notes),
        parts,
        batch_of(graph),
        worthiness.slow(),
    )


def _gpu_alone_is_best(problem: Problem) -> bool:
    """Whether the start of one loadable already costs more than all layers together could gain on the DLA.

    A bound without a search; it leaves out transitions, which cost time too. False proves nothing.
    """
    if any(GPU not in item.allowed for item in problem.items):
        return False
    core = problem.cores[0]
    gains = sum(max(i.time_us(GPU) - i.time_us(core), 0.0) for i in problem.items if core in i.allowed)
    separated = sum(link.cost(GPU).latency_us for link in problem.links)
    return gains + separated <= problem.loadable.latency_us
