"""Adds predicted costs to a check report, as `edgedla check` shows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import typed
from edgedla.costs.model import CostModel
from edgedla.errors import ModelError, UsageError
from edgedla.graph import LayerGraph
from edgedla.graph.layer_graph import SPARSE
from edgedla.placement.changes import by_time, with_times
from edgedla.placement.pricer import Pricer
from edgedla.placement.problem.priced import require_sizes
from edgedla.placement.worth import costs_of, worth_of
from edgedla.regions.check import read_and_check
from edgedla.regions.report import CheckReport
from edgedla.regions.values import GivenCosts, Placed
from edgedla.rules import load_rules
from edgedla.targets import platform_for
from edgedla.text.printable import significant


def has_sizes(graph: LayerGraph) -> bool:
    """Whether a time can be predicted: no size is open, and some layer is left to run."""
    try:
        require_sizes(graph)
    except (ModelError, UsageError):
        return False
    return bool(graph.layers)


def with_cost(
    report: CheckReport, graph: LayerGraph, options: Optional[GivenCosts] = None, every_change: bool = False, both: bool = False
) -> CheckReport:
    """The report with predicted costs; unchanged if a size is open.

    Args:
        graph: the report's network.
        every_change: predict the time after each ranked change; else only after the last one, for all together.
        both: also find the best splits at the other precision.

    Raises:
        UsageError: an unknown power mode, or a profile of another module or mode.
        DocumentError: the profile cannot be read, or is for another network.
    """
    if not has_sizes(graph):
        return report
    verdicts = report.verdicts or load_rules().check(graph, report.platform, report.precision)
    costs = costs_of(graph, report.platform, report.precision, options or GivenCosts())
    worth = worth_of(graph, report.platform, verdicts, costs, both)
    # A profile holds only times of the unchanged network: the changed one is predicted without it.
    prices = costs if costs.profile is None else replace(costs, profile=None)
    timer = Pricer(graph, verdicts, report.platform, prices).latency_us
    report = replace(report, notes=(*report.notes, *_sparsity(report, graph, prices)))
    if report.mode == "fallback":
        ranking, slower = by_time(report, graph, verdicts, timer, every_change)
        return replace(report, worth=worth, ranking=ranking, slower=slower)
    return replace(report, worth=worth, ranking=with_times(report.ranking, timer, every_change))


def _sparsity(report: CheckReport, graph: LayerGraph, costs: CostModel) -> Tuple[str, ...]:
    """How many convolutions on the DLA have 2:4 sparse weights, and what a build that uses them gains."""
    on_dla = [x for x in graph.layers if x.type == "CONVOLUTION" and report.layers[x.index].placed is Placed.DLA]
    sparse = [x.index for x in on_dla if SPARSE in x.params]
    if not sparse:
        return ()
    text = f"{len(sparse)} of {len(on_dla)} convolutions on the DLA have 2:4 sparse weights"
    if not report.platform.module.uses_sparsity(report.precision):
        return (f"{text}, which only Orin's DLA at int8 uses",)
    dense, shorter = (replace(costs, sparsity=used).layer_costs(graph) for used in (False, True))
    saved_us = sum(dense[i, "DLA"].latency_us - shorter[i, "DLA"].latency_us for i in sparse)
    saved_ms = significant(saved_us / 1000, 2)
    return (f"{text}: `edgedla build --sparsity enable` saves {saved_ms} ms of a frame there, predicted",)


@typed
def check(
    model: Union[str, Path, bytes, Any],
    *,
    target: Optional[str] = None,
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
    mode: str = "fallback",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    batch: Optional[int] = None,
    cost: bool = False,
    power_mode: Optional[str] = None,
) -> CheckReport:
    """Predicts, layer by layer, what TensorRT runs on the DLA of this module, and why not the rest.

    A module or release without DLA is an answer: `platform.has_dla` is False and everything runs on the GPU.

    Args:
        model: path of an ONNX file, its bytes, a ModelProto, or a LayerGraph. Weights are not needed.
        target: a module's name, for example "agx-orin-64gb", or an alias. By default this Jetson; elsewhere agx-orin-64gb.
        jetpack, trt: the software release; without both, the module's newest with a DLA.
        precision: "fp16", or "int8" (INT8 with FP16 allowed, as trtexec --int8 --fp16). By default what `edgedla check` answers first:
            INT8 on Orin, FP16 on Xavier and where a model's own types decide.
        mode: "fallback" (--allowGPUFallback), "strict" (without it) or "standalone" (--buildDLAStandalone).
        shapes: dims for dynamic inputs, by input name.
        batch: replaces the first dim of every input.
        cost: also predict whether the DLA is worth it: `report.worth`; None where a size is open.
        power_mode: nvpmodel mode of the cost; by default the module's.

    Raises:
        UsageError: unknown target, release, precision or mode.
        ModelError: the model cannot be read, or TensorRT's parser refuses it.
    """
    if power_mode is not None and not cost:
        raise UsageError("it changes only the cost", where="power_mode", allowed="with cost=True")
    platform = platform_for(target, jetpack=jetpack, trt=trt)
    graph, report = read_and_check(model, platform, precision or platform.precision, mode, shapes, batch)
    return with_cost(report, graph, GivenCosts(power_mode)) if cost else report
