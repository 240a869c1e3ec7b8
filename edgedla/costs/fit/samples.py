"""Figures as linear equations: features on the left, microseconds on the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from edgedla.costs.engines import PRECISION_BYTES, Clocks, clocks_for, dla_engine, gpu_engine
from edgedla.costs.features import (
    Features,
    dla_features,
    dla_follower_features,
    engine_features,
    gpu_features,
    gpu_follower_features,
    loadable_features,
)
from edgedla.costs.fit.evidence import Row
from edgedla.costs.fit.yolox import same_padded, yolox
from edgedla.costs.networks import network
from edgedla.costs.operators import operators_of
from edgedla.costs.transition import reformat_bytes
from edgedla.costs.work import work_of
from edgedla.errors import RuleError
from edgedla.graph import Layer, LayerGraph, Tensor
from edgedla.targets.modules import module_for


@dataclass(frozen=True)
class Sample:
    """One figure as an equation: sum of coefficient * features = time_us.

    `group` names the coefficients: dla1-fp16, dla2-int8, dla2-fp16, gpu-xavier, gpu-orin.
    """

    row: Row
    group: str
    features: Features
    time_us: float


def sample_of(row: Row) -> Sample:
    """The equation of a latency, throughput, group, operator, transition or reformat row.

    Raises:
        RuleError: the row's work or unit cannot be read.
    """
    module = module_for(row.module)
    clocks = clocks_for(module, row.power_mode or None, row.clocks)
    on_dla = "DLA" in row.engine
    dla_group = f"dla{module.dla_version}-{row.precision}"
    if row.metric == "operator gap":
        return Sample(row, dla_group, {"operator": 1.0}, _time_us(row))
    if row.metric in ("transition", "reformat"):
        dims = tuple(int(n) for n in row.work.split()[1].split("x"))
        moved = reformat_bytes(Tensor(row.id, (1, *dims)), row.precision)
        return Sample(row, dla_group, {"reformat": 1.0, "reformat_bytes": moved / clocks.emc_mhz}, _time_us(row))
    if row.work == "floor":
        floor = {**engine_features(clocks), **loadable_features(clocks), "reformat": 2.0}
        return Sample(row, dla_group, floor, _time_us(row))
    if row.work.startswith("features "):
        stated = dict(word.split("=") for word in row.work.split()[1:])
        features = {name: float(value) for name, value in stated.items()}
        return Sample(row, dla_group if on_dla else f"gpu-{module.chip}", features, _time_us(row))
    graph, layers = graph_of(row)
    batch = _batch(row, graph)
    features = graph_features(graph, row, clocks, layers, batch)
    _include(features, row, graph, clocks, batch)
    return Sample(row, dla_group if on_dla else f"gpu-{module.chip}", features, _time_us(row))


def graph_features(graph: LayerGraph, row: Row, clocks: Clocks, layers: Optional[Tuple[int, int]], batch: float) -> Features:
    """Summed features of all operators whose leader lies in `layers` (first, last), on one kind of engine."""
    target = module_for(row.module)
    on_dla = "DLA" in row.engine
    width = PRECISION_BYTES[row.precision]
    total: Dict[str, float] = {}
    for operator in operators_of(graph):
        for position, index in enumerate(operator.layers):
            if layers and not layers[0] <= index <= layers[1]:
                continue
            work = work_of(graph.layers[index], graph, width).scaled(batch)
            if on_dla:
                engine = dla_engine(target.dla_version, row.precision)
                assert engine is not None
                part = dla_follower_features(work, clocks) if position else dla_features(work, engine, clocks)
            else:
                gpu = gpu_engine(target, row.precision, row.power_mode)
                part = gpu_follower_features(work, clocks) if position else gpu_features(work, gpu, clocks)
            for name, value in part.items():
                total[name] = total.get(name, 0.0) + value
    return total


def _include(features: Features, row: Row, graph: LayerGraph, clocks: Clocks, batch: float) -> None:
    for name in row.includes:
        if name.startswith("loadable"):
            loadables = int(name.partition("=")[2] or 1)
            features.update({n: loadables * v for n, v in loadable_features(clocks).items()})
            features.update(engine_features(clocks))
            # Between two loadables the GPU works: a tensor goes there, and one comes back.
            features["reformat"] = features.get("reformat", 0.0) + 2.0 * (loadables - 1)
        elif name == "engine":
            features.update(engine_features(clocks))
        elif name in ("fc", "runner"):
            features[name] = 1.0
        elif name == "tuned":
            # With CUDA graphs and no copies: what a launch and a call cost there says nothing of ordinary use.
            features.pop("kernel.int8", None)
            for feature in ("kernel", "engine"):
                features[f"{feature}.tuned"] = features.pop(feature, 0.0)
        elif name == "io":
            borders = graph.inputs + graph.outputs
            moved = sum(reformat_bytes(graph.tensors[t], row.precision) for t in borders)
            features["reformat_bytes"] = moved * batch / clocks.emc_mhz
            features["reformat"] = features.get("reformat", 0.0) + len(borders)


def graph_of(row: Row) -> Tuple[LayerGraph, Optional[Tuple[int, int]]]:
    """What ran, and of it the layers (first, last) that the figure is of; None for all."""
    kind, *rest = row.work.split()
    if kind == "net":
        ranges = [r for r in rest[1:] if "=" not in r]
        first, last = (int(n) for n in ranges[0].split("-")) if ranges else (0, 0)
        return network(rest[0]), (first, last) if ranges else None
    if kind == "yolox":
        return yolox(rest[0], int(rest[1])), None
    if kind == "conv":
        c, k, kernel, stride = (int(n) for n in rest[:4])
        h, w = (int(n) for n in rest[4].split("x"))
        return convolution(c, k, kernel, stride, (h, w), int(rest[5])), None
    if kind == "fc":
        return convolution(int(rest[0]), int(rest[1]), 1, 1, (1, 1), 1), None
    raise RuleError(f"row {row.id}: cannot read the work {row.work!r}")


def convolution(c: int, k: int, kernel: int, stride: int, in_hw: Tuple[int, int], groups: int) -> LayerGraph:
    """A network of one convolution with SAME-like padding, as the single-layer figures have."""
    out_hw = tuple((size + 2 * (kernel // 2) - kernel) // stride + 1 for size in in_hw)
    tensors = {"@0": Tensor("@0", (1, c, *in_hw)), "0": Tensor("0", (1, k, *out_hw))}
    layer = Layer(0, "CONVOLUTION", "conv", "", "Conv", ("@0",), ("0",), same_padded(k, kernel, stride, groups))
    return LayerGraph("conv", (layer,), tensors, ("@0",), ("0",))


def _batch(row: Row, graph: LayerGraph) -> float:
    """How many times the network's own batch ran."""
    for word in row.work.split():
        if word.startswith("batch="):
            return int(word[6:]) / graph.tensors[graph.inputs[0]].dims[0]
    return 1.0


def _time_us(row: Row) -> float:
    """Microseconds of one run on one engine."""
    if row.unit == "ms":
        on_gpu = sum(float(word[7:]) for word in row.includes if word.startswith("gpu_ms="))
        return (row.value - on_gpu) * 1000.0
    if row.unit == "img/s":
        engines = 2 if row.engine.startswith("2x") else 1
        return engines * int(row.batch) / row.value * 1e6
    raise RuleError(f"row {row.id}: the unit {row.unit!r} is not a unit of time", allowed="ms, img/s")


def samples_of(rows: Tuple[Row, ...], use: str) -> List[Sample]:
    """Samples of all time rows of one use; rows that run on two kinds of engine, or sparse weights, stay out."""
    times = ("latency", "throughput", "group time", "operator time", "operator gap", "transition", "reformat")
    engines = ("DLA", "2xDLA", "GPU")
    selected = (r for r in rows if r.use == use and r.metric in times and r.engine in engines)
    return [sample_of(r) for r in selected if "sparse" not in r.includes]
