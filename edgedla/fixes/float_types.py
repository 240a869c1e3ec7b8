"""Converts a model's types to FLOAT, for quantisation, or to FLOAT16, for strongly typed releases, without loading its weights, and
proves that it computes the same, or measures what differs."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import EdgedlaError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import MISSING_DATA, data_of, has_data
from edgedla.fixes.network.write_model import whole_proto
from edgedla.fixes.opset import keep_description
from edgedla.fixes.proofs.float16 import measured_text, out_of_range
from edgedla.fixes.proofs.float_types import proof_text
from edgedla.graph.layer_graph import HALVED
from edgedla.importers.model_file import float32_types
from edgedla.importers.model_file.float16_tensors import LARGEST, as_float16
from edgedla.importers.model_file.float32_types import TURNED, as_float32, own_types
from edgedla.regions.float16_model import KEPT, half_model
from edgedla.targets import Platform


@dataclass(frozen=True)
class Typed:
    """A model whose types were converted to FLOAT or FLOAT16.

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
    proto, interface = float32_types.in_float32(proto)
    turned = onnx_ir().from_proto(proto)
    for name, value in turned.graph.initializers.items():
        original = model.graph.initializers[name].const_value
        if int(original.dtype) not in TURNED:
            value.const_value = original
        elif getattr(value.const_value, "location", None) is not None:
            value.const_value = _computed(original, onnx_ir().DataType.FLOAT, as_float32)
    keep_description(model, turned)
    turned.metadata_props.pop(HALVED, None)
    proof = proof_text(whole_proto(model), whole_proto(turned), feeds[0]) if feeds else "not proven: it did not run"
    return Typed(turned, interface, f"{own.turned}: {proof}")


def in_half(model: Any, platform: Platform, mode: str, feeds: Sequence[Mapping[str, np.ndarray]], inputs: str) -> Optional[Typed]:
    """The onnx_ir.Model in FLOAT16 for a strongly typed release; None if it has FLOAT16 or Q/DQ already, or no FLOAT data.

    Args:
        mode: as in `check`. feeds: inputs of the model, whose values show what FLOAT16 holds, and the error; () measures nothing.
        inputs: what they are, in words.
    """
    keep: Mapping[str, str] = {}
    original = whole_proto(model) if feeds else None
    if original is not None:
        # A model that does not run says so where its error would stand.
        with suppress(EdgedlaError):
            keep = out_of_range(original, feeds)
    halved = half_model(outline(model), platform, mode, keep=keep)
    if halved is None:
        if not keep or half_model(outline(model), platform, mode) is None:
            return None
        # Noted in the model, so that no later command converts it, and no build finds infinities.
        turned = model.clone()
        turned.metadata_props[KEPT] = json.dumps(keep)
        name, why = next(iter(keep.items()))
        note = (
            f"types stay FLOAT, and nothing runs on the DLA: no node has its values in FP16's range on {inputs} ({name}: {why})"
        )
        return Typed(turned, (), f"{note}; scale the model's inputs or weights down, or let --data show what real samples reach")
    ir = onnx_ir()
    turned = ir.from_proto(halved.model)
    clamped = []
    for name, value in turned.graph.initializers.items():
        source = model.graph.initializers.get(halved.constants.get(name, name))
        if source is None:
            continue
        if name not in halved.constants:
            value.const_value = source.const_value
        elif getattr(value.const_value, "location", None) is not None:
            value.const_value = _computed(source.const_value, ir.DataType.FLOAT16, as_float16)
            if feeds and np.max(np.abs(np.asarray(data_of(source.const_value))), initial=0.0) > LARGEST:
                clamped.append(name)
        value.const_value.name = name
    keep_description(model, turned)
    turned.metadata_props[HALVED] = str(halved.nodes)
    done = replace(halved, clamped=(*halved.clamped, *clamped)).text
    error = measured_text(original, whole_proto(turned), feeds, inputs) if feeds else "error not measured: it did not run"
    return Typed(turned, halved.interface, f"types converted to FLOAT16 ({done}): {error}")


def _computed(original: Any, kind: Any, turn: Callable[[np.ndarray], np.ndarray]) -> Any:
    """A tensor whose elements are made of the original's when they are needed."""
    ir = onnx_ir()
    shape = ir.Shape(list(original.shape))
    if not has_data(original):
        return ir.ExternalTensor(MISSING_DATA, None, None, kind, shape=shape, name=original.name)
    return ir.LazyTensor(lambda: ir.Tensor(turn(np.asarray(data_of(original)))), kind, shape, cache=False, name=original.name)
