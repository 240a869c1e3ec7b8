"""Predicts the figures of a network on a platform: the one place where fixes use importer, rules, regions and costs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgedla.costs.model import CostModel
from edgedla.errors import EdgedlaError, ModelError, ModelTooLarge
from edgedla.fixes.network.library import onnx_ir
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.importers.model_file.onnx_file import graph_size, read
from edgedla.io.files import sha256_of_bytes
from edgedla.placement.prediction.streams import lane_of, side_by_side
from edgedla.placement.pricer import Pricer
from edgedla.placement.problem.problem import Problem
from edgedla.placement.worth.ways import on_device
from edgedla.regions import check_graph
from edgedla.regions.float16_model import as_built
from edgedla.regions.report import CheckReport
from edgedla.regions.values import LEAST_GAIN
from edgedla.rules import load_rules
from edgedla.targets import Platform
from edgedla.vocabulary import GPU

#: `edgedla fix --for` -> `edgedla check --mode`.
PURPOSES: Dict[str, str] = {"hybrid": "fallback", "strict": "strict", "standalone": "standalone"}


#: Maximum number of layers: the network is imported, checked and costed again for every group of rewrites, some 2 ms per
#: layer. Real networks have some thousands of layers.
MOST_LAYERS = 6_000
#: A share of the multiply-accumulates that rewrites of one form into another may change by themselves.
ROUNDING = 1e-3
#: Of numbers in documents, behind the point.
DIGITS = {"share_macs_dla": 6, "latency_us": 1, "energy_mj": 3, "period_us": 1, "gpu_us": 1, "busy_gpu_us": 1}


def require_size(model: Any, trt: Tuple[int, ...]) -> Any:
    """Refuses a model that is too large, before onnx-ir reads and checks it and inlines functions. Returns it, a path or bytes as OnnxFile.

    Raises:
        EnvironmentMissing: onnx-ir is missing, or Python is too old. Checked first, whatever the model is.
        ModelTooLarge: more than MOST_LAYERS layers, or beyond a limit of the importer.
        ModelError: the model cannot be read.
    """
    onnx_ir()
    if not isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        return model
    source = read(model, hashed=False)
    if source.model.functions or graph_size(source.model.graph) > MOST_LAYERS:
        try:
            require_layers(load_onnx(source, trt=trt))
        except ModelTooLarge:
            raise
        except ModelError:
            # The parser refuses the model, which a rewrite may cure.
            pass
    return source


def require_layers(graph: LayerGraph) -> None:
    """Refuses a graph with too many layers.

    Raises:
        ModelTooLarge: more than MOST_LAYERS.
    """
    if len(graph.layers) > MOST_LAYERS:
        raise ModelTooLarge(
            f"{len(graph.layers)} layers are too many to fix",
            where=graph.name,
            allowed=f"at most {MOST_LAYERS}",
            hint="`edgedla check` names the remedies of a larger network; fix its parts.",
        )


@dataclass(frozen=True)
class Figures:
    """Predicted figures of a network on one platform.

    Attributes:
        layers: number of layers that run on a device, without folded ones.
        loadables: as TensorRT places the network, after its cap. dropped: those that the cap leaves on the GPU.
        latency_us, energy_mj: of one frame, as TensorRT places the network; energy above idle.
        period_us: time per frame of the busiest device, with many frames in flight.
        gpu_us: latency of one frame with everything on the GPU.
        busy_gpu_us: time of the GPU for one frame, as TensorRT places the network.
        passes: whether the strict or standalone build would succeed; None if unknown, or for hybrid builds.
        offenders: layers that fail that build.
        refused: why TensorRT's parser refuses the network, which then has no other figures; "" if it does not.
    """

    layers: int = 0
    layers_dla: int = 0
    layers_unknown: int = 0
    macs: int = 0
    share_macs_dla: float = 0.0
    loadables: int = 0
    dropped: int = 0
    transitions: int = 0
    latency_us: Optional[float] = None
    energy_mj: Optional[float] = None
    period_us: Optional[float] = None
    gpu_us: Optional[float] = None
    busy_gpu_us: Optional[float] = None
    passes: Optional[bool] = None
    offenders: Tuple[str, ...] = ()
    refused: str = ""

    @property
    def candidates(self) -> int:
        """Loadables before the cap."""
        return self.loadables + self.dropped

    def to_dict(self) -> Dict[str, Any]:
        values = {**vars(self), "offenders": list(self.offenders)}
        for name, digits in DIGITS.items():
            values[name] = None if values[name] is None else round(values[name], digits)
        return values


class _Judged(NamedTuple):
    figures: Figures
    last: Optional[Tuple[LayerGraph, CheckReport]] = None
    problem: Optional[Problem] = None


@dataclass
class Judge:
    """Predicts figures of networks on one platform. `last`: graph and report of the last network."""

    platform: Platform
    precision: str
    purpose: str = "hybrid"
    power_mode: Optional[str] = None
    last: Optional[Tuple[LayerGraph, CheckReport]] = None
    _costs: Optional[CostModel] = field(default=None, repr=False)
    _judged: Dict[str, _Judged] = field(default_factory=dict, repr=False)

    def figures(self, model: Any, with_gpu: bool = False) -> Figures:
        """The figures of an onnx.ModelProto as a build takes it, whose weights are not needed. `Figures.refused`: the parser refuses it.

        Args:
            with_gpu: also predict the time with everything on the GPU, which the search does not need.

        Raises:
            UsageError: unknown power mode. ModelError: more than MOST_LAYERS layers.
        """
        # The network as it is and the one that is kept are asked for twice, the second time with the GPU's time.
        key = sha256_of_bytes(model.SerializeToString(deterministic=True))
        if key not in self._judged:
            self._judged[key] = self._judge(model)
        figures, self.last, problem = self._judged[key]
        if not with_gpu or problem is None:
            return figures
        return replace(figures, gpu_us=on_device(problem, GPU).latency(0).latency_us)

    def _judge(self, model: Any) -> _Judged:
        try:
            model = as_built(model, self.platform, PURPOSES[self.purpose])
            graph = load_onnx(model, trt=self.platform.release.trt, as_trained=True)
        except ModelTooLarge:
            raise
        except ModelError as e:
            return _Judged(Figures(refused=e.what))
        require_layers(graph)
        report = check_graph(graph, self.platform, self.precision, PURPOSES[self.purpose], ranked=False)
        return self._with_times(counted(report), graph, report)

    def gpu_alone(self, earlier: str) -> str:
        """The figures of the last network on the GPU alone, as metadata of what is made from it; "" without costs.

        Args:
            earlier: the metadata that it has itself, as a result of `fix`.
        """
        from edgedla.placement.check_cost import has_sizes
        from edgedla.placement.worth.own_model import to_metadata

        # An input may leave a size open that no layer's output has.
        if self.last is None or self._costs is None or not has_sizes(self.last[0]):
            return ""
        graph = replace(self.last[0], gpu_alone=earlier) if earlier else self.last[0]
        return to_metadata(graph, self.platform, self._costs)

    def _with_times(self, counts: Figures, graph: LayerGraph, report: CheckReport) -> _Judged:
        if not graph.layers or any(graph.tensors[t].is_dynamic for layer in graph.layers for t in layer.outputs):
            # Open dims give no cost.
            return _Judged(counts, (graph, report))
        if self._costs is None:
            self._costs = CostModel.load(self.platform, self.precision, self.power_mode)
        verdicts = report.verdicts or load_rules().check(graph, self.platform, self.precision)
        try:
            problem = Pricer(graph, verdicts, self.platform, self._costs).problem()
        except EdgedlaError:
            # Without costs the result has only the counts.
            return _Judged(counts, (graph, report))
        evaluation = on_device(problem, problem.cores[0] if problem.cores else GPU)
        cost = evaluation.latency(0)
        (pace,) = side_by_side([lane_of(problem, evaluation, 0)], self._costs.transfer_factor)
        timed = replace(
            counts,
            latency_us=cost.latency_us,
            energy_mj=cost.energy_mj,
            period_us=cost.latency_us * max(pace.busy.values(), default=1.0),
            busy_gpu_us=cost.latency_us * pace.busy.get(GPU, 0.0),
        )
        return _Judged(timed, (graph, report), problem)


def counted(report: CheckReport, latency_us: Optional[float] = None) -> Figures:
    """The figures of a network that a check of it holds; `latency_us`: of one frame, as TensorRT places it."""
    totals = report.totals
    return Figures(
        layers=totals.layers_dla + totals.layers_gpu,
        layers_dla=totals.layers_dla,
        layers_unknown=totals.layers_unknown,
        macs=totals.macs,
        share_macs_dla=totals.share_macs_dla,
        loadables=totals.regions,
        dropped=totals.regions_dropped,
        transitions=totals.transitions,
        latency_us=latency_us,
        passes=report.strict.passes if report.strict else None,
        offenders=report.strict.offenders if report.strict else (),
    )


def pays(before: Figures, after: Figures, purpose: str, objective: str = "latency") -> bool:
    """Whether the rewrites improve the network enough; decides the answers of `edgedla fix` and `edgedla check`.

    A strict or standalone build first has to pass, or to come nearer to passing.
    """
    if before.refused or after.refused:
        return bool(before.refused) and not after.refused
    if purpose != "hybrid":
        ways = [(not figures.passes, len(figures.offenders)) for figures in (before, after)]
        if ways[0] != ways[1]:
            return ways[1] < ways[0]
    elif leaves_dla(before, after):
        return False
    value, lower = value_of(before, objective), value_of(after, objective)
    if value == float("inf"):
        # Without costs the number of loadables decides.
        value, lower = float(before.candidates), float(after.candidates)
    return lower < value and lower <= value * (1 - LEAST_GAIN)


def leaves_dla(before: Figures, after: Figures) -> bool:
    """Whether work leaves the DLA. That often saves time, for the GPU is faster, but nobody asks `fix` for it."""
    return after.share_macs_dla < before.share_macs_dla - ROUNDING


def value_of(figures: Figures, objective: str) -> float:
    """The value of the objective; infinite if it is unknown, or if the parser refuses the network."""
    if figures.refused:
        return float("inf")
    value = {
        "latency": figures.latency_us,
        "throughput": figures.period_us,
        "energy": figures.energy_mj,
        "gpu-time": figures.busy_gpu_us,
        "loadables": float(figures.candidates),
    }[objective]
    return float("inf") if value is None else value
