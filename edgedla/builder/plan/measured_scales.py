"""What the INT8 scales of a build were measured on, kept until its artifact gets a report of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple

from edgedla.graph import LayerGraph
from edgedla.targets import Platform

if TYPE_CHECKING:
    from edgedla.quantization.collect import Collection
    from edgedla.quantization.samples import Samples


@dataclass(frozen=True)
class MeasuredScales:
    """Samples, and what they showed.

    Attributes:
        graph: the network that is built. model: onnx.ModelProto with static inputs and weights.
        method: a name of quantization.methods. absmax: tensor -> range, as measured, before rules change it.
        measured: the histograms; None where the ranges were left by a build that was killed.
    """

    graph: LayerGraph
    model: Any
    samples: Samples
    method: str
    absmax: Mapping[str, float]
    measured: Optional[Collection]

    def collection(self) -> Collection:
        """The histograms; the samples run again where they are gone."""
        from edgedla.quantization.collect import collect

        return self.measured if self.measured is not None else collect(self.model, self.samples)


@dataclass(frozen=True)
class BuiltScales:
    """Measured scales and what became of them.

    Attributes:
        devices: layer -> "GPU", "DLA0" or "DLA1". precisions: layer -> "fp16", where the plan says so.
        accuracy: as the artifact states it; None where nothing was run.
        equal: ranges that the DLA wants alike were made alike (rules/numerics.yaml, int8-equal-scales).
    """

    scales: MeasuredScales
    platform: Platform
    devices: Mapping[str, str]
    precisions: Mapping[str, str]
    accuracy: Optional[Mapping[str, Any]]
    equal: bool = True


#: Makes files of an artifact, by (role, file name), of measured scales.
Explain = Callable[[BuiltScales], Dict[Tuple[str, str], bytes]]
