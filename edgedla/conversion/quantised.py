"""Quantised TFLite models for the DLA: the network in FP32, and the ranges of its INT8 tensors."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgedla.conversion.comparison import worst_difference
from edgedla.importers.model_file.tensor_types import FLOAT
from edgedla.importers.model_file.value_names import last_name
from edgedla.quantization.calibration_cache import INT8_MAX, write_cache
from edgedla.quantization.qdq import with_qdq
from edgedla.quantization.qdq.fold import drop_unread
from edgedla.quantization.qdq.nodes import constants_of, is_dequantize, is_quantize
from edgedla.quantization.qdq.unscaled import inner_ranges
from edgedla.quantization.weights import channel_axis, per_channel_absmax


class Levels(NamedTuple):
    """The meaning of integers: scale * (level - zero), along an axis if there are several scales."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    def numbers(self, levels: np.ndarray) -> np.ndarray:
        shape = [1] * levels.ndim
        if self.scale.size > 1:
            shape[self.axis] = -1
        scale, zero = self.scale.reshape(shape), self.zero.astype(np.float32).reshape(shape)
        result: np.ndarray = (levels.astype(np.float32) - zero) * scale
        return result.astype(np.float32)

    @property
    def text(self) -> str:
        return f"{self.zero.dtype.name.upper()}: {float(self.scale.flat[0]):.6g} * (value {-int(self.zero.flat[0]):+d})"


class Plain(NamedTuple):
    """A network without Q/DQ.

    Attributes:
        model: onnx.ModelProto in FP32. absmax: tensor -> its symmetric range, from its levels.
        ports: integer input or output -> the meaning of its integers.
        wider: tensor -> ratio of the symmetric step to its own step, if that is wider.
        weights: constants whose scales TensorRT does not reproduce: it uses absmax / 127 per channel.
    """

    model: Any
    absmax: Mapping[str, float]
    ports: Mapping[str, Levels]
    wider: Mapping[str, float]
    weights: Tuple[str, ...]


class Finished(NamedTuple):
    """A model in the platform's form, and facts about it: see Converted for the fields."""

    model: Any
    rel_l2: Optional[float]
    max_abs: Optional[float]
    tolerance: float
    cache: str = ""
    notes: Tuple[str, ...] = ()


#: Largest relative L2 difference of two networks that both round every tensor to 8 bits: where a sum lies between two
#: levels, a difference of one level spreads from layer to layer. ResNet-50 V2 and MobileNet V3 reach 0.015.
TOLERANCE_INT8 = 0.05


def finished(model: Any, inputs: Mapping[str, np.ndarray], expected: Sequence[np.ndarray], platform: Any) -> Finished:
    """The network in FP32 with a cache of its ranges, or with symmetric Q/DQ for a strongly typed TensorRT.

    Args:
        model: onnx.ModelProto with the source's own Q/DQ; this is compared with the source.
        inputs, expected: inputs and outputs of the source's run.
    """
    plain = plain_of(model)
    names = [value.name for value in model.graph.output]

    def numbers(arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        return list(as_numbers(dict(zip(names, arrays)), plain.ports).values())

    given, expected_floats = as_numbers(inputs, plain.ports), numbers(expected)
    float_l2, float_abs = worst_difference(plain.model, given, expected_floats)
    notes = []
    if _runs(model):
        rel_l2, max_abs = worst_difference(model, inputs, expected, numbers)
        notes.append(f"compared with its own Q/DQ in it; in FP32, without its rounding, relative L2 {float_l2:.2g}")
    else:
        # This error is that of the network without the source's rounding.
        rel_l2, max_abs = float_l2, float_abs
        notes.append("compared in FP32, without its rounding: ONNX Runtime has no Q/DQ of INT16 in this operator set")
    if not plain.absmax:
        return Finished(plain.model, rel_l2, max_abs, TOLERANCE_INT8, notes=tuple(notes))
    with_pairs = symmetric(plain)
    int8_l2, _ = worst_difference(with_pairs, given, expected_floats)
    typed = bool(platform.release.strongly_typed)
    notes += _notes(plain, int8_l2, typed)
    if typed:
        return Finished(with_pairs, rel_l2, max_abs, TOLERANCE_INT8, notes=tuple(notes))
    absmax = _before_rectifiers(plain)
    # TensorRT runs a layer in INT8 only if everything that it reads and writes has a scale.
    cache = write_cache({**inner_ranges(plain.model, absmax), **absmax}, platform.release.trt)
    return Finished(plain.model, rel_l2, max_abs, TOLERANCE_INT8, cache, tuple(notes))


def _before_rectifiers(plain: Plain) -> Dict[str, float]:
    """Tensor -> range after the rectifier that TFLite merges into the operator before it: the rectifier cuts off the rest."""
    graph, ranges = plain.model.graph, dict(plain.absmax)
    readers: Dict[str, int] = {value.name: 1 for value in graph.output}
    for node in graph.node:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    for node in reversed(graph.node):
        source = node.input[0] if node.op_type in ("Relu", "Clip") else ""
        if source and source not in ranges and node.output[0] in ranges and readers[source] == 1:
            ranges[source] = ranges[node.output[0]]
    return ranges


def _runs(model: Any) -> bool:
    """True if ONNX Runtime supports the model's Q/DQ."""
    from onnx import TensorProto

    return all(c.data_type not in (TensorProto.INT16, TensorProto.UINT16) for c in constants_of(model).values())


def _notes(plain: Plain, int8_l2: float, typed: bool) -> List[str]:
    where = "Q/DQ in the model" if typed else "the cache beside the model"
    notes = [
        f"scales of {len(plain.absmax)} tensors: {where}; INT8 with them, relative L2 {int8_l2:.2g} against the source "
        "(simulated; `edgedla quantize` measures it on samples)"
    ]
    if plain.wider:
        most = max(plain.wider.values())
        notes.append(
            f"the DLA's levels are 8 bits without zero points: {len(plain.wider)} of these tensors get steps up to {most:.3g} "
            "times as wide"
        )
    if plain.weights:
        notes.append(f"{len(plain.weights)} weights have scales that TensorRT sets anew: absmax / 127 of each channel")
    for name, levels in plain.ports.items():
        notes.append(f"{name} is FLOAT now, and was {levels.text}")
    return notes


def plain_of(model: Any) -> Plain:
    """The network without the Q/DQ that tf2onnx writes for TFLite's integers, with or without zero points."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    work = _Remover(changed)
    work.run()
    return Plain(changed, work.absmax, work.ports, work.wider, tuple(work.weights))


def as_numbers(arrays: Mapping[str, np.ndarray], ports: Mapping[str, Levels]) -> Dict[str, np.ndarray]:
    """The real numbers of integer inputs or outputs; other arrays stay unchanged."""
    return {name: ports[name].numbers(x) if name in ports else x for name, x in arrays.items()}


def symmetric(plain: Plain) -> Any:
    """The network with symmetric Q/DQ for its ranges: the DLA's INT8, except for scales that it requires to be equal."""
    return with_qdq(plain.model, plain.absmax)


class _Remover:
    def __init__(self, model: Any) -> None:
        self.graph = model.graph
        self.constants = constants_of(model)
        self.maker = {name: node for node in self.graph.node for name in node.output}
        self.inputs = {value.name: value for value in self.graph.input}
        self.absmax: Dict[str, float] = {}
        self.wider: Dict[str, float] = {}
        self.ports: Dict[str, Levels] = {}
        self.weights: List[str] = []
        #: Tensor -> the tensor that replaces it: for a Q its input, for a DQ the input of its Q.
        self.same: Dict[str, str] = {}
        #: Dequantised constants -> their levels and the meaning of these.
        self.stored: Dict[str, Tuple[np.ndarray, Levels]] = {}

    def run(self) -> None:
        removed = [node for node in self.graph.node if self._removed(node)]
        outputs = {value.name: value for value in self.graph.output}
        for node in removed:
            self._take(node)
        remaining = [node for node in self.graph.node if not self._removed(node)]
        remaining = [type(node).FromString(node.SerializeToString()) for node in remaining]
        for name, value in outputs.items():
            self._output(name, value, remaining)
        for node in remaining:
            for slot, name in enumerate(node.input):
                node.input[slot] = last_name(self.same, name)
        del self.graph.node[:]
        self.graph.node.extend(remaining)
        # These describe tensors that were integers.
        del self.graph.value_info[:]
        self._count_weights()
        drop_unread(self.graph)

    def _removed(self, node: Any) -> bool:
        """True if the node is removed. DynamicQuantizeLinear keeps its nodes: a scale computed at run time is in no file."""
        return (is_quantize(node) or is_dequantize(node)) and all(name in self.constants for name in node.input[1:3] if name)

    def _levels(self, node: Any) -> Levels:
        from onnx import numpy_helper

        scale = numpy_helper.to_array(self.constants[node.input[1]]).reshape(-1)
        # Without a zero point: UINT8 with 0 (ONNX, QuantizeLinear).
        zero = np.zeros(1, np.uint8)
        if len(node.input) > 2 and node.input[2]:
            zero = numpy_helper.to_array(self.constants[node.input[2]]).reshape(-1)
        return Levels(scale, zero, next((int(a.i) for a in node.attribute if a.name == "axis"), 1))

    def _take(self, node: Any) -> None:
        levels, source, made = self._levels(node), node.input[0], node.output[0]
        if is_dequantize(node) and source in self.constants:
            self._constant(source, made, levels)
            return
        self.same[made] = source
        if is_dequantize(node):
            for name in self._with_same_integers(source):
                if name in self.inputs and name not in self.ports:
                    self.ports[name] = levels
                    self._turn(self.inputs[name])
                    self._range(name, levels)
        self._range(last_name(self.same, source), levels)

    def _with_same_integers(self, name: str) -> Iterator[str]:
        """The tensor, and others with the same integers: a transpose may come before the DQ or after the Q."""
        pending = [name]
        while pending:
            tensor = pending.pop()
            yield tensor
            maker = self.maker.get(tensor)
            if maker is not None and not is_quantize(maker) and not is_dequantize(maker):
                pending.extend(maker.input if maker.op_type == "Concat" else maker.input[:1])

    def _range(self, tensor: str, levels: Levels) -> None:
        # If the tensor is rounded twice, the first levels count.
        if tensor in self.absmax or tensor in self.constants:
            return
        kind = np.iinfo(levels.zero.dtype)
        scale, zero = float(levels.scale[0]), int(levels.zero[0])
        self.absmax[tensor] = scale * max(abs(kind.min - zero), abs(kind.max - zero))
        step = self.absmax[tensor] / INT8_MAX / scale
        # A factor this small comes from level -128, which INT8 with zero point 0 has and the DLA has not.
        if step > 1.01:
            self.wider[tensor] = step

    def _constant(self, source: str, made: str, levels: Levels) -> None:
        from onnx import numpy_helper

        values = numpy_helper.to_array(self.constants[source])
        numbers = levels.numbers(values)
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(numbers), made))
        self.constants[made] = self.graph.initializer[-1]
        if values.dtype != np.int32:
            self.stored[made] = (values, levels)

    def _count_weights(self) -> None:
        """Finds constants whose largest level per output channel is not the one that absmax / 127 reproduces."""
        for node in self.graph.node:
            for slot, name in enumerate(node.input):
                if name not in self.stored:
                    continue
                values, levels = self.stored.pop(name)
                axis = channel_axis(node, slot, values.ndim)
                if axis is None:
                    continue
                shifted = values.astype(np.int32) - (levels.zero.astype(np.int32)[0])
                largest = per_channel_absmax(shifted, axis)
                if (largest[largest > 0] != INT8_MAX).any():
                    self.weights.append(name)

    def _output(self, name: str, value: Any, nodes: List[Any]) -> None:
        """Keeps an output's name; an integer output becomes one of real numbers."""
        maker = next((m for m in map(self.maker.get, self._with_same_integers(name)) if m is not None and is_quantize(m)), None)
        if maker is not None and value.type.tensor_type.elem_type != FLOAT:
            self.ports[name] = self._levels(maker)
            self._turn(value)
        tensor = last_name(self.same, name)
        if tensor == name:
            return
        made = next((node for node in nodes if tensor in node.output), None)
        if made is None or any(v.name == tensor for v in self.graph.output):
            from onnx import helper

            nodes.append(helper.make_node("Identity", [tensor], [name], name=f"{name}/identity"))
            del self.same[name]
            return
        made.output[list(made.output).index(tensor)] = name
        del self.same[name]
        self.same[tensor] = name
        if tensor in self.absmax:
            self.absmax[name] = self.absmax.pop(tensor)
        if tensor in self.wider:
            self.wider[name] = self.wider.pop(tensor)

    def _turn(self, value: Any) -> None:
        value.type.tensor_type.elem_type = FLOAT
