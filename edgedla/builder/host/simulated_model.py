"""An ONNX model with the DLA's precision put into it: FP16 rounding and INT8 fake quantisation where the plan says DLA.

What is simulated: the values that the DLA stores between its operations, and its weights. Not simulated: its internal
accumulators, its tactics, its speed. What the plan puts on the GPU stays FP32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Sequence, Set, Tuple

import numpy as np

from edgedla.builder.host.accumulation import fp16_sums, int32_sums
from edgedla.builder.host.fused import fused_tensors
from edgedla.builder.plan.plan import BuildPlan, LayerPlan
from edgedla.formats.pack import dequantize, quantize
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.numerics import FP16_ACCUMULATION, INT8_ACCUMULATION, INT8_GATES, INT8_ROUNDING
from edgedla.quantization.qdq.nodes import constants_of
from edgedla.quantization.scale_rules import scale_rules
from edgedla.quantization.tensor_types import tensor_types
from edgedla.quantization.weights import channel_axis
from edgedla.vocabulary import GPU

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_FLOAT = 1
#: What INT8_GATES is about (rules/int8_scales.yaml, SCALE030).
GATES = frozenset({"Sigmoid", "Tanh"})


@dataclass(frozen=True)
class Simulated:
    """The changed model, and how many ONNX nodes run in which simulated precision.

    Attributes:
        modes: of each node of the model that came: "int8", "fp16", "fp32" (GPU), "" (no layer does its work).
        states: how a tensor is stored: "int8", "fp16", or "inner" where it never is; the others are FP32. A node reads
            a tensor that is stored otherwise than its own mode by way of a copy in its mode.
    """

    model: ModelProto
    nodes_int8: int
    nodes_fp16: int
    nodes_fp32: int
    notes: Tuple[str, ...] = ()
    tensors: Tuple[str, ...] = ()
    modes: Tuple[str, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)


def simulate(model: ModelProto, plan: BuildPlan, *, adjustable: bool = False) -> Simulated:
    """A copy of an onnx.ModelProto with the plan's precision in it. Inputs and outputs keep names and types.

    Args:
        adjustable: every tensor that is rounded to INT8 (`Simulated.tensors`) gets two more scalar inputs, `scale_input`
            and `switch_input`: its scale, and whether it is rounded at all. One session then serves any scales.
    """
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    writer = _Writer(changed, plan, adjustable)
    writer.rewrite()
    return Simulated(
        changed,
        nodes_int8=writer.counts["int8"],
        nodes_fp16=writer.counts["fp16"],
        nodes_fp32=writer.counts["fp32"],
        notes=tuple(writer.notes),
        tensors=tuple(writer.adjusted),
        modes=tuple(writer.modes),
        states=writer.state,
    )


def scale_input(tensor: str) -> str:
    """Name of the FP32 scalar input that holds a tensor's scale in an adjustable simulation."""
    return f"edgedla/scale/{tensor}"


def switch_input(tensor: str) -> str:
    """Name of the BOOL scalar input that says whether a tensor is rounded in an adjustable simulation."""
    return f"edgedla/rounded/{tensor}"


def node_modes(model: ModelProto, plan: BuildPlan) -> List[str]:
    """For every ONNX node of the main graph "int8", "fp16", "fp32" (GPU), or "" where it becomes no layer.

    A node runs on the DLA where all layers that do its work do. INT8 needs a scale for every tensor it reads and
    writes; without one TensorRT runs the layer in FP16 (calibration chapter of the 8.6.1 guide; rule Q-01).
    """
    by_node: Dict[str, List[LayerPlan]] = {}
    by_output: Dict[str, List[LayerPlan]] = {}
    for layer in plan.layers:
        if layer.onnx_node:
            by_node.setdefault(layer.onnx_node, []).append(layer)
        for output in layer.outputs:
            by_output.setdefault(output, []).append(layer)
    constants = {i.name for i in model.graph.initializer}
    constants |= {o for node in model.graph.node if node.op_type == "Constant" for o in node.output}
    scaled, fp16_only = set(plan.calibration.absmax), scale_rules().fp16_only
    # In INT8 by choice: the plan's own FP16 for them is the default of this very feature.
    gates = GATES if plan.numerics.get(INT8_GATES) == "int8" else frozenset()
    modes = []
    for node in model.graph.node:
        layers = by_node.get(node.name, []) if node.name else []
        layers = layers or [x for o in node.output for x in by_output.get(o, [])]
        working = [x for x in layers if x.type not in ("SHUFFLE", "SQUEEZE", "UNSQUEEZE")] or layers
        if not working:
            modes.append("")
            continue
        if any(x.device == GPU for x in working):
            modes.append("fp32")
            continue
        activations = [t for t in (*node.input, *node.output) if t and t not in constants]
        int8 = (
            plan.precision == "int8"
            and (node.op_type in gates or node.op_type not in fp16_only)
            and all(node.op_type in gates or x.precision in (None, "int8") for x in working)
            and all(t in scaled for t in activations)
        )
        modes.append("int8" if int8 else "fp16")
    return modes


class _Writer:
    """Walks the nodes in order and writes the changed graph. `state[t]`: how tensor t is already rounded."""

    def __init__(self, model: ModelProto, plan: BuildPlan, adjustable: bool) -> None:
        self.model, self.plan = model, plan
        self.adjustable = adjustable
        self.adjusted: Dict[str, None] = {}
        self.modes = node_modes(model, plan)
        self.state: Dict[str, str] = {}
        self.copies: Dict[Tuple[str, str], str] = {}
        self.constants = constants_of(model)
        self.added_constants: Dict[str, Any] = {}
        #: Tensor in INT8 as it is read -> (the same in integers, its scale).
        self.levels: Dict[str, Tuple[str, float]] = {}
        # A half is moved past itself; halves to even is what QuantizeLinear does.
        self.away = 1.0 if plan.numerics.get(INT8_ROUNDING) == "half-even" else 1 + 2.0**-22
        self.nodes: List[Any] = []
        self.counts = {"int8": 0, "fp16": 0, "fp32": 0}
        self.notes: List[str] = []
        self.types = {name: kind for name, (kind, _) in tensor_types(model).items()}
        self.fused = fused_tensors(model)

    def rewrite(self) -> None:
        graph = self.model.graph
        for i, node in enumerate(graph.node):
            mode = self.modes[i]
            if mode:
                self.counts[mode] += 1
            if mode in ("", "fp32"):
                self.nodes.append(node)
                continue
            for k, name in enumerate(node.input):
                if name:
                    node.input[k] = self._weight(node, name, mode) if name in self.constants else self._read(name, mode)
            stored = [self._store(name, mode) for name in node.output]
            original = list(node.output)
            for k, inner in enumerate(stored):
                node.output[k] = inner
            self.nodes += self._computed(node, mode)
            for name, inner in zip(original, stored):
                if inner != name:
                    self._round(inner, name, mode)
        del graph.node[:]
        graph.node.extend(self.nodes)
        used = _names_read(graph)
        kept = [i for i in graph.initializer if i.name in used]
        del graph.initializer[:]
        graph.initializer.extend((*kept, *self.added_constants.values()))

    def _computed(self, node: NodeProto, mode: str) -> Sequence[NodeProto]:
        """The node, or what computes it with the accumulator that was chosen."""
        chosen = self.plan.numerics
        if mode == "fp16" and chosen.get(FP16_ACCUMULATION) == "fp16":
            return fp16_sums(node, self.added_constants)
        if mode == "int8" and chosen.get(INT8_ACCUMULATION) == "int32" and node.op_type == "Conv":
            made = int32_sums(node, self.levels, self.constants, self.added_constants)
            if made is not None:
                return made
            self.notes.append(
                f"{node.name or node.op_type} is summed in FP32: it reads a value that is not stored in INT8"
            )
        return (node,)

    def _float(self, name: str) -> bool:
        # An unknown type is taken for a float: nearly every tensor on the DLA is one.
        return self.types.get(name, _FLOAT) == _FLOAT

    def _read(self, name: str, mode: str) -> str:
        """The tensor as a DLA node of this mode reads it: itself, or a copy rounded on the way in."""
        if not self._float(name) or self.state.get(name, "fp32") in ("inner", mode):
            return name
        key = (name, mode)
        if key not in self.copies:
            self.copies[key] = f"{name}/dla_{mode}"
            self._round(name, self.copies[key], mode)
        return self.copies[key]

    def _store(self, name: str, mode: str) -> str:
        """The name under which the node writes; another than `name` where a rounding follows."""
        if not name or not self._float(name):
            return name
        reader = self.fused.get(name)
        if reader is not None and self.modes[reader] == mode:
            self.state[name] = "inner"
            return name
        self.state[name] = mode
        return f"{name}/unrounded"

    def _weight(self, node: NodeProto, name: str, mode: str) -> str:
        """A copy of a constant as the DLA holds it; biases and other operands of INT8 layers stay as they are."""
        from onnx import numpy_helper

        tensor = self.constants[name]
        if tensor.data_type != _FLOAT or (node.op_type in ("Resize", "Upsample") and name != node.input[0]):
            # Scales and regions of a Resize are parameters of the layer, no values that it computes with.
            return name
        slot = 1 if list(node.input[1:2]) == [name] else 0
        axis = channel_axis(node, slot, len(tensor.dims)) if mode == "int8" else None
        if mode == "int8" and axis is None:
            return name
        copy = f"{name}/dla_{mode}_{'' if axis is None else axis}"
        if copy not in self.added_constants:
            values = numpy_helper.to_array(tensor)
            rounded = quantize_weights(values, axis) if axis is not None else _round_fp16(values)
            if not np.isfinite(rounded).all():
                self.notes.append(f"weights of {node.name or node.op_type} exceed FP16 and became infinite: {name}")
            self.added_constants[copy] = numpy_helper.from_array(rounded.astype(np.float32), copy)
        return copy

    def _round(self, source: str, target: str, mode: str) -> None:
        if mode == "fp16":
            self._add("Cast", [source], target + "/half", to=10)
            self._add("Cast", [target + "/half"], target, to=_FLOAT)
            return
        # q = clamp(round(x / s * (1 + 2^-22)), -128, 127): QuantizeLinear rounds halves to even, the DLA away from zero
        # (developer guide 8.6.1, quantization table). The factor moves a half, and what lies within 4 units in the last
        # place below it, past the half; the division itself is no more exact than that.
        name = target[: -len("/dla_int8")] if target.endswith("/dla_int8") else target
        if self.adjustable:
            self._round_adjustable(source, target, name)
            return
        scale = self.plan.calibration.absmax[name] / INT8_MAX
        zero = self._scalar(0, np.int8)
        levels = f"{target}/levels"
        self._add("QuantizeLinear", [source, self._scalar(scale / self.away), zero], levels)
        self._add("DequantizeLinear", [levels, self._scalar(scale), zero], target)
        self.levels[target] = (levels, scale)

    def _round_adjustable(self, source: str, target: str, name: str) -> None:
        from onnx import TensorProto, helper

        scale, switch, zero = scale_input(name), switch_input(name), self._scalar(0, np.int8)
        if name not in self.adjusted:
            self.adjusted[name] = None
            self.model.graph.input.append(helper.make_tensor_value_info(scale, TensorProto.FLOAT, []))
            self.model.graph.input.append(helper.make_tensor_value_info(switch, TensorProto.BOOL, []))
            self._add("Div", [scale, self._scalar(self.away)], f"{scale}/away")
        levels, rounded = f"{target}/levels", f"{target}/rounded"
        self._add("QuantizeLinear", [source, f"{scale}/away", zero], levels)
        self._add("DequantizeLinear", [levels, scale, zero], rounded)
        self._add("Where", [switch, rounded, source], target)

    def _add(self, op: str, inputs: List[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], name=f"edgedla/{output}", **attributes))

    def _scalar(self, value: float, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        number = dtype(value)
        name = f"edgedla/{number.dtype}_{float(number).hex()}"
        if name not in self.added_constants:
            self.added_constants[name] = numpy_helper.from_array(np.asarray(number), name)
        return name


def quantize_weights(values: np.ndarray, axis: int) -> np.ndarray:
    """Weights through INT8 and back: w' = s_k * q(w / s_k), s_k = max |w| of output channel k / 127."""
    moved = np.moveaxis(values, axis, 0)
    channels = np.ascontiguousarray(moved, np.float32).reshape(len(moved), -1)
    absmax = np.abs(channels).max(1, initial=0.0).astype(np.float64)
    used = np.isfinite(absmax) & (absmax > 0)
    scales = np.where(used, absmax / INT8_MAX, 1.0)[:, None]
    # A channel of zeros, or with a value that is no number, stays as it is.
    result = np.where(used[:, None], dequantize(quantize(channels, scales), scales), channels)
    return np.moveaxis(result.reshape(moved.shape), 0, axis)


def _names_read(graph: Any) -> Set[str]:
    """Every tensor that a node reads, in subgraphs too, and the graph's outputs."""
    names = {o.name for o in graph.output}
    for node in graph.node:
        names.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= _names_read(inner)
    return names


def _round_fp16(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)
