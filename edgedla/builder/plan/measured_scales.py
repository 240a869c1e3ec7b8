"""The measurements behind a build's INT8 scales, kept for the artifact's report."""

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
    """Samples and the ranges measured on them.

    Attributes:
        graph: the network that is built. model: onnx.ModelProto with static inputs and weights.
        method: a name of quantization.methods. absmax: tensor -> range, as measured, before rules change it.
        measured: the histograms; None if the ranges come from a build that was killed.
    """

    graph: LayerGraph
    model: Any
    samples: Samples
    method: str
    absmax: Mapping[str, float]
    measured: Optional[Collection]

    def collection(self) -> Collection:
        """The histograms; measured again if they are gone."""
        from edgedla.quantization.collect import collect

        return self.measured if self.measured is not None else collect(self.model, self.samples)


@dataclass(frozen=True)
class BuiltScales:
    """Measured scales and the build that uses them.

    Attributes:
        devices: layer -> "GPU", "DLA0" or "DLA1". precisions: layer -> "fp16", for layers the plan sets to FP16.
        accuracy: the artifact's measured error; None if nothing was run.
        equal: True if ranges that must be equal on the DLA were made equal (rules/numerics.yaml, int8-equal-scales).
    """

    scales: MeasuredScales
    platform: Platform
    devices: Mapping[str, str]
    precisions: Mapping[str, str]
    accuracy: Optional[Mapping[str, Any]]
    equal: bool = True


#: Makes the artifact's files about measured scales: (role, file name) -> content.
Explain = Callable[[BuiltScales], Dict[Tuple[str, str], bytes]]
