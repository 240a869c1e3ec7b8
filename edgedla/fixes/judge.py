"""What a form of the network is worth on a platform: the one place where fixes ask import, rules, regions and costs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Optional, Tuple

from edgedla.costs.model import CostModel
from edgedla.errors import EdgedlaError, ModelError, ModelTooLarge
from edgedla.fixes.network.library import onnx_ir
from edgedla.graph import LayerGraph
from edgedla.importers import load_onnx
from edgedla.importers.model_file.onnx_file import graph_size, read
from edgedla.placement.prediction.predict import Predictor
from edgedla.placement.problem.model import Model
from edgedla.regions import check_graph
from edgedla.regions.report import CheckReport
from edgedla.regions.values import LEAST_GAIN
from edgedla.rules import load_rules
from edgedla.targets import Platform

#: Ways to build, by what `edgedla fix --for` calls them, and the mode that `check` calls them.
PURPOSES: Dict[str, str] = {"hybrid": "fallback", "strict": "strict", "standalone": "standalone"}


#: Layers of a network to fix: it is imported, checked and priced again for every group of rewrites, some 2 ms per layer in all.
#: Real ones have some thousands.
MOST_LAYERS = 6_000


def require_size(model: Any, trt: Tuple[int, ...]) -> None:
    """What is too large is said before onnx-ir reads it, checks it and calls its functions.

    Raises:
        EnvironmentMissing: onnx-ir is missing, or Python is too old: said first, whatever the model is.
        ModelTooLarge: more than MOST_LAYERS layers, or beyond a limit of the importer.
        ModelError: no readable model.
    """
    onnx_ir()
    if not isinstance(model, (str, os.PathLike, bytes, bytearray, memoryview)):
        return
    source = read(model)
    if not source.model.functions and graph_size(source.model.graph) <= MOST_LAYERS:
        return
    try:
        graph = load_onnx(source, trt=trt)
    except ModelTooLarge:
        raise
    except ModelError:
        # A refusal of the parser, which a rewrite may cure.
        return
    require_layers(graph)


def require_layers(graph: LayerGraph) -> None:
    """Raises:
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
    """A network on one platform, predicted.

    Attributes:
        layers: that run on a device; folded ones do not count.
        loadables: candidate subgraphs before TensorRT's cap; `dropped` by it.
        latency_us, energy_mj: of one frame as TensorRT places it by itself; energy is above idle.
        period_us: of a stream with many frames in flight: time that the busiest device needs per frame.
        gpu_us: one frame with everything on the GPU.
        passes: whether the strict or standalone build would succeed; None where unknown, or not asked for.
        offenders: layers that stop it.
        refused: why TensorRT's parser takes no such network; then there are no other figures.
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
    passes: Optional[bool] = None
    offenders: Tuple[str, ...] = ()
    refused: str = ""

    def to_dict(self) -> Dict[str, Any]:
        def rounded(number: Optional[float], digits: int) -> Optional[float]:
            return None if number is None else round(number, digits)

        return {
            "layers": self.layers,
            "layers_dla": self.layers_dla,
            "layers_unknown": self.layers_unknown,
            "macs": self.macs,
            "share_macs_dla": round(self.share_macs_dla, 6),
            "loadables": self.loadables,
            "dropped": self.dropped,
            "transitions": self.transitions,
            "latency_us": rounded(self.latency_us, 1),
            "energy_mj": rounded(self.energy_mj, 3),
            "period_us": rounded(self.period_us, 1),
            "gpu_us": rounded(self.gpu_us, 1),
            "passes": self.passes,
            "offenders": list(self.offenders),
            "refused": self.refused,
        }


@dataclass
class Judge:
    """Figures of networks on one platform. `last` is the graph and report of the last answer."""

    platform: Platform
    precision: str
    purpose: str = "hybrid"
    power_mode: Optional[str] = None
    last: Optional[Tuple[LayerGraph, CheckReport]] = None
    asked: int = 0
    _costs: Optional[CostModel] = field(default=None, repr=False)

    def figures(self, model: Any, with_gpu: bool = False) -> Figures:
        """Of an onnx.ModelProto, weights not needed; a refusal of the parser is an answer.

        Args:
            with_gpu: also the time with everything on the GPU, which the search does not ask for.

        Raises:
            UsageError: unknown power mode. ModelError: more than MOST_LAYERS layers.
        """
        self.asked += 1
        try:
            graph = load_onnx(model, trt=self.platform.release.trt)
        except ModelTooLarge:
            raise
        except ModelError as e:
            self.last = None
            return Figures(refused=e.what)
        require_layers(graph)
        report = check_graph(graph, self.platform, self.precision, PURPOSES[self.purpose], ranked=False)
        self.last = (graph, report)
        totals = report.totals
        counts = Figures(
            layers=totals.layers_dla + totals.layers_gpu,
            layers_dla=totals.layers_dla,
            layers_unknown=totals.layers_unknown,
            macs=totals.macs,
            share_macs_dla=totals.share_macs_dla,
            loadables=totals.regions + totals.regions_dropped,
            dropped=totals.regions_dropped,
            transitions=totals.transitions,
            passes=report.strict.passes if report.strict else None,
            offenders=report.strict.offenders if report.strict else (),
        )
        return self._with_times(counts, graph, report, with_gpu)

    def _with_times(self, counts: Figures, graph: LayerGraph, report: CheckReport, with_gpu: bool) -> Figures:
        if not graph.layers or any(graph.tensors[t].is_dynamic for layer in graph.layers for t in layer.outputs):
            # Open dims have no size, and so no cost.
            return counts
        if self._costs is None:
            self._costs = CostModel.load(self.platform, self.precision, self.power_mode)
        verdicts = report.verdicts or load_rules().check(graph, self.platform, self.precision)
        try:
            predictor = Predictor((Model(graph, verdicts, {}, 1.0),), self._costs, self.platform)
            stream = predictor.predict("tensorrt" if self.platform.has_dla else "GPU").streams[0]
            gpu_us = predictor.predict("GPU").streams[0].latency.latency_us if with_gpu else None
        except EdgedlaError:
            # No cost is known: the counts stand for themselves.
            return counts
        busiest = max(stream.busy.values(), default=1.0)
        return replace(
            counts,
            latency_us=stream.latency.latency_us,
            energy_mj=stream.energy_mj,
            period_us=stream.latency.latency_us * busiest,
            gpu_us=gpu_us,
        )


def pays(before: Figures, after: Figures, purpose: str, objective: str = "latency") -> bool:
    """Whether the rewritten network is worth having: what `edgedla fix` says of itself, and `edgedla check` of it.

    A strict or standalone build has to pass, or to come nearer to it, before anything else counts.
    """
    if before.refused or after.refused:
        return bool(before.refused) and not after.refused
    if purpose != "hybrid":
        ways = [(not figures.passes, len(figures.offenders)) for figures in (before, after)]
        if ways[0] != ways[1]:
            return ways[1] < ways[0]
    value, lower = value_of(before, objective), value_of(after, objective)
    if value == float("inf"):
        # No cost is known.
        value, lower = float(before.loadables), float(after.loadables)
    return lower < value and lower <= value * (1 - LEAST_GAIN)


def value_of(figures: Figures, objective: str) -> float:
    """What the objective counts; infinite where it is not known, or the parser refuses the network."""
    if figures.refused:
        return float("inf")
    value = {
        "latency": figures.latency_us,
        "throughput": figures.period_us,
        "energy": figures.energy_mj,
        "loadables": float(figures.loadables),
    }[objective]
    return float("inf") if value is None else value
