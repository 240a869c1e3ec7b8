"""Is the DLA worth it: a frame on the GPU alone, as TensorRT places it, at best, at the other precision, on all engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from edgedla.costs.cost import Cost
from edgedla.costs.model import CostModel
from edgedla.costs.trt_profile import PathLike, with_measurements
from edgedla.graph import LayerGraph
from edgedla.placement.prediction import Predictor
from edgedla.placement.prediction.breakdown import Breakdown, breakdown
from edgedla.placement.problem.baselines import after_cap, baselines, greedy
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.goal import GAP, Goal
from edgedla.placement.problem.inputs import problem_of
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform
from edgedla.vocabulary import DEVICES, GPU

#: Seconds that looking for the best placement may take in a check.
SEARCH_S = 2.0

TITLES: Mapping[str, str] = {
    "gpu": "on the GPU alone",
    "tensorrt": "as TensorRT places it",
    "best": "best placement",
}


@dataclass(frozen=True)
class Way:
    """One way to run the network, with its predicted cost. It rests on measurements only where a profile was given.

    Attributes:
        name: "gpu", "tensorrt" (one core, the rest on the GPU) or "best" (least latency on the GPU and one core).
        precision: "fp16" or "int8".
        cost: of one frame; energy is above idle.
        parts: gpu_us, dla_us and moving_us, which add up to the latency.
        proven: of "best": no placement is faster under the cost model.
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


@dataclass(frozen=True)
class Streams:
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


@dataclass(frozen=True)
class Worth:
    """What a buyer asks. `streams`: the GPU alone, then one stream on each engine; () without a DLA.

    `parts` is the breakdown of the way "tensorrt" at the precision that was asked for; None without a DLA.
    """

    ways: Tuple[Way, ...]
    streams: Tuple[Streams, ...]
    power_mode: Optional[str]
    notes: Tuple[str, ...]
    parts: Optional[Breakdown]

    def to_dict(self) -> Dict[str, Any]:
        return {
            "ways": [way.to_dict() for way in self.ways],
            "streams": [s.to_dict() for s in self.streams],
            "power_mode": self.power_mode,
            "notes": list(self.notes),
            "parts": None if self.parts is None else self.parts.to_dict(),
        }


@dataclass(frozen=True)
class CostOptions:
    """What predicted costs hold for: the power mode, and files with measured times that replace predictions."""

    power_mode: Optional[str] = None
    profile: Optional[PathLike] = None
    layer_info: Optional[PathLike] = None


class Worthiness:
    """One network on one platform; each answer is worked out when it is asked for.

    Raises:
        UsageError: open dims, an unknown power mode, or a profile of another module or mode.
        DocumentError: the profile cannot be read, or is of another network.
    """

    def __init__(
        self,
        graph: LayerGraph,
        platform: Platform,
        precision: str,
        verdicts: Sequence[Verdict],
        options: Optional[CostOptions] = None,
    ) -> None:
        options = options or CostOptions()
        costs = CostModel.load(platform, precision, options.power_mode)
        if options.profile is not None:
            costs = with_measurements(costs, options.profile, [graph], options.layer_info)
        self.platform, self.precision, self.costs = platform, precision, costs
        self.model = Model(graph, tuple(verdicts), {}, 1.0)
        self.predictor = Predictor((self.model,), costs, platform)

    def way(self, name: str) -> Way:
        """The GPU alone, or TensorRT's own placement on the first core."""
        evaluation = self._evaluation(name)
        problem = self.predictor.problem
        return Way(name, self.precision, evaluation.latency(0), breakdown(problem, evaluation))

    def best(self) -> Way:
        """The placement of least latency on the GPU and one core; the GPU alone where that is proven without a search."""
        problem = self.predictor.problem
        if not problem.cores or _gpu_alone_is_best(problem):
            return replace(self.way("gpu"), name="best", proven=True)
        from edgedla.placement.solvers.solve import solve

        pair = problem_of((self.model,), self.costs, DEVICES[:2], problem.limits)
        solution = solve(pair, Goal("latency"), list(baselines(pair).values()), SEARCH_S, "auto", GAP)
        if solution.best is None:
            return replace(self.way("gpu"), name="best")
        latency, parts = solution.best.latency(0), breakdown(pair, solution.best)
        return Way("best", self.precision, latency, parts, solution.optimal)

    def streams(self) -> Tuple[Streams, ...]:
        """Frames per second of the GPU alone, and with one more stream on each DLA core."""
        problem = self.predictor.problem
        if not problem.cores:
            return ()
        answers = []
        for devices in ((GPU,), (GPU, *problem.cores)):
            prediction = self.predictor.copies(devices)
            answers.append(Streams(devices, prediction.throughput_fps, prediction.streams[-1].together.spread))
        return tuple(answers)

    def _evaluation(self, name: str) -> Evaluation:
        problem = self.predictor.problem
        device = problem.cores[0] if name == "tensorrt" and problem.cores else GPU
        return evaluate(problem, after_cap(problem, greedy(problem, (device,))))


def worth_of(
    graph: LayerGraph,
    platform: Platform,
    precision: str,
    verdicts: Sequence[Verdict],
    options: Optional[CostOptions] = None,
) -> Worth:
    """Everything about the network at `precision`, and the two plain ways at the other precision beside it."""
    asked = Worthiness(graph, platform, precision, verdicts, options)
    names = ("tensorrt", "gpu") if platform.has_dla else ("gpu",)
    ways = [asked.way(name) for name in names]
    if platform.has_dla:
        ways.append(asked.best())
    if options is None or options.profile is None:
        from edgedla.rules import load_rules

        other = "fp16" if precision == "int8" else "int8"
        beside = Worthiness(graph, platform, other, load_rules().check(graph, platform, other), options)
        ways += [beside.way(name) for name in names]
    parts = ways[0].parts if platform.has_dla else None
    costs = asked.costs.to_dict()
    return Worth(tuple(ways), asked.streams(), costs.get("power_mode"), tuple(asked.costs.notes), parts)


def _gpu_alone_is_best(problem: Problem) -> bool:
    """Whether one loadable's start already costs more than all layers together could gain on the DLA.

    A bound without a search: crossings, which cost time too, are left out. False where it proves nothing.
    """
    if any(GPU not in item.allowed for item in problem.items):
        return False
    core = problem.cores[0]
    gains = sum(max(i.time_us(GPU) - i.time_us(core), 0.0) for i in problem.items if core in i.allowed)
    separated = sum(link.cost(GPU).latency_us for link in problem.links)
    return gains + separated <= problem.loadable.latency_us
