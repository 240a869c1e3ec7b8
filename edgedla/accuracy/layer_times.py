"""Predicted time of each layer in INT8 and in FP16 on the DLA, and on the GPU: what leaving INT8 costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, Mapping

from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.targets import Platform


@dataclass(frozen=True)
class LayerTimes:
    """Predicted microseconds by layer name.

    Attributes:
        int8_us, fp16_us: on the DLA. gpu_us: on the GPU in FP16, with handing its tensors over and back.
        total_us: the whole network, each layer on the DLA in INT8 where it has a time there.
    """

    int8_us: Mapping[str, float]
    fp16_us: Mapping[str, float]
    gpu_us: Mapping[str, float]

    def extra_us(self, device: str = "DLA") -> Dict[str, float]:
        """Layer -> time that it takes longer in FP16 on `device` than in INT8 on the DLA."""
        other = self.gpu_us if device == "GPU" else self.fp16_us
        return {name: other[name] - self.int8_us[name] for name in self.int8_us}

    def without_scale_us(self, layers: Iterable[str]) -> float:
        """Predicted time that these layers lose because a tensor has no scale: they run in FP16 on the DLA."""
        extra = self.extra_us()
        return sum(max(extra.get(name, 0.0), 0.0) for name in layers)


def layer_times(graph: LayerGraph, platform: Platform) -> LayerTimes:
    """Times of all layers; empty where the platform has no DLA."""
    if not platform.has_dla:
        return LayerTimes({}, {}, {})
    int8, fp16 = CostModel.load(platform, "int8"), CostModel.load(platform, "fp16")
    costs8, costs16 = int8.layer_costs(graph), fp16.layer_costs(graph)
    border = {
        layer.name: sum(
            int8.transition(t, "DLA0", "GPU").latency_us for t in graph.activations(layer)
        ) + sum(int8.transition(t, "GPU", "DLA0").latency_us for t in graph.output_tensors(layer))
        for layer in graph.layers
    }  # fmt: skip
    submit = int8.loadable().latency_us
    names = [layer.name for layer in graph.layers]
    return LayerTimes(
        {name: costs8[i, "DLA"].latency_us for i, name in enumerate(names)},
        {name: costs16[i, "DLA"].latency_us for i, name in enumerate(names)},
        {name: costs16[i, "GPU"].latency_us + border[name] + submit for i, name in enumerate(names)},
    )
