"""ONNX nodes that round a tensor as the DLA stores it: to FP16, or to INT8 with a fixed or an adjustable scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Tuple

import numpy as np

from edgedla.importers.model_file.port_names import free_prefix
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.session import import_onnxruntime

if TYPE_CHECKING:
    from onnx import ModelProto

#: onnx.TensorProto.FLOAT and FLOAT16.
FLOAT, FLOAT16 = 1, 10


def scale_input(prefix: str, tensor: str) -> str:
    """Name of the FP32 scalar input that holds a tensor's scale in an adjustable simulation with this prefix."""
    return f"{prefix}scale/{tensor}"


def switch_input(prefix: str, tensor: str) -> str:
    """Name of the BOOL scalar input that says whether a tensor is rounded in an adjustable simulation."""
    return f"{prefix}switch/{tensor}"


class Rounding:
    """Appends rounding nodes to `nodes`, and the constants that they read to `constants`.

    A new tensor's name is the prefix, a word without a slash for what it is, a slash and the name it belongs to: no two
    are the same, and none is the model's own.

    Attributes:
        prefix: with which no name of the model begins.
        adjusted: tensors that got a scale input and a switch input, in this order.
        levels: name of a rounded tensor -> (name of its integers, its scale); fixed scales only.
    """

    def __init__(self, model: ModelProto, absmax: Mapping[str, float], half_even: bool, adjustable: bool) -> None:
        """Args:
        model: gets the scalar inputs of adjustable scales. absmax: tensor -> range.
        half_even: True rounds halves to even, as ONNX does; False rounds them away from zero, as the DLA does.
        """
        self.model, self.absmax, self.adjustable = model, absmax, adjustable
        self.prefix = free_prefix("edgedla", model.graph)
        # q = clamp(round(x / s * (1 + 2^-22)), -128, 127): QuantizeLinear rounds halves to even, the DLA away from zero
        # (developer guide 8.6.1, quantization table). The factor moves a half, and values up to 4 units in the last
        # place below it, past the half. The division itself is no more exact than that.
        self.away = 1.0 if half_even else 1 + 2.0**-22
        self.nodes: List[Any] = []
        self.constants: Dict[str, Any] = {}
        self.adjusted: Dict[str, None] = {}
        self.levels: Dict[str, Tuple[str, float]] = {}

    def add(self, source: str, target: str, tensor: str, mode: str) -> None:
        """Rounds the value `source` of a tensor into `target`. `mode`: "fp16" or "int8"."""
        if mode == "fp16":
            self._node("Cast", [source], f"{self.prefix}half/{target}", to=FLOAT16)
            self._node("Cast", [f"{self.prefix}half/{target}"], target, to=FLOAT)
        elif self.adjustable:
            self._adjustable(source, target, tensor)
        else:
            self._fixed(source, target, self.absmax[tensor] / INT8_MAX)

    def _fixed(self, source: str, target: str, scale: float) -> None:
        zero, levels = self._scalar(0, np.int8), f"{self.prefix}levels/{target}"
        self._node("QuantizeLinear", [source, self._scalar(scale / self.away), zero], levels)
        self._node("DequantizeLinear", [levels, self._scalar(scale), zero], target)
        self.levels[target] = (levels, scale)

    def _adjustable(self, source: str, target: str, tensor: str) -> None:
        from onnx import TensorProto, helper

        scale, switch, zero = (scale_input(self.prefix, tensor), switch_input(self.prefix, tensor), self._scalar(0, np.int8))
        scaled = f"{self.prefix}away/{tensor}"
        if tensor not in self.adjusted:
            self.adjusted[tensor] = None
            self.model.graph.input.append(helper.make_tensor_value_info(scale, TensorProto.FLOAT, []))
            self.model.graph.input.append(helper.make_tensor_value_info(switch, TensorProto.BOOL, []))
            self._node("Div", [scale, self._scalar(self.away)], scaled)
        levels, rounded, same = (f"{self.prefix}{part}/{target}" for part in ("levels", "rounded", "same"))
        quantize = helper.make_node("QuantizeLinear", [source, scaled, zero], [levels])
        dequantize = helper.make_node("DequantizeLinear", [levels, scale, zero], [rounded])
        if not _runs_branches():
            self.nodes.extend((quantize, dequantize))
            self._node("Where", [switch, rounded, source], target)
            return
        # If instead of Where, which computes both sides: a run that rounds one tensor would pay for all of them.
        self._node(
            "If",
            [switch],
            target,
            then_branch=_branch([quantize, dequantize], rounded),
            else_branch=_branch([helper.make_node("Identity", [source], [same])], same),
        )

    def _node(self, op: str, inputs: List[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{self.prefix}{op}/{output}", **attributes))

    def _scalar(self, value: float, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        number = dtype(value)
        name = f"{self.prefix}{number.dtype}/{float(number).hex()}"
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(number), name)
        return name


def _runs_branches() -> bool:
    """True if this ONNX Runtime accepts quantised values inside If: 1.19 crashes the process, 1.23 does not."""
    version = import_onnxruntime().__version__.split(".")
    return tuple(int(part) for part in version[:2]) >= (1, 23)


def _branch(nodes: List[Any], output: str) -> Any:
    """A GraphProto that gives one float tensor of any shape."""
    import onnx
    from onnx import helper

    kind = onnx.TypeProto()
    kind.tensor_type.elem_type = FLOAT
    return helper.make_graph(nodes, output, [], [onnx.ValueInfoProto(name=output, type=kind)])
