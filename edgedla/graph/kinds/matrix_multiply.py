"""MATRIX_MULTIPLY: ONNX MatMul, and Gemm since TensorRT dropped its fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind, two_inputs, volume
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class MatrixMultiply(Kind):
    """IMatrixMultiplyLayer.

    Attributes:
        a_dims, b_dims: dims of the operands as stored, before op0 and op1 transpose them.
        op0, op1: NONE, TRANSPOSE or VECTOR.
        a_constant, b_constant: whether each is a build-time constant.
    """

    TYPE: ClassVar[str] = "MATRIX_MULTIPLY"

    in_dims: Tuple[int, ...] = (1, 512)
    out_dims: Tuple[int, ...] = (1, 1000)
    constant_inputs: int = 1
    a_dims: Tuple[int, ...] = (1, 512)
    b_dims: Tuple[int, ...] = (512, 1000)
    op0: str = "NONE"
    op1: str = "NONE"
    a_constant: bool = False
    b_constant: bool = True

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> MatrixMultiply:
        a, b = two_inputs(layer, graph)
        return cls(
            **cls.common(layer, graph),
            a_dims=a.dims,
            b_dims=b.dims,
            op0=str(layer.params.get("op0", "NONE")),
            op1=str(layer.params.get("op1", "NONE")),
            a_constant=a.is_constant,
            b_constant=b.is_constant,
        )

    @property
    def inner(self) -> int:
        """Number of products per sum: K of (M, K) x (K, N)."""
        if not self.a_dims:
            return 1
        return self.a_dims[-2] if self.op0 == "TRANSPOSE" and len(self.a_dims) > 1 else self.a_dims[-1]

    @property
    def rows(self) -> int:
        """M with all outer dims: the batch of the 1x1 convolution that TensorRT makes of it."""
        return volume(self.out_dims) // max(self.out_dims[-1], 1) if self.out_dims else 1

    @property
    def out_channels(self) -> int:
        return self.out_dims[-1] if self.out_dims else 1

    @property
    def non_batch_dims(self) -> Tuple[int, ...]:
        """As the 1x1 convolution that it becomes: input and output channels."""
        return (self.inner, self.out_channels)

    @property
    def a_rank(self) -> int:
        return len(self.a_dims)

    @property
    def macs(self) -> int:
        return self.out_volume * max(self.inner, 0)

    @property
    def weight_elements(self) -> int:
        return volume(self.b_dims) if self.b_constant else (volume(self.a_dims) if self.a_constant else 0)
