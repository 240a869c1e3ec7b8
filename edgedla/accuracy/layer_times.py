"""Predicted time of each layer in INT8 and FP16 on the DLA, and on the GPU: the cost of leaving INT8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, Dict, Iterable, Mapping, Tuple

from edgedla.accuracy.choose_fp16 import Border, Prices, transitions_us
from edgedla.accuracy.state import Step
from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.targets import Platform


@dataclass(frozen=True)
class LayerTimes:
    """Predicted microseconds by layer name.

    Attributes:
        int8_us, fp16_us: on the DLA. gpu_us: on the GPU in FP16, without the transitions of its tensors.
        borders: every tensor between layers, with the time of its transitions.
    """

    int8_us: Mapping[str, float]
    fp16_us: Mapping[str, float]
    gpu_us: Mapping[str, float]
    borders: Tuple[Border, ...] = ()

    def extra_us(self) -> Dict[str, float]:
        """Layer -> extra time in FP16 over INT8 on the DLA."""
        return {name: self.fp16_us[name] - self.int8_us[name] for name in self.int8_us}

    def prices(self, on_gpu: Collection[str]) -> Prices:
        """The cost of leaving INT8, given the layers already on the GPU."""
        gpu = {name: self.gpu_us[name] - self.int8_us[name] for name in self.int8_us if name not in on_gpu}
        return Prices(self.extra_us(), gpu, self.borders, frozenset(on_gpu))

    def to_gpu_us(self, layers: Collection[str], on_gpu: Collection[str]) -> float:
        """Extra time of these layers on the GPU in place of the DLA. `on_gpu`: those that are there already."""
        own_us = sum(self.gpu_us[name] - self.int8_us[name] for name in layers if name in self.gpu_us)
        after, before = (transitions_us(self.borders, {*on_gpu, *more}) for more in (layers, ()))
        return own_us + after - before

    def of_build(self, on_dla: Iterable[str], without: Iterable[str], steps: Iterable[Step] = ()) -> Dict[str, float]:
        """`Quantized.predicted_us` of these DLA layers, some of them `without` a scale; empty without a DLA."""
        if not self.int8_us:
            return {}
        names = dict.fromkeys(on_dla)
        return {
            "int8": sum(self.int8_us[n] for n in names),
            "fp16": sum(self.fp16_us[n] for n in names),
            "extra": sum(step.extra_us for step in steps if step.kept),
            "missing": self.without_scale_us(n for n in without if n in names),
        }

    def without_scale_us(self, layers: Iterable[str]) -> float:
        """Predicted extra time of these layers, which run in FP16 on the DLA because a tensor has no scale."""
        extra = self.extra_us()
        return sum(max(extra.get(name, 0.0), 0.0) for name in layers)


def layer_times(graph: LayerGraph, platform: Platform) -> LayerTimes:
    """Times of all layers; empty if the platform has no DLA."""
    if not platform.has_dla:
        return LayerTimes({}, {}, {})
    int8, fp16 = CostModel.load(platform, "int8"), CostModel.load(platform, "fp16")
    costs8, costs16 = int8.layer_costs(graph), fp16.layer_costs(graph)
    names = [layer.name for layer in graph.layers]
    return LayerTimes(
        {name: costs8[i, "DLA"].latency_us for i, name in enumerate(names)},
        {name: costs16[i, "DLA"].latency_us for i, name in enumerate(names)},
        {name: costs16[i, "GPU"].latency_us for i, name in enumerate(names)},
        _borders(graph, int8),
    )


def _borders(graph: LayerGraph, model: CostModel) -> Tuple[Border, ...]:
    submit = model.loadable().latency_us
    tensors = {t.name: t for layer in graph.layers for t in (*graph.activations(layer), *graph.output_tensors(layer))}
    borders = []
    for name, tensor in tensors.items():
        producer = graph.producer(name)
        borders.append(
            Border(
                None if producer is None else graph.layers[producer].name,
                tuple(graph.layers[i].name for i in graph.consumers(name)),
                name in graph.outputs,
                model.transition(tensor, "DLA0", "GPU").latency_us,
                model.transition(tensor, "GPU", "DLA0").latency_us + submit,
            )
        )
    return tuple(borders)
