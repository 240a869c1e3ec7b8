"""CostModel: what layers, transitions and loadables cost on the engines of one module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from edgedla.costs.cost import Cost
from edgedla.graph import LayerGraph, Tensor
from edgedla.targets.platform import Platform


@dataclass(frozen=True)
class Operator:
    """Layers that TensorRT runs as one operator when they stand on one device.

    Attributes:
        layers: indices, leader first (Conv, then its Scale, Activation, Add, ...).
        links: (producer, consumer) pairs inside the group; a device change across a link separates the consumer.
    """

    layers: Tuple[int, ...]
    links: Tuple[Tuple[int, int], ...] = ()

    @property
    def leader(self) -> int:
        return self.layers[0]


@dataclass(frozen=True)
class LayerCosts(Mapping[Tuple[int, str], Cost]):
    """Costs by (layer index, device kind), plus what separating fused layers adds.

    `costs[i, "DLA"]` of an operator's leader holds the whole operator; a follower holds only the extra traffic that it
    adds (the second operand of a fused Add). `separations[producer, consumer][kind]` is added once when the two stand on
    different devices and the consumer is on a device of that kind: the consumer then runs as an operator of its own.
    """

    costs: Mapping[Tuple[int, str], Cost]
    separations: Mapping[Tuple[int, int], Mapping[str, Cost]]

    def __getitem__(self, key: Tuple[int, str]) -> Cost:
        return self.costs[key]

    def __iter__(self) -> Iterator[Tuple[int, str]]:
        return iter(self.costs)

    def __len__(self) -> int:
        return len(self.costs)


@dataclass(frozen=True)
class Slowdown:
    """Factors (>= 1) on the latency of each kind of engine while others run beside it."""

    gpu: float
    dla: float
    basis: str
    spread: float


@dataclass(frozen=True)
class CostModel:
    """Costs on one platform, at one precision and one set of clocks."""

    platform: Platform
    precision: str
    power_mode: str

    @classmethod
    def load(
        cls,
        platform: Platform,
        precision: str,
        power_mode: Optional[str] = None,
        *,
        clocks: Optional[Mapping[str, float]] = None,
        sparsity: bool = False,
        profile: Optional[Any] = None,
    ) -> CostModel:
        """The model for a platform.

        Args:
            precision: "fp16" or "int8" (INT8 with FP16 allowed).
            power_mode: a name of platform.module.power_modes; None is the module's default.
            clocks: overrides in MHz by "dla", "gpu", "emc".
            sparsity: weights are 2:4 sparse and the builder may use it (Orin only).
            profile: measured times (edgedla.costs.profile.Profile) that replace predictions.

        Raises:
            UsageError: unknown power mode, precision or clock.
        """
        raise NotImplementedError

    def operators(self, graph: LayerGraph) -> Tuple[Operator, ...]:
        """Every live layer in exactly one operator, in order of the leaders."""
        raise NotImplementedError

    def layer_costs(self, graph: LayerGraph) -> LayerCosts:
        """Cost of every layer on the GPU and, where the platform has one, on a DLA core."""
        raise NotImplementedError

    def transition(
        self,
        tensor: Tensor,
        source: str,
        target: str,
        *,
        source_format: Optional[str] = None,
        target_format: Optional[str] = None,
    ) -> Cost:
        """Cost of handing one tensor from device `source` to device `target` ("GPU", "DLA0", "DLA1").

        Counted once a tensor and target device. Network inputs come from "GPU", network outputs go to "GPU": that is where
        TensorRT's bindings are, in LINEAR format unless asked otherwise. No reformat where both formats are equal; between
        two DLA cores they always are. Zero where source == target.
        """
        raise NotImplementedError

    def loadable(self) -> Cost:
        """What one DLA region costs by being one: submit, wait, and the engine's own start."""
        raise NotImplementedError

    def contention(self, gpu_load: float, dla_load: float) -> Slowdown:
        """Slowdown while the GPU and the DLA cores run together.

        Args:
            gpu_load, dla_load: DRAM traffic that each side asks for, in GB/s (`Operator` traffic over its latency; see
                `traffic_gb_s`). dla_load is the sum over the cores.
        """
        raise NotImplementedError

    def traffic_bytes(self, graph: LayerGraph) -> Mapping[Tuple[int, str], float]:
        """DRAM bytes of every layer by (index, device kind), for `contention`."""
        raise NotImplementedError

    def to_dict(self) -> Dict[str, Any]:
        raise NotImplementedError
