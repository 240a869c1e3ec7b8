"""Convolutions and fully connected layers with an accumulator of their own: sums in FP16, or in 32-bit integers (rules/numerics.yaml)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.formats.pack import quantize
from edgedla.quantization.calibration_cache import INT8_MAX

if TYPE_CHECKING:
    from onnx import NodeProto

#: Input channels per rounding step of an FP16 sum: the DLA's FP16 format packs 16 channels into one surface.
BLOCK = 16
_FLOAT, _UINT8, _INT32, _FLOAT16 = 1, 2, 6, 10
ZERO_POINT = 128


def fp16_sums(node: NodeProto, constants: Dict[str, Any], prefix: str) -> Sequence[NodeProto]:
    """A Conv whose sum is rounded to FP16 after every BLOCK input channels and after the bias; other nodes unchanged.

    Args:
        constants: name -> TensorProto of the graph's new constants, with the node's rounded weights; more are added.
        prefix: begins the names of what is added.
    """
    from onnx import numpy_helper

    if node.op_type != "Conv" or node.input[1] not in constants:
        return (node,)
    source, weight, output = node.input[0], node.input[1], node.output[0]
    values = numpy_helper.to_array(constants[weight])
    grouped = _attribute(node, "group", 1) > 1
    parts = [slice(0, values.shape[1])] if grouped else _blocks(values.shape[1])
    made = _Nodes(prefix, output, constants)
    total = ""
    for k, part in enumerate(parts):
        piece, kernel = source, weight
        if len(parts) > 1:
            kernel = made.constant(f"part{part.start}", np.ascontiguousarray(values[:, part]))
            bounds = [made.shared(f"int64/{n}", np.array([n], np.int64)) for n in (part.start, part.stop, 1)]
            piece = made.add("Slice", [source, *bounds], f"channels{k}")
        one = made.like(node, "Conv", [piece, kernel], f"sum{k}")
        total = made.rounded(one if not total else made.add("Add", [total, one], f"total{k}"), f"rounded{k}")
    if len(node.input) > 2 and node.input[2]:
        total = made.rounded(made.add("Add", [total, made.column(node.input[2], values.ndim)], "biased"), "end")
    made.add("Identity", [total], "", output=output)
    return made.nodes


def int32_sums(
    node: NodeProto, levels: Mapping[str, Tuple[str, float]], original: Any, constants: Dict[str, Any], prefix: str
) -> Optional[Sequence[NodeProto]]:
    """A Conv or Gemm as y = s_x * s_w * sum(q_x * q_w) + bias, the sum in INT32.

    None if its input is not in INT8, or if a Gemm is more than a fully connected layer.

    Args:
        levels: tensor -> (its integers, its scale). original: the model's own weights, None where they are no constant.
        constants, prefix: as of fp16_sums.
    """
    from onnx import numpy_helper

    if node.input[0] not in levels or original is None:
        return None
    integers, scale = levels[node.input[0]]
    dense = node.op_type == "Gemm"
    if dense and not _plain_gemm(node):
        return None
    values = numpy_helper.to_array(original)
    if dense and not _attribute(node, "transB", 0):
        values = np.ascontiguousarray(values.T)
    largest = np.abs(values).reshape(len(values), -1).max(axis=1)
    scales = np.where(largest > 0, largest / INT8_MAX, 1.0).astype(np.float64)
    quantized = np.stack([quantize(channel, scale_k) for channel, scale_k in zip(values, scales)])
    made = _Nodes(prefix, node.output[0], constants)
    # Unsigned with a zero point gives the same sum: ONNX Runtime before 1.24 has no integer sum of signed values.
    shifted_weights = (quantized.astype(np.int16) + ZERO_POINT).astype(np.uint8)
    kernel = made.constant("integers", shifted_weights.T.copy() if dense else shifted_weights)
    zero = made.constant("zero_point", np.array(ZERO_POINT, np.uint8))
    shift = made.constant("shift", np.array(ZERO_POINT, np.int32))
    shifted = made.add("Add", [made.add("Cast", [integers], "wide", to=_INT32), shift], "shifted")
    unsigned = made.add("Cast", [shifted], "unsigned", to=_UINT8)
    operands = [unsigned, kernel, zero, zero]
    total = made.add("MatMulInteger", operands, "sum") if dense else made.like(node, "ConvInteger", operands, "sum")
    total = made.add("Cast", [total], "float", to=_FLOAT)
    # The scale that the INT8 values were made with is FP32.
    factors = (scales * np.float64(np.float32(scale))).astype(np.float32)
    factor = made.constant("factor", factors.reshape(1, -1, *[1] * (values.ndim - 2)))
    total = made.add("Mul", [total, factor], "scaled")
    if len(node.input) > 2 and node.input[2]:
        bias = node.input[2] if dense else made.column(node.input[2], values.ndim)
        total = made.add("Add", [total, bias], "biased")
    made.add("Identity", [total], "", output=node.output[0])
    return made.nodes


def _plain_gemm(node: NodeProto) -> bool:
    """x W + b, with W as it is or transposed."""
    factors = {a.name: a.f for a in node.attribute}
    return not _attribute(node, "transA", 0) and factors.get("alpha", 1.0) == 1.0 and factors.get("beta", 1.0) == 1.0


class _Nodes:
    """The nodes that replace one node, named after its output."""

    def __init__(self, prefix: str, output: str, constants: Dict[str, Any]) -> None:
        self._prefix, self._output, self._constants = prefix, output, constants
        self.nodes: List[NodeProto] = []

    def add(self, op: str, inputs: Sequence[str], name: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        target = output or self._named(name)
        self.nodes.append(helper.make_node(op, list(inputs), [target], name=f"{self._prefix}{op}/{target}", **attributes))
        return target

    def like(self, node: NodeProto, op: str, inputs: Sequence[str], name: str) -> str:
        """A node with the attributes of another."""
        target = self.add(op, inputs, name)
        self.nodes[-1].attribute.extend(node.attribute)
        return target

    def rounded(self, source: str, name: str) -> str:
        half = self.add("Cast", [source], f"{name}_half", to=_FLOAT16)
        return self.add("Cast", [half], name, to=_FLOAT)

    def column(self, bias: str, rank: int) -> str:
        """A bias [K] as [1, K, 1, ...]."""
        axes = self.shared(f"shape/{rank}", np.array([1, -1, *[1] * (rank - 2)], np.int64))
        return self.add("Reshape", [bias, axes], "bias")

    def constant(self, name: str, value: np.ndarray) -> str:
        return self._constant(self._named(name), value)

    def shared(self, name: str, value: np.ndarray) -> str:
        """A constant that other nodes' replacements read too."""
        return self._constant(f"{self._prefix}{name}", value)

    def _named(self, name: str) -> str:
        return f"{self._prefix}{name}/{self._output}"

    def _constant(self, full: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self._constants.setdefault(full, numpy_helper.from_array(value, full))
        return full


def _blocks(channels: int) -> List[slice]:
    return [slice(first, min(first + BLOCK, channels)) for first in range(0, channels, BLOCK)]


def _attribute(node: NodeProto, name: str, default: int) -> int:
    integers: Mapping[str, int] = {a.name: a.i for a in node.attribute}
    return integers.get(name, default)
