"""ELEMENTWISE: two operands, broadcast where a dim is 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind, two_inputs, volume
from edgedla.graph.kinds.cast import COMPARISONS
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph
from edgedla.graph.tensor import Tensor


@dataclass(frozen=True)
class Elementwise(Kind):
    """IElementWiseLayer.

    Attributes:
        op: SUM, PROD, MAX, MIN, SUB, DIV, POW, FLOOR_DIV, AND, OR, XOR, EQUAL, GREATER, LESS.
        a_dims, b_dims: dims of the operands, in order.
        a_constant, b_constant: whether each is a build-time constant.
        constant_users: how many live layers read the constant operand (0: no operand is constant).
        consumers: LayerType names of the layers that read the result.
        is_network_output: the result leaves the network.
        is_bias: adds one constant per column to a product with constant weights; TensorRT fuses it as the product's bias.
    """

    TYPE: ClassVar[str] = "ELEMENTWISE"

    op: str = "SUM"
    a_dims: Tuple[int, ...] = (1, 64, 56, 56)
    b_dims: Tuple[int, ...] = (1, 64, 56, 56)
    a_constant: bool = False
    b_constant: bool = False
    constant_users: int = 0
    consumers: Tuple[str, ...] = ("CONVOLUTION",)
    is_network_output: bool = False
    is_bias: bool = False
    activation_inputs: int = 2

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Elementwise:
        a, b = two_inputs(layer, graph)
        constant = next((t for t in (a, b) if t.is_constant), None)
        users = 0
        if constant is not None:
            users = graph.constant_users.get(constant.constant_of or constant.name, len(graph.consumers(constant.name)))
        return cls(
            **cls.common(layer, graph),
            op=str(layer.params.get("op", "")),
            a_dims=a.dims,
            b_dims=b.dims,
            a_constant=a.is_constant,
            b_constant=b.is_constant,
            constant_users=users,
            consumers=tuple(graph.layers[i].type for i in graph.successors(layer.index)),
            is_network_output=layer.outputs[0] in graph.output_names,
            is_bias=constant is not None and _is_bias(layer, graph, constant),
        )

    @property
    def dims_of_tensors(self) -> Tuple[Tuple[int, ...], ...]:
        operands = tuple(d for d, fixed in ((self.a_dims, self.a_constant), (self.b_dims, self.b_constant)) if not fixed)
        return operands + (self.out_dims,)

    @property
    def dtypes(self) -> Tuple[str, ...]:
        """Types of the operands and, except for comparisons, whose result is always BOOL, of the result."""
        return (self.in_dtype,) if self.op in COMPARISONS else (self.in_dtype, self.out_dtype)

    @property
    def is_cast_at_once(self) -> bool:
        """Whether the result (of a comparison) has only one reader, a cast, and is no network output."""
        return self.consumers in (("CAST",), ("IDENTITY",)) and not self.is_network_output

    @property
    def constant_dims(self) -> Tuple[int, ...]:
        """Dims of the constant operand; () where there is none or it is a scalar."""
        return self.b_dims if self.b_constant else (self.a_dims if self.a_constant else ())

    @property
    def has_constant(self) -> bool:
        return self.a_constant or self.b_constant

    @property
    def same_dims(self) -> bool:
        return self.a_dims == self.b_dims

    @property
    def constant_is_per_channel(self) -> bool:
        """A constant with one value per channel, (1, C, 1, 1), and more than one channel."""
        dims = self.constant_dims
        return self.has_constant and len(dims) >= 3 and volume(dims) == dims[-3] > 1

    @property
    def operands(self) -> str:
        """The form of the operands: two tensors; or a tensor and a constant that is one number, one row of numbers (with one
        reader, or shared), a part of the tensor's size, or all of it. A row lies along C, or along the last axis if channels
        come last.
        """
        if not self.has_constant:
            return "two tensors"
        if self.same_dims:
            return "whole constant"
        if sum(d > 1 for d in self.constant_dims) > 1:
            return "partial constant"
        return "shared constant" if self.constant_users > 1 else "channel constant"

    @property
    def by_constant(self) -> bool:
        """A division by, or a power of, a constant."""
        return self.op in ("DIV", "POW") and self.b_constant

    @property
    def constant_is_foldable(self) -> bool:
        """A lone scalar or per-channel constant: TensorRT folds it into a SCALE before placement.

        Shared constants stay a second operand (seen in 8.5.2 logs of YOLO11l, where the attention scale has two users).
        """
        if not self.has_constant or self.constant_users > 1:
            return False
        dims = self.constant_dims
        return volume(dims) == 1 or self.constant_is_per_channel


def _is_bias(layer: Layer, graph: LayerGraph, constant: Tensor) -> bool:
    """Gemm's C: TensorRT's ConvReshapeBiasAddFusion moves it into the convolution that the product becomes (10.3 logs)."""
    before = graph.predecessors(layer.index)
    if layer.params.get("op") != "SUM" or len(before) != 1:
        return False
    product = graph.layers[before[0]]
    if product.type != "MATRIX_MULTIPLY" or len(product.inputs) < 2 or not graph.tensors[product.inputs[1]].is_constant:
        return False
    columns = graph.tensors[product.outputs[0]].dims[-1:]
    return constant.volume == 1 or (constant.dims[-1:] == columns and constant.volume == columns[0])
