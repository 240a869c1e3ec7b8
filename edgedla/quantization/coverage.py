"""The INT8 scale of each tensor of a network and its origin. Missing scales are listed, never silent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from edgedla.graph import LayerGraph
from edgedla.quantization.unify import MEASURED, Scales

MISSING = "missing"
#: Element types that can have an INT8 scale. Indices, conditions and bytes have none.
_SCALED = frozenset({"FLOAT", "HALF", "BF16", "INT8"})


@dataclass(frozen=True)
class TensorScale:
    """One tensor that a live layer reads or writes.

    Attributes:
        tensor: name. absmax: scale * 127; None where it is missing.
        origin: measured, unified (made equal to others), moved (a rule gave it), missing.
        rule: id in rules/int8_scales.yaml if the origin is unified or moved. why: the known reason for a missing scale.
        layers: names of the layers that read or write it.
    """

    tensor: str
    absmax: Optional[float]
    origin: str
    rule: str = ""
    why: str = ""
    layers: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """`tensors`: every float activation of the network, in its order. `counts`: origin -> number of tensors."""

    tensors: Tuple[TensorScale, ...]

    @property
    def missing(self) -> Tuple[TensorScale, ...]:
        return tuple(t for t in self.tensors if t.origin == MISSING)

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(sorted(Counter(t.origin for t in self.tensors).items()))

    @property
    def layers_without(self) -> Tuple[str, ...]:
        """Layers that read or write a tensor without a scale; the DLA cannot run them in INT8."""
        return tuple(dict.fromkeys(name for t in self.missing for name in t.layers))


def coverage(graph: LayerGraph, scales: Scales, measured: Mapping[str, float] = {}) -> Coverage:
    """The scale of every float activation that a live layer reads or writes.

    Args:
        measured: the largest magnitude of each tensor in the samples.
    """
    layers: Dict[str, List[str]] = {}
    for layer in graph.layers:
        for name in (*(t.name for t in graph.activations(layer)), *layer.outputs):
            layers.setdefault(name, []).append(layer.name)
    changed = {c.tensor: c for c in scales.changes}
    scales_of_tensors = []
    for name, users in layers.items():
        if graph.tensors[name].dtype not in _SCALED:
            continue
        absmax, change = scales.absmax.get(name), changed.get(name)
        origin = MISSING if absmax is None else change.origin if change else MEASURED
        why = ""
        if absmax is None:
            why = "no ONNX tensor has this name and no rule gives a scale"
            if name in measured:
                why = "the given ranges leave it out" if measured[name] else "zero in every sample"
        used = tuple(dict.fromkeys(users))
        scales_of_tensors.append(TensorScale(name, absmax, origin, change.rule if change else "", why, used))
    return Coverage(tuple(scales_of_tensors))
