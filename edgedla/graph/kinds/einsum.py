"""EINSUM: ONNX Einsum of one or two operands; the parser splits longer ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Dict, Tuple

from edgedla.graph.kinds.base import Kind, volume
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


@dataclass(frozen=True)
class Einsum(Kind):
    """IEinsumLayer.

    Attributes:
        equation: a letter for each axis, without ellipsis.
        operand_dims: dims of the operands, in the order of the equation's terms.
        constant_elements: elements of the operands that are build-time constants.
    """

    TYPE: ClassVar[str] = "EINSUM"

    equation: str = "bchw,cd->bdhw"
    operand_dims: Tuple[Tuple[int, ...], ...] = ((1, 8, 4, 4), (8, 8))
    constant_elements: int = 64

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Einsum:
        operands = graph.input_tensors(layer)
        return cls(
            **cls.common(layer, graph),
            equation=str(layer.params.get("equation", "")),
            operand_dims=tuple(t.dims for t in operands),
            constant_elements=sum(volume(t.dims) for t in operands if t.is_constant),
        )

    @property
    def macs(self) -> int:
        """One for each combination of all axes; a single operand is only summed or moved."""
        terms = self.equation.replace(" ", "").partition("->")[0].split(",")
        if len(terms) != len(self.operand_dims) or len(terms) < 2:
            return 0
        sizes: Dict[str, int] = {}
        for term, dims in zip(terms, self.operand_dims):
            for letter, size in zip(term, dims):
                # An axis of one is repeated.
                sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
        return math.prod(max(size, 0) for size in sizes.values())

    @property
    def weight_elements(self) -> int:
        return self.constant_elements
