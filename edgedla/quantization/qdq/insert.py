"""Inserts Q/DQ into a plain ONNX model: the form of INT8 that a strongly typed TensorRT network takes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Collection, Dict, List, Mapping, Set, Tuple

import numpy as np

from edgedla.errors import ModelError
from edgedla.importers.model_file.float16_tensors import HALF
from edgedla.importers.model_file.port_names import free_name, tensor_names
from edgedla.importers.model_file.tensor_types import FLOAT
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.qdq.nodes import DEQUANTIZE, METADATA, QUANTIZE, constants_of
from edgedla.quantization.qdq.pairs import Pairs
from edgedla.quantization.qdq.strip import has_qdq
from edgedla.quantization.weights import channel_axis, per_channel_absmax

#: First opset where QuantizeLinear has scales per channel.
MIN_OPSET = 13


def with_qdq(
    model: Any, absmax: Mapping[str, float], fp16_nodes: Collection[str] = (), *, half: bool = False, unsigned: bool = False
) -> Any:
    """A copy of an onnx.ModelProto with a symmetric INT8 Q/DQ pair on every tensor that has a range.

    Weights of Conv, ConvTranspose, Gemm and MatMul become INT8 constants behind a DQ, one scale per output channel,
    absmax / 127. Nodes in `fp16_nodes` keep their weights, read tensors without the pair, and write network outputs without one.
    A model from `strip_qdq` gets its pairs back exactly where they were.

    Args:
        absmax: tensor -> range; scale = range / 127 in FP32.
        fp16_nodes: names of nodes that stay in FP16.
        half: the pairs stand on FLOAT16 tensors, with FLOAT16 scales (operator set 19 or later).
        unsigned: tensors become UINT8 with zero point 128, the same levels; weights stay INT8.

    Raises:
        ModelError: the model holds Q/DQ already, or its opset is below 13.
    """
    if has_qdq(model):
        raise ModelError("the model holds Q/DQ already", hint="take it out first: strip_qdq, or `edgedla quantize`")
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset < MIN_OPSET:
        raise ModelError(f"opset {opset} has no scales per channel", allowed=f"opset {MIN_OPSET} or later")
    changed = deepcopy(model)
    _Inserter(changed, absmax, frozenset(fp16_nodes), half, unsigned).run()
    return changed


class _Inserter:
    def __init__(self, model: Any, absmax: Mapping[str, float], fp16: Collection[str], half: bool, unsigned: bool) -> None:
        self.kind, self.real = (HALF, np.float16) if half else (FLOAT, np.float32)
        self.middle = np.asarray(128, np.uint8) if unsigned else np.zeros((), np.int8)
        self.model, self.graph, self.absmax, self.fp16 = model, model.graph, absmax, fp16
        self.constants = constants_of(model)
        self.pairs = Pairs(model, absmax, fp16, self.kind)
        self.outputs, self.kept = self.pairs.outputs, self.pairs.kept
        self.nodes: List[Any] = []
        self.weights: Dict[str, str] = {}
        self.taken = set(tensor_names(self.graph))
        self.names: Dict[Tuple[str, str], str] = {}
        self.zero = ""

    def run(self) -> None:
        self.zero = self._initializer(self._named("edgedla", "zero_point"), self.middle)
        old = list(self.graph.node)
        quantised: Set[str] = set()
        paired = self.pairs.tensors
        for entry in self.graph.input:
            if entry.name not in self.constants and entry.name in paired:
                self._pair(entry.name, entry.name, self._named(entry.name, "dequantized"), quantised)
        for node in old:
            self._read(node)
            names = list(node.output)
            for slot, name in enumerate(names):
                if name in paired and self.pairs.output_through(name):
                    node.output[slot] = self._named(name, "unquantized")
            self.nodes.append(node)
            for name, inner in zip(names, node.output):
                if name in paired:
                    self._pair(name, inner, name if inner != name else self._named(name, "dequantized"), quantised)
        fresh = [type(n).FromString(n.SerializeToString()) for n in self.nodes]
        del self.graph.node[:]
        self.graph.node.extend(fresh)
        used = {name for node in self.graph.node for name in node.input} | self.outputs
        initializers = [i for i in self.graph.initializer if i.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(initializers)
        entries = [e for e in self.model.metadata_props if e.key != METADATA]
        del self.model.metadata_props[:]
        self.model.metadata_props.extend(entries)

    def _read(self, node: Any) -> None:
        names = list(node.input)
        for slot, name in enumerate(names):
            if name in self.constants:
                node.input[slot] = self._weight(node, slot, name, names[0])
            elif self.pairs.read_by(node, slot, name):
                if not self.pairs.output_through(name):
                    node.input[slot] = self._named(name, "dequantized")
            elif self.pairs.wants(name) and self.pairs.output_through(name):
                node.input[slot] = self._named(name, "unquantized")

    def _weight(self, node: Any, slot: int, name: str, data: str) -> str:
        from onnx import numpy_helper

        tensor = self.constants[name]
        axis = channel_axis(node, slot, len(tensor.dims))
        stood = self.kept.get("weights", {}) if self.kept else None
        # In a network from strip_qdq exactly the weights that were quantised are quantised again.
        gets_pair = name in stood if stood is not None else not (node.name and node.name in self.fp16)
        if axis is None or tensor.data_type != self.kind or not gets_pair:
            return name
        if stood is None and not self.pairs.wants(data):
            return name
        if name not in self.weights:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            scales = self._scales(name, values, axis, stood).astype(self.real).astype(np.float32)
            shape = [1] * values.ndim
            shape[axis] = -1
            levels = np.clip(np.rint(values / scales.reshape(shape)), -128, 127).astype(np.int8)
            inputs = [
                self._initializer(self._named(name, "int8"), levels),
                self._initializer(self._named(name, "scale"), scales.astype(self.real)),
                self._initializer(self._named(name, "zero_point"), np.zeros(len(scales), np.int8)),
            ]
            self._node(DEQUANTIZE, inputs, self._named(name, "dequantized"), axis=axis)
            self.weights[name] = self._named(name, "dequantized")
        return self.weights[name]

    def _scales(self, name: str, values: np.ndarray, axis: int, stood: Any) -> np.ndarray:
        if stood and name in stood:
            recorded = np.frombuffer(bytes.fromhex(stood[name]["scales"]), ">f4").astype(np.float32)
            if recorded.size in (1, values.shape[axis]):
                return np.ascontiguousarray(np.broadcast_to(recorded, values.shape[axis]))
        top = per_channel_absmax(values.astype(np.float64), axis)
        # A channel of zeros needs a positive scale too.
        scales: np.ndarray = np.where(top > 0, top / INT8_MAX, 1.0).astype(np.float32)
        return scales

    def _pair(self, name: str, source: str, target: str, done: Set[str]) -> None:
        if name in done:
            return
        done.add(name)
        scale = self._initializer(self._named(name, "scale"), np.asarray(self.absmax[name] / INT8_MAX, self.real))
        self._node(QUANTIZE, [source, scale, self.zero], self._named(name, "int8"))
        self._node(DEQUANTIZE, [self._named(name, "int8"), scale, self.zero], target)

    def _named(self, name: str, what: str) -> str:
        """The name of a new tensor beside one of the model's: "bn/scale", unless the model has one of that name."""
        key = (name, what)
        if key not in self.names:
            self.names[key] = free_name(f"{name}/{what}", self.taken)
            self.taken.add(self.names[key])
        return self.names[key]

    def _node(self, op: str, inputs: List[str], output: str, **attributes: Any) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{output}/{op}", **attributes))

    def _initializer(self, name: str, values: np.ndarray) -> str:
        from onnx import numpy_helper

        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name
