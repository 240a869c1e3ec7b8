"""Reads QuantizeLinear and DequantizeLinear nodes. Refuses, by name, nodes that the DLA's scales cannot express."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from edgedla.errors import ModelError
from edgedla.importers.refuse import SYMMETRIC
from edgedla.importers.values import ONNX_TYPE_NAMES

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
#: ONNX Runtime's own domain has the same operators for models of old opsets.
DOMAINS = ("", "ai.onnx", "com.microsoft")
#: The metadata entry in which a stripped model keeps the places of its pairs.
METADATA = "edgedla_qdq"


def is_quantize(node: Any) -> bool:
    return node.op_type == QUANTIZE and node.domain in DOMAINS


def is_dequantize(node: Any) -> bool:
    return node.op_type == DEQUANTIZE and node.domain in DOMAINS


def label(node: Any) -> str:
    """The node's name in messages."""
    return node.name or f"{node.op_type} -> {node.output[0]}"


@dataclass(frozen=True)
class Quantizer:
    """Scale of a Q or DQ node. `scales` has size 1 (per tensor) or one entry per slice along `axis`."""

    scales: np.ndarray
    axis: int

    @property
    def per_tensor(self) -> bool:
        return bool(self.scales.size == 1)


def constants_of(model: Any) -> Dict[str, Any]:
    """Initializers and Constant nodes by name, as onnx.TensorProto."""
    constants = {i.name: i for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute:
            tensor = _tensor_of(node.attribute[0])
            if tensor is not None:
                constants[node.output[0]] = tensor
    return constants


def _tensor_of(entry: Any) -> Optional[Any]:
    """The tensor in a Constant node's attribute; None for texts and sparse tensors."""
    from onnx import numpy_helper

    if entry.name == "value":
        return entry.t
    numbers = {
        "value_float": (entry.f, np.float32),
        "value_floats": (list(entry.floats), np.float32),
        "value_int": (entry.i, np.int64),
        "value_ints": (list(entry.ints), np.int64),
    }.get(entry.name)
    return None if numbers is None else numpy_helper.from_array(np.asarray(*numbers))


def read_quantizer(
    node: Any, constants: Mapping[str, Any], *, weights: Optional[int] = None, shape: Optional[Tuple[int, ...]] = None
) -> Quantizer:
    """The node's scale, after checking that TensorRT's implicit INT8 can express it.

    Args:
        weights: onnx.TensorProto.DataType of the quantised constant, if the node dequantises one.
        shape: of the constant that is quantised, if it is one.

    Raises:
        ModelError: a scale that is not constant or not positive, a nonzero zero point, a type such as UINT8, blocks, or a number of
            scales that is neither 1 nor that of the constant's channels.
    """
    from onnx import TensorProto, numpy_helper

    where = label(node)
    if any(a.name == "block_size" and a.i for a in node.attribute):
        raise ModelError("the DLA has no blocked quantisation", where=where, allowed="one scale per tensor or channel")
    if len(node.input) < 2 or node.input[1] not in constants:
        raise ModelError("the scale is not a constant", where=where, hint="export with folded constants")
    scales = numpy_helper.to_array(constants[node.input[1]]).astype(np.float32).reshape(-1)
    if not scales.size or not np.isfinite(scales).all() or (scales <= 0).any():
        raise ModelError("a scale is not a positive number", where=where, hint="calibrate the model again, and export it")
    # Without a zero point the default type is UINT8 (ONNX, QuantizeLinear).
    kind, nonzero = TensorProto.UINT8 if weights is None else weights, False
    if len(node.input) > 2 and node.input[2]:
        if node.input[2] not in constants:
            raise ModelError("the zero point is not a constant", where=where, hint="export with folded constants")
        zero = constants[node.input[2]]
        kind, nonzero = zero.data_type, bool(numpy_helper.to_array(zero).any())
    if kind not in (TensorProto.INT8, TensorProto.INT32):
        raise ModelError(
            f"quantised to {ONNX_TYPE_NAMES.get(kind, kind)}", where=where, allowed="INT8 with zero point 0", hint=SYMMETRIC
        )
    if nonzero:
        raise ModelError("it has a zero point other than 0", where=where, allowed="symmetric INT8", hint=SYMMETRIC)
    quantizer = Quantizer(scales, next((int(a.i) for a in node.attribute if a.name == "axis"), 1))
    if shape is not None and not quantizer.per_tensor and (not shape or shape[quantizer.axis % len(shape)] != scales.size):
        raise ModelError(
            f"{scales.size} scales for a constant of shape {shape}",
            where=where,
            allowed=f"one, or one for each index along axis {quantizer.axis}",
        )
    return quantizer
