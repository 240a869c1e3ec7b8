"""Converts a model's types to FLOAT, for quantisation, without loading its weights, and proves that it computes the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import MISSING_DATA, data_of, has_data
from edgedla.fixes.network.write_model import whole_proto
from edgedla.fixes.opset import keep_description
from edgedla.fixes.proofs.float_types import proof_text
from edgedla.quantization.float32_types import TURNED, as_float32, drop_casts, own_types, to_float32, turn_types


@dataclass(frozen=True)
class Typed:
    """A model whose types were converted to FLOAT.

    Attributes:
        model: onnx_ir.Model. interface: inputs and outputs that changed their type, one sentence each.
        note: what was done, and how far it is proven.
    """

    model: Any
    interface: Tuple[str, ...]
    note: str


def in_float32(model: Any, feeds: Sequence[Mapping[str, np.ndarray]]) -> Optional[Typed]:
    """The onnx_ir.Model in FLOAT; None if it computes in FLOAT already.

    Args:
        feeds: inputs for the proof; () for no proof.

    Raises:
        ModelError: a node computes something else in FLOAT.
    """
    proto = outline(model)
    own = own_types(proto)
    if own is None:
        return None
    interface = turn_types(proto, _elements)
    drop_casts(proto)
    turned = onnx_ir().from_proto(proto)
    for name, value in turned.graph.initializers.items():
        original = model.graph.initializers[name].const_value
        if int(original.dtype) not in TURNED:
            value.const_value = original
        elif getattr(value.const_value, "location", None) is not None:
            value.const_value = _widened(original)
    keep_description(model, turned)
    proof = proof_text(whole_proto(model), whole_proto(turned), feeds[0]) if feeds else "not proven: it did not run"
    return Typed(turned, interface, f"{own.turned}: {proof}")


def _elements(tensor: Any) -> None:
    """Of an initializer in an outline: a large one is a reference, and gets its elements later."""
    import onnx

    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        tensor.data_type = onnx.TensorProto.FLOAT
    else:
        to_float32(tensor)


def _widened(original: Any) -> Any:
    ir = onnx_ir()
    shape = ir.Shape(list(original.shape))
    if not has_data(original):
        return ir.ExternalTensor(MISSING_DATA, None, None, ir.DataType.FLOAT, shape=shape, name=original.name)
    return ir.LazyTensor(
        lambda: ir.Tensor(as_float32(np.asarray(data_of(original)))), ir.DataType.FLOAT, shape, cache=False,
        name=original.name,
    )  # fmt: skip
