"""Simulates the DLA's precision in an ONNX model: FP16 rounding and INT8 fake quantisation of the plan's DLA layers.

Simulated: the values that the DLA stores between its operations, and its weights. Not simulated: its internal
accumulators, its tactics, its speed. Layers on the GPU stay in FP32.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.builder.host.accumulation import fp16_sums, int32_sums
from edgedla.builder.host.node_modes import folded_nodes, node_modes
from edgedla.builder.host.rounding import FLOAT, FLOAT16, Rounding
from edgedla.builder.host.stored_weights import fp16_weights, quantize_weights
from edgedla.builder.plan.plan import BuildPlan
from edgedla.importers.model_file.tensor_types import tensor_types
from edgedla.importers.model_file.value_names import read_names
from edgedla.quantization.numerics import FP16_ACCUMULATION, INT8_ACCUMULATION, INT8_ROUNDING
from edgedla.quantization.qdq.fused import fused_tensors
from edgedla.quantization.qdq.nodes import constants_of
from edgedla.quantization.qdq.pairs import Pairs, stored_ranges
from edgedla.quantization.rounded_half import rounded_half
from edgedla.quantization.weights import channel_axis

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


@dataclass(frozen=True)
class Simulated:
    """The changed model, and the number of ONNX nodes by simulated precision, without folded nodes.

    Attributes:
        modes: per node of the original model "int8", "fp16", "fp32" (GPU), or "" (it becomes no layer).
        states: tensor -> how it is stored: "int8", "fp16", or "inner" if it never is; all others are FP32. A node whose
            mode differs from a tensor's state reads a copy in its own mode.
        prefix: begins the names of all added tensors, and of none of the model's.
    """

    model: ModelProto
    nodes_int8: int
    nodes_fp16: int
    nodes_fp32: int
    notes: Tuple[str, ...] = ()
    tensors: Tuple[str, ...] = ()
    modes: Tuple[str, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""


def simulate(model: ModelProto, plan: BuildPlan, *, adjustable: bool = False) -> Simulated:
    """A copy of an onnx.ModelProto that simulates the plan's precision. Inputs and outputs keep names and types.

    Args:
        adjustable: every tensor that is rounded to INT8 (`Simulated.tensors`) gets two more scalar inputs, `scale_input`
            and `switch_input`: its scale, and whether it is rounded at all. One session then serves any scales.
    """
    changed = _without_initializers(model)
    writer = _Writer(model, changed, plan, adjustable)
    writer.rewrite()
    return Simulated(
        rounded_half(changed) if FLOAT16 in writer.types.values() else changed,
        nodes_int8=writer.counts["int8"],
        nodes_fp16=writer.counts["fp16"],
        nodes_fp32=writer.counts["fp32"],
        notes=tuple(writer.notes),
        tensors=tuple(writer.rounding.adjusted),
        modes=tuple(writer.modes),
        states=writer.state,
        prefix=writer.rounding.prefix,
    )


class _Writer:
    """Walks the nodes in order and writes the changed graph.

    `state[t]`: how tensor t is already rounded. `weights[c]`: the model's own constant of which c is a rounded copy.
    """

    def __init__(self, model: ModelProto, changed: ModelProto, plan: BuildPlan, adjustable: bool) -> None:
        """Args:
        changed: a copy of the model without initializers. `rewrite` changes it, and adds the initializers still read.
        """
        self.model, self.changed, self.plan = model, changed, plan
        half_even = plan.numerics.get(INT8_ROUNDING) == "half-even"
        self.rounding = Rounding(changed, plan.calibration.absmax, half_even, adjustable)
        self.nodes, self.added_constants = self.rounding.nodes, self.rounding.constants
        self.modes, self.folded = node_modes(model, plan), folded_nodes(model, plan)
        self.state: Dict[str, str] = {}
        self.copies: Dict[Tuple[str, str], str] = {}
        self.constants = constants_of(model)
        self.weights: Dict[str, Any] = {}
        self.counts = {"int8": 0, "fp16": 0, "fp32": 0}
        self.notes: List[str] = []
        self.types = {name: kind for name, (kind, _) in tensor_types(model).items()}
        self.fused = fused_tensors(model)
        #: The Q/DQ of the model in a strongly typed release; without them modes tell what is rounded.
        self.pairs: Optional[Pairs] = None
        if plan.strongly_typed and plan.calibration.absmax:
            fp16 = {x.onnx_node for x in plan.layers if x.precision == "fp16"}
            self.pairs = Pairs(model, stored_ranges(model, plan.calibration.absmax), fp16)

    def rewrite(self) -> None:
        graph = self.changed.graph
        for i, node in enumerate(graph.node):
            mode = self.modes[i]
            if mode and not self.folded[i]:
                self.counts[mode] += 1
            if mode in ("", "fp32"):
                self.nodes.append(node)
                continue
            for k, name in enumerate(node.input):
                if name:
                    node.input[k] = self._weight(node, name, mode) if name in self.constants else self._read(node, k, mode)
            stored = [self._store(name, mode) for name in node.output]
            original = list(node.output)
            for k, inner in enumerate(stored):
                node.output[k] = inner
            self.nodes.extend(self._computed(node, mode))
            for name, inner in zip(original, stored):
                if inner != name:
                    self.rounding.add(inner, name, name, self.state[name])
        del graph.node[:]
        graph.node.extend(self.nodes)
        used = {o.name for o in graph.output}.union(*map(read_names, graph.node))
        graph.initializer.extend(i for i in self.model.graph.initializer if i.name in used)
        graph.initializer.extend(self.added_constants.values())

    def _computed(self, node: NodeProto, mode: str) -> Sequence[NodeProto]:
        """The node, or its replacement nodes with the chosen accumulator."""
        chosen = self.plan.numerics
        if mode == "fp16" and chosen.get(FP16_ACCUMULATION) == "fp16":
            return fp16_sums(node, self.added_constants, self.rounding.prefix)
        if mode == "int8" and chosen.get(INT8_ACCUMULATION) == "int32" and node.op_type in ("Conv", "Gemm"):
            given = self.weights.get(node.input[1])
            made = int32_sums(node, self.rounding.levels, given, self.added_constants, self.rounding.prefix)
            if made is not None:
                return made
            self.notes.append(
                f"{node.name or node.op_type} is summed in FP32: it reads a value that is not stored in INT8, or is more than x W + b"
            )
        return (node,)

    def _float(self, name: str) -> bool:
        # Treats an unknown type as float, as nearly every tensor on the DLA is.
        return self.types.get(name, FLOAT) == FLOAT

    def _read(self, node: NodeProto, slot: int, mode: str) -> str:
        """The tensor as a DLA node of this mode reads it: itself, or a copy rounded on the way in."""
        name = source = node.input[slot]
        state = self.state.get(name, "fp32")
        if self.pairs is not None:
            mode = "int8" if self.pairs.read_by(node, slot, name) else "fp16"
            # Another node may read the pair; this one stands in front of it.
            source = self._unrounded(name) if (state, mode) == ("int8", "fp16") else name
        if not self._float(name) or state in ("inner", mode):
            return name
        key = (name, mode)
        if key not in self.copies:
            self.copies[key] = f"{self.rounding.prefix}{mode}/{name}"
            self.rounding.add(source, self.copies[key], name, mode)
        return self.copies[key]

    def _store(self, name: str, mode: str) -> str:
        """The name that the node writes to; differs from `name` if a rounding follows."""
        if not name or not self._float(name):
            return name
        paired = self.pairs is not None and name in self.pairs.tensors
        reader = self.fused.get(name)
        if reader is not None and self.modes[reader] == mode and not paired:
            self.state[name] = "inner"
            return name
        if self.pairs is not None:
            mode = "int8" if paired and (mode == "int8" or self.pairs.output_through(name)) else "fp16"
        self.state[name] = mode
        return self._unrounded(name)

    def _unrounded(self, name: str) -> str:
        return f"{self.rounding.prefix}unrounded/{name}"

    def _weight(self, node: NodeProto, name: str, mode: str) -> str:
        """A copy of a constant as the DLA holds it; biases and other operands of INT8 layers stay as they are."""
        from onnx import numpy_helper

        tensor = self.constants[name]
        if tensor.data_type != FLOAT or (node.op_type in ("Resize", "Upsample") and name != node.input[0]):
            # Scales and regions of a Resize are parameters of the layer, not operands.
            return name
        slot = 1 if list(node.input[1:2]) == [name] else 0
        axis = channel_axis(node, slot, len(tensor.dims)) if mode == "int8" else None
        if mode == "int8" and axis is None:
            return name
        copy = f"{self.rounding.prefix}weights_{mode}_{'' if axis is None else axis}/{name}"
        if copy not in self.added_constants:
            values = numpy_helper.to_array(tensor)
            rounded = quantize_weights(values, axis) if axis is not None else fp16_weights(values)
            if not np.isfinite(rounded).all():
                what = "exceed FP16 and became infinite" if np.isfinite(values).all() else "hold NaN or infinity"
                self.notes.append(f"weights of {node.name or node.op_type} {what}: {name}")
            self.added_constants[copy] = numpy_helper.from_array(rounded.astype(np.float32), copy)
            self.weights[copy] = tensor
        return copy


def _without_initializers(model: ModelProto) -> ModelProto:
    """A copy of the model without its weights, which may be most of the memory."""
    import onnx

    changed = onnx.ModelProto()
    _copy_fields(model, changed, "graph")
    _copy_fields(model.graph, changed.graph, "initializer")
    return changed


def _copy_fields(source: Any, target: Any, but: str) -> None:
    for descriptor, value in source.ListFields():
        if descriptor.name == but:
            continue
        if isinstance(value, (str, bytes, int, float)):
            # protobuf reads a name or description that is not UTF-8 but cannot write it.
            with suppress(UnicodeDecodeError):
                setattr(target, descriptor.name, value)
        elif hasattr(value, "extend"):
            getattr(target, descriptor.name).extend(value)
        else:
            getattr(target, descriptor.name).CopyFrom(value)
