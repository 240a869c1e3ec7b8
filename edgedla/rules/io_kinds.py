"""The kinds that rules about a network's border apply to: I/O tensors, memory pools, whole loadables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple, Type

from edgedla.graph.kinds.base import Kind


@dataclass(frozen=True)
class IoTensor(Kind):
    """A network input or output with the format that the build asks for.

    Attributes:
        name: the tensor's name.
        direction: "input" or "output".
        format: trtexec's name in lower case: linear, dla_linear, dla_hwc4, chw4, chw16, chw32; "" if the build names none.
        io_dtype: "fp16", "int8", "fp32", ... at the border.
        compute: the precision of the layers: "fp16" or "int8".
        first_type: LayerType of the layer that reads the input.
        first_groups, first_dilation: of that layer if it is a convolution.
        in_dims: the tensor's dims.
    """

    in_dims: Tuple[int, ...] = (1, 3, 224, 224)
    name: str = "input"
    direction: str = "input"
    format: str = "dla_linear"
    io_dtype: str = "fp16"
    compute: str = "fp16"
    first_type: str = "CONVOLUTION"
    first_groups: int = 1
    first_dilation: Tuple[int, ...] = (1, 1)

    @property
    def channels(self) -> int:
        return self.in_chw[0]

    @property
    def chw(self) -> Tuple[int, int, int]:
        return self.in_chw

    @property
    def typed_format(self) -> str:
        """Type and format in trtexec's spelling, "int8:chw32"."""
        return f"{self.io_dtype}:{self.format}"

    @property
    def io_matches_compute(self) -> bool:
        return self.io_dtype == self.compute


@dataclass(frozen=True)
class Pool(Kind):
    """A DLA memory pool setting. `pool` is SRAM, LOCAL_DRAM or GLOBAL_DRAM."""

    pool: str = "SRAM"
    size_bytes: int = 1 << 20
    hardware_bytes: int = 1 << 20

    @property
    def above_hardware(self) -> bool:
        return self.pool == "SRAM" and self.size_bytes > self.hardware_bytes


@dataclass(frozen=True)
class Loadable(Kind):
    """One DLA subgraph: the bytes of all its weights, and of its tensors that are neither input nor output.

    `subgraphs` is how many the engine has on that core, `in_use` how many all engines in use have there.
    """

    weight_bytes: int = 1 << 20
    internal_bytes: int = 1 << 20
    subgraphs: int = 1
    in_use: int = 1


IO_KINDS: Dict[str, Type[Kind]] = {"IO_TENSOR": IoTensor, "POOL": Pool, "LOADABLE": Loadable}
