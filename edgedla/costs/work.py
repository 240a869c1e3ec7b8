"""The work of one layer as numbers: multiply-accumulates and the bytes that it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Dict, Mapping, Optional, Tuple

from edgedla.graph import ELEMENT_BYTES, Layer, LayerGraph, Tensor
from edgedla.graph.kinds import Kind, kind_of
from edgedla.regions.fusions import batch_of

#: Class of work of a TensorRT layer type, for costs:
#:   multiply   multiply-accumulates with weights (convolution) or a second operand
#:   pointwise  element by element: joins the operator before it
#:   stream     reads its input once, writes its output
#:   copy       moves data; free where only the view changes
#:   free       costs nothing: the producers write their results in place
WORK_CLASS: Mapping[str, str] = MappingProxyType(
    {
        "CONVOLUTION": "multiply",
        "DECONVOLUTION": "multiply",
        "EINSUM": "multiply",
        "FULLY_CONNECTED": "multiply",
        "MATRIX_MULTIPLY": "multiply",
        "ACTIVATION": "pointwise",
        "CAST": "pointwise",
        "DEQUANTIZE": "pointwise",
        "ELEMENTWISE": "pointwise",
        "PARAMETRIC_RELU": "pointwise",
        "QUANTIZE": "pointwise",
        "SCALE": "pointwise",
        "SELECT": "pointwise",
        "UNARY": "pointwise",
        "LRN": "stream",
        "NORMALIZATION": "stream",
        "POOLING": "stream",
        "REDUCE": "stream",
        "RESIZE": "stream",
        "SOFTMAX": "stream",
        "TOPK": "stream",
        "FILL": "copy",
        "GATHER": "copy",
        "PADDING": "copy",
        "SCATTER": "copy",
        "SHUFFLE": "copy",
        "SLICE": "copy",
        "CONCATENATION": "free",
        "CONSTANT": "free",
        "IDENTITY": "free",
        "SHAPE": "free",
        "SQUEEZE": "free",
        "UNSQUEEZE": "free",
    }
)

#: Types that the published figures hold, by kind of engine; others are predicted by the same terms, as a guess. SCALE is listed
#: for the batch normalisation that the published networks hold folded into their convolutions. A softmax on a DLA is a guess: all of
#: its figures are of one shape.
_FITTED_ANYWHERE = (
    "ACTIVATION",
    "CONCATENATION",
    "CONVOLUTION",
    "ELEMENTWISE",
    "LRN",
    "MATRIX_MULTIPLY",
    "POOLING",
    "REDUCE",
    "RESIZE",
    "SCALE",
)
FITTED_TYPES: Mapping[str, Tuple[str, ...]] = MappingProxyType({"DLA": _FITTED_ANYWHERE, "GPU": (*_FITTED_ANYWHERE, "SOFTMAX")})

#: Activations that NVDLA computes by its lookup tables (NVDLA hardware manual, "Single Data Point Processor"); RELU and
#: its kin are a comparison.
TABLE_ACTIVATIONS = frozenset({"SIGMOID", "TANH", "ELU", "SELU", "SOFTPLUS", "SOFTSIGN", "GELU_ERF", "GELU_TANH"})
#: Activations g that make x * g(x) one operator: SiLU, and the hard swish of MobileNetV3.
GATES = frozenset({"SIGMOID", "HARD_SIGMOID"})

#: Integer tensors keep their own width; all others take the engine's precision.
_OWN_WIDTH = ("INT32", "INT64", "BOOL", "UINT8", "INT4")


@dataclass(frozen=True)
class Work:
    """The work of one layer. Bytes are those of the tensors at the engine's precision.

    Attributes:
        kind: "dense", "first" (at most 4 input channels), "depthwise" (one channel per group),
            "stream", "pointwise", "copy" or "free".
        macs: multiply-accumulates of the whole batch.
        in_channels, out_channels: channels that one group reads; channels that all groups write.
        out_columns: width of the output, by which the DLA rounds up.
        read_bytes: the main activation input.
        operand_bytes: the other activation inputs.
        write_bytes: the outputs.
        weight_bytes: constants, read once.
        groups: of a convolution.
        samples: that a DLA works on one after the other: the batch, or the rows of a product with a constant matrix.
        table_elements: of an activation that a DLA looks up in a table.
        softmax_elements: of a softmax.
        slice_bytes: that a slice cuts out.
        gpu_pass_bytes: bytes that an activation by table, or a gate, after a convolution costs on a GPU, as if read and written again.
            TensorRT fuses ReLU; SiLU and its kin cost time there, as kernels of their own or not (rows p623 to p633).
        known: False for a layer type that WORK_CLASS does not name; it is counted as a stream.
        reads_dequantized: its graph shows with Q/DQ where it is at INT8.
    """

    kind: str
    macs: int = 0
    in_channels: int = 1
    out_channels: int = 1
    out_columns: int = 1
    read_bytes: float = 0.0
    operand_bytes: float = 0.0
    write_bytes: float = 0.0
    weight_bytes: float = 0.0
    groups: int = 1
    samples: float = 1
    table_elements: float = 0.0
    softmax_elements: float = 0.0
    slice_bytes: float = 0.0
    gpu_pass_bytes: float = 0.0
    known: bool = True
    reads_dequantized: bool = False

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Prices are looked up by the work many times. Numbers alone: they have the same hash in every process.
        return hash((self.macs, self.out_channels, self.read_bytes, self.operand_bytes, self.write_bytes, self.weight_bytes))

    @property
    def traffic_bytes(self) -> float:
        return self.read_bytes + self.operand_bytes + self.write_bytes + self.weight_bytes

    def moved_bytes(self, kind: str, fused: bool) -> float:
        """DRAM bytes on an engine of the kind ("GPU", "DLA"); `fused` behind another layer, only what it adds."""
        if not fused:
            return self.traffic_bytes
        return self.operand_bytes + self.weight_bytes + (self.gpu_pass_bytes if kind == "GPU" else 0.0)

    def scaled(self, batch: float) -> Work:
        """The same work for another batch: weights are read once, all else grows with the batch."""
        if batch == 1:
            return self
        grown = {name: getattr(self, name) * batch for name in _GROWING}
        return replace(self, macs=round(self.macs * batch), **grown)


#: What of a layer's work grows with the batch, beside its multiply-accumulates.
_GROWING = (
    "samples",
    "read_bytes",
    "operand_bytes",
    "write_bytes",
    "gpu_pass_bytes",
    "table_elements",
    "softmax_elements",
    "slice_bytes",
)


def tensor_bytes(tensor: Tensor, element_bytes: float) -> float:
    """Bytes of a packed tensor on an engine whose elements have `element_bytes`."""
    width = ELEMENT_BYTES[tensor.dtype] if tensor.dtype in _OWN_WIDTH else element_bytes
    return tensor.volume * width


def works_of(graph: LayerGraph, element_bytes: float) -> Tuple[Work, ...]:
    """`work_of` of each layer, which the graph keeps for every precision that asks; equal ones are one object."""
    known: Dict[Work, Work] = {}
    works = (work_of(layer, graph, element_bytes) for layer in graph.layers)
    return graph.once(f"work of {element_bytes} bytes", lambda _: tuple([known.setdefault(work, work) for work in works]))


def work_of(layer: Layer, graph: LayerGraph, element_bytes: float) -> Work:
    """The work of one layer that runs by itself.

    Args:
        element_bytes: 1 for INT8, 2 for FP16.
    """
    gate = gate_of(layer, graph)
    activations = sorted((tensor_bytes(t, element_bytes) for t in graph.activations(layer)), reverse=True)
    written = sum(tensor_bytes(t, element_bytes) for t in graph.output_tensors(layer))
    name = WORK_CLASS.get(layer.type, "stream")
    known = layer.type in WORK_CLASS
    if name == "multiply":
        return _multiply(layer, graph, element_bytes, activations, written)
    transposes = layer.params.get("first_transpose") or layer.params.get("second_transpose")
    if name == "copy" and layer.type == "SHUFFLE" and not transposes:
        name = "free"
    if name == "free":
        return Work(name, known=known)
    if layer.type == "SLICE":
        # Only the part that is cut out is read.
        activations = [min(activations[0], written)] if activations else []
    activation = layer.params.get("op") if layer.type == "ACTIVATION" else None
    has_table = activation in TABLE_ACTIVATIONS
    passes = (has_table or activation in GATES) and _follows_product(layer, graph)
    elements = float(sum(t.volume for t in graph.output_tensors(layer)))
    return Work(
        name,
        samples=batch_of(layer, graph),
        read_bytes=activations[0] if activations else 0.0,
        # The other operand of a gate is the tensor that it has already read.
        operand_bytes=0.0 if gate is not None else sum(activations[1:]),
        write_bytes=written,
        weight_bytes=sum(tensor_bytes(t, element_bytes) for t in graph.input_tensors(layer) if t.is_constant),
        table_elements=elements if has_table else 0.0,
        softmax_elements=elements if layer.type == "SOFTMAX" else 0.0,
        slice_bytes=written if layer.type == "SLICE" else 0.0,
        gpu_pass_bytes=sum(activations) + written if passes else 0.0,
        known=known,
        reads_dequantized=_reads_dequantized(layer, graph),
    )


def in_fp32(work: Work) -> Work:
    """The work of FP16 as a GPU does it in FP32: twice the bytes, and TF32 at half the rate, TensorRT's default (rows p517, p518)."""
    twice = ("macs", "read_bytes", "operand_bytes", "write_bytes", "weight_bytes", "gpu_pass_bytes")
    return replace(work, **{name: 2 * getattr(work, name) for name in twice})


def _reads_dequantized(layer: Layer, graph: LayerGraph) -> bool:
    producers = (graph.producer(name) for name in layer.inputs)
    return any(index is not None and graph.layers[index].type == "DEQUANTIZE" for index in producers)


def _follows_product(layer: Layer, graph: LayerGraph) -> bool:
    """Whether a convolution or a matrix product writes what the layer reads; a scale between them folds into it."""
    index = graph.producer(layer.inputs[0])
    while index is not None and graph.layers[index].type == "SCALE":
        index = graph.producer(graph.layers[index].inputs[0])
    return index is not None and WORK_CLASS.get(graph.layers[index].type) == "multiply"


def gate_of(layer: Layer, graph: LayerGraph) -> Optional[int]:
    """For the product of x and g(x), which nothing else reads, the index of that activation; g is one of GATES.

    Such a product is one operator, also on the GPU (rows p698 to p700, p687, p688, p694, p695).
    """
    if layer.type != "ELEMENTWISE" or layer.params.get("op") != "PROD" or len(layer.inputs) != 2:
        return None
    for x, gated in (layer.inputs, layer.inputs[::-1]):
        index = graph.producer(gated)
        if index is not None and graph.readers(gated) == (layer.index,) and gated not in graph.output_names:
            activation = graph.layers[index]
            if activation.type == "ACTIVATION" and activation.params.get("op") in GATES and activation.inputs[0] == x:
                return index
    return None


def _multiply(layer: Layer, graph: LayerGraph, element_bytes: float, activations: list[float], written: float) -> Work:
    kind = kind_of(layer, graph)
    groups = int(getattr(kind, "groups", 1))
    in_channels, out_channels = _channels(layer, kind)
    out = graph.tensors[layer.outputs[0]]
    if groups > 1:
        name = "depthwise" if in_channels == 1 else "dense"
    else:
        name = "first" if in_channels <= 4 and layer.type == "CONVOLUTION" else "dense"
    # The input that streams is the layer's first; the second operand of a product of two activations is held like weights.
    first = graph.tensors[layer.inputs[0]]
    read = 0.0 if first.is_constant else tensor_bytes(first, element_bytes)
    return Work(
        name,
        macs=kind.macs,
        in_channels=in_channels,
        out_channels=out_channels,
        groups=groups,
        # Of a product with a constant matrix TensorRT makes a convolution over 1 x 1, with a sample for each row (rule MATM004).
        samples=max(int(getattr(kind, "rows", 0)), 1) if layer.type == "MATRIX_MULTIPLY" else batch_of(layer, graph),
        out_columns=out.dims[-1] if out.rank >= 4 else 1,
        read_bytes=read,
        write_bytes=written,
        weight_bytes=kind.weight_elements * element_bytes + max(sum(activations) - read, 0.0),
        reads_dequantized=_reads_dequantized(layer, graph),
    )


def _channels(layer: Layer, kind: Kind) -> Tuple[int, int]:
    """(input channels of one group, output channels)."""
    groups = max(int(getattr(kind, "groups", 1)), 1)
    if layer.type in ("EINSUM", "MATRIX_MULTIPLY"):
        out = kind.out_volume
        return (kind.macs // out if out else 1), kind.out_dims[-1] if kind.out_dims else 1
    in_channels = int(getattr(kind, "in_channels", 0)) or kind.in_chw[0]
    out_channels = int(getattr(kind, "out_channels", 0)) or kind.out_chw[0]
    return max(in_channels // groups, 1), max(out_channels, 1)
