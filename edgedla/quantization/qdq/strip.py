"""Removes Q/DQ from a model. Gives plain ONNX, the range of each tensor, and the nodes that stay in FP16."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

import numpy as np

from edgedla.errors import ModelError
from edgedla.importers.model_file.value_names import last_name
from edgedla.quantization.calibration_cache import INT8_MAX
from edgedla.quantization.qdq.fold import drop_unread, fold_scales
from edgedla.quantization.qdq.nodes import METADATA, Quantizer, constants_of, is_dequantize, is_quantize, label, read_quantizer
from edgedla.quantization.qdq.unscaled import fp16_nodes, inner_ranges
from edgedla.quantization.weights import channel_axis, per_channel_absmax


@dataclass(frozen=True)
class Stripped:
    """A Q/DQ model in the form that TensorRT up to 10.7 takes for the DLA.

    Attributes:
        model: onnx.ModelProto without Q/DQ. Its metadata keeps the places of the pairs, for `with_qdq` to restore them.
        absmax: tensor -> range; scale = range / 127, exactly the model's scale in FP32.
        fp16_nodes: ONNX nodes that read or write a float tensor without Q/DQ: they stay in FP16 (--layerPrecisions).
        pairs: number of Q/DQ pairs on activations. weights: number of quantised weights.
        inner: tensor between a Conv and the operator that TensorRT fuses into it -> range of the tensor stored after
            it. The inner tensor itself is never stored.
        rounded_anew: DQ node of a weight -> by how much (relative) its scale exceeds absmax / 127 of a channel. TensorRT
            takes absmax / 127, so it rounds this channel to other levels than the model does.
    """

    model: Any
    absmax: Mapping[str, float]
    fp16_nodes: Tuple[str, ...]
    pairs: int
    weights: int
    inner: Mapping[str, float] = field(default_factory=dict)
    rounded_anew: Mapping[str, float] = field(default_factory=dict)

    @property
    def ranges(self) -> Mapping[str, float]:
        """Tensor -> range for a calibration cache. TensorRT needs a range of each tensor to run a layer in INT8."""
        return {**self.inner, **self.absmax}


def has_qdq(model: Any) -> bool:
    """True if the main graph holds a Q or DQ node."""
    return any(is_quantize(n) or is_dequantize(n) for n in model.graph.node)


def strip_qdq(model: Any) -> Stripped:
    """The model without Q/DQ.

    Raises:
        ModelError: a node that a calibration cache cannot express: a zero point, UINT8, weights with one scale for all
            channels, two scales for one tensor, unequal scales at a Concat, a Q without DQ. Names the node.
    """
    changed = deepcopy(model)
    fold_scales(changed)
    work = _Stripper(changed)
    work.run()
    return Stripped(
        changed,
        work.absmax,
        fp16_nodes(changed, work.absmax),
        work.pairs,
        len(work.weight_scales),
        inner_ranges(changed, work.absmax),
        work.rounded_anew,
    )


class _Stripper:
    def __init__(self, model: Any) -> None:
        self.model, self.graph = model, model.graph
        self.constants = constants_of(model)
        self.producer = {o: n for n in self.graph.node for o in n.output}
        self.readers: Dict[str, List[Tuple[Any, int]]] = {}
        for node in self.graph.node:
            for slot, name in enumerate(node.input):
                self.readers.setdefault(name, []).append((node, slot))
        self.outputs = {o.name for o in self.graph.output}
        self.scale_of: Dict[str, np.ndarray] = {}
        self.absmax: Dict[str, float] = {}
        self.edges: Dict[str, List[List[Any]]] = {}
        self.through: Set[str] = set()
        self.weight_scales: Dict[str, Any] = {}
        self.rounded_anew: Dict[str, float] = {}
        self.renamed: Dict[str, str] = {}
        self.pairs = 0

    def run(self) -> None:
        for node in list(self.graph.node):
            if is_quantize(node):
                self._check_readers(node)
            elif is_dequantize(node):
                self._take(node)
        remaining = [n for n in self.graph.node if not (is_quantize(n) or is_dequantize(n))]
        self._rename(remaining)
        nodes = [type(n).FromString(n.SerializeToString()) for n in remaining]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        self._refuse_unequal_concats()
        drop_unread(self.graph)
        self._remember()

    def _check_readers(self, node: Any) -> None:
        readers = self.readers.get(node.output[0], [])
        if node.output[0] in self.outputs:
            raise ModelError(
                "its INT8 result is an output of the network",
                where=label(node),
                allowed="Q/DQ pairs",
                hint="remove it, so that the output is FP32; `edgedla build --output-formats int8:chw32` makes INT8 of it. 127 times its "
                "scale is a range for the calibration cache",
            )
        if not readers or not all(is_dequantize(r) for r, _ in readers):
            raise ModelError(
                "its INT8 result is read by something other than DequantizeLinear", where=label(node), allowed="Q/DQ pairs"
            )

    def _take(self, node: Any) -> None:
        source = node.input[0]
        producer = self.producer.get(source)
        if producer is not None and is_quantize(producer):
            inner = producer.input[0]
            if inner in self.constants:
                self._float_weight(node, producer, inner)
            else:
                self._activation(node, producer, inner)
        elif source in self.constants:
            self._stored_weight(node, source)
        elif source in {i.name for i in self.graph.input}:
            raise ModelError(
                f"it reads the network's integer input {source!r}",
                where=label(node),
                allowed="Q/DQ pairs",
                hint="remove it, so that the input is FP32; `edgedla build --input-formats int8:chw32` takes INT8 there. 127 times its "
                "scale is a range for the calibration cache",
            )
        else:
            raise ModelError(
                "it reads an INT8 tensor that no QuantizeLinear made",
                where=label(node),
                hint="export Q/DQ pairs around float operators (QDQ format), no integer operators",
            )

    def _activation(self, node: Any, producer: Any, inner: str) -> None:
        scale = read_quantizer(producer, self.constants)
        back = read_quantizer(node, self.constants)
        if not scale.per_tensor or not back.per_tensor:
            raise ModelError("an activation has a scale per channel", where=label(producer), allowed="one scale per tensor")
        if scale.scales[0] != back.scales[0]:
            raise ModelError("Q and DQ have different scales", where=label(node), allowed="one scale for both of a pair")
        tensor = last_name(self.renamed, inner)
        if tensor in self.scale_of and self.scale_of[tensor] != scale.scales[0]:
            raise ModelError(
                f"tensor {tensor!r} is quantised with two scales", where=label(producer), allowed="one scale per tensor"
            )
        self.pairs += tensor not in self.scale_of
        self.scale_of[tensor] = scale.scales[0]
        self.absmax[tensor] = float(scale.scales[0]) * INT8_MAX
        self.renamed[node.output[0]] = tensor

    def _stored_weight(self, node: Any, source: str) -> None:
        """Replaces an INT8 (for a bias, INT32) constant and its DQ with the FP32 constant that the DQ outputs."""
        from onnx import numpy_helper

        levels = numpy_helper.to_array(self.constants[source])
        quantizer = read_quantizer(node, self.constants, weights=self.constants[source].data_type, shape=levels.shape)
        if levels.dtype == np.int8:
            self._weight(node, levels, quantizer)
        else:
            self._constant(node.output[0], _dequantized(levels, quantizer))

    def _float_weight(self, node: Any, producer: Any, inner: str) -> None:
        """Replaces an FP32 constant and its Q and DQ with the FP32 constant that they output."""
        from onnx import numpy_helper

        values = numpy_helper.to_array(self.constants[inner])
        quantizer = read_quantizer(producer, self.constants, shape=values.shape)
        levels = np.clip(np.rint(values / _spread(quantizer, values.ndim)), -128, 127)
        self._weight(node, levels, quantizer, values)

    def _weight(self, node: Any, levels: np.ndarray, quantizer: Quantizer, values: Optional[np.ndarray] = None) -> None:
        """Writes a constant that TensorRT, whose scale is absmax / 127 per channel, rounds to the same levels.

        Training may move weights while scales stay fixed. If a channel's largest level is below 127, no such constant
        exists; the trained weights (`values`) are written, so that they are rounded once and not twice.
        """
        axis = self._weight_axis(node, levels.shape, quantizer)
        constant = _dequantized(levels, quantizer)
        if axis is None:
            # A bias or an operand of Add or Mul: TensorRT does not quantise it.
            self._constant(node.output[0], constant)
            return
        largest = per_channel_absmax(levels.astype(np.int16), axis)
        # TensorRT has no level -128: one such weight would move the scale of its channel.
        constant = _dequantized(np.maximum(levels, -INT8_MAX), quantizer)
        low = (largest > 0) & (largest < INT8_MAX)
        if low.any():
            self.rounded_anew[label(node)] = float(INT8_MAX / largest[low].min() - 1)
            if values is not None:
                shape = [-1 if i == axis else 1 for i in range(levels.ndim)]
                constant = np.where(low.reshape(shape), values, constant)
        self._constant(node.output[0], constant)
        self.weight_scales[node.output[0]] = {"axis": axis, "scales": quantizer.scales.astype(">f4").tobytes().hex()}

    def _weight_axis(self, node: Any, shape: Tuple[int, ...], quantizer: Quantizer) -> Optional[int]:
        """The output channel axis, along which the scales run; None for a constant that is not a weight."""
        axes = {channel_axis(r, slot, len(shape)) for r, slot in self.readers.get(node.output[0], [])}
        axis = next((a for a in sorted(axes, key=str) if a is not None), None)
        if axis is None:
            return None
        if quantizer.per_tensor and shape[axis] > 1:
            raise ModelError(
                "the weights have one scale for all channels",
                where=label(node),
                allowed="one scale per output channel",
                hint="quantise with per_channel=True: TensorRT takes absmax / 127 of every channel",
            )
        if not quantizer.per_tensor and (quantizer.axis % len(shape) != axis or quantizer.scales.size != shape[axis]):
            raise ModelError(f"the weights have a scale along axis {quantizer.axis}", where=label(node), allowed=f"axis {axis}")
        return axis

    def _constant(self, name: str, values: np.ndarray) -> None:
        from onnx import numpy_helper

        tensor = numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name)
        self.graph.initializer.append(tensor)
        self.constants[name] = tensor

    def _rename(self, nodes: List[Any]) -> None:
        """Makes readers of a DQ read the tensor itself. A network output keeps its name."""
        for output in sorted(self.outputs & set(self.renamed)):
            tensor = last_name(self.renamed, output)
            self._keep_output(output, tensor, nodes)
        for node in nodes:
            for slot, name in enumerate(node.input):
                tensor = last_name(self.renamed, name)
                if tensor != name:
                    node.input[slot] = tensor
                    self.edges.setdefault(tensor, []).append([node.output[0], slot])

    def _keep_output(self, output: str, tensor: str, nodes: List[Any]) -> None:
        producer = self.producer.get(tensor)
        if producer is None or tensor in self.outputs:
            from onnx import helper

            # The pair was between an input, or another output, and this output.
            nodes.append(helper.make_node("Identity", [tensor], [output], name=f"{output}/identity"))
            del self.renamed[output]
            self.edges.setdefault(tensor, []).append([output, 0])
            return
        producer.output[list(producer.output).index(tensor)] = output
        del self.renamed[output]
        self.renamed[tensor] = output
        self.absmax[output] = self.absmax.pop(tensor)
        self.scale_of[output] = self.scale_of.pop(tensor)
        self.through.add(output)
        for node in nodes:
            for slot, name in enumerate(node.input):
                if name == tensor:
                    # Nodes that read the tensor before its Q, not through the pair.
                    node.input[slot] = output

    def _refuse_unequal_concats(self) -> None:
        for node in self.graph.node:
            if node.op_type != "Concat":
                continue
            scales = {t: self.scale_of[t] for t in (*node.input, node.output[0]) if t in self.scale_of}
            if len(set(map(float, scales.values()))) > 1:
                raise ModelError(
                    f"the tensors of a Concat have {len(set(map(float, scales.values())))} scales",
                    where=label(node),
                    allowed="one scale for all inputs and the output (rule SCALE002)",
                    hint="ModelOpt's --target_dla shares them; or calibrate with `edgedla quantize`",
                )

    def _remember(self) -> None:
        entry = self.model.metadata_props.add()
        entry.key = METADATA
        record = {"edges": self.edges, "outputs": sorted(self.through), "weights": self.weight_scales}
        entry.value = json.dumps(record, sort_keys=True, separators=(",", ":"))


def _spread(quantizer: Quantizer, rank: int) -> np.ndarray:
    """The scales in a shape that multiplies the tensor along its axis."""
    if quantizer.per_tensor:
        return quantizer.scales.reshape(())
    shape = [1] * rank
    shape[quantizer.axis % rank] = -1
    return quantizer.scales.reshape(shape)


def _dequantized(levels: np.ndarray, quantizer: Quantizer) -> np.ndarray:
    result: np.ndarray = levels.astype(np.float32) * _spread(quantizer, levels.ndim)
    return result
