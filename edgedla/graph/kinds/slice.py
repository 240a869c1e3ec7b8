"""SLICE: a part of a tensor; also Split, Expand (stride 0), Tile (WRAP) and Pad (FILL, REFLECT, CLAMP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Set, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph

#: Layers between a convolution and a cut of its channels: each channel of the result is of the same channel of the operands.
CHANNELWISE = frozenset({"ACTIVATION", "ELEMENTWISE", "PARAMETRIC_RELU", "SCALE", "UNARY"})
#: Activations are written with fewer layers; a convolution for each of more parts costs more than any slice.
MOST_BETWEEN, MOST_PARTS = 12, 8


@dataclass(frozen=True)
class Slice(Kind):
    """ISliceLayer.

    Attributes:
        mode: STRICT_BOUNDS (DEFAULT in older releases), WRAP, CLAMP, FILL, REFLECT.
        stride: one for each sliced axis.
        static: start, size and stride are build-time constants.
        computed: start, size or stride come as tensors that TensorRT has to fold first, not as numbers in the layer.
        has_fill_input: a FILL slice with its own fill value.
        made_by: what the ONNX operator behind it asks for: "cut" (Slice, Split), "pad", "repeat" (Expand, Tile).
        readers: LayerType names of the layers that read the result.
        is_first: it reads an input of the network.
        parts_convolution: it takes channels of what one convolution makes, by itself or with activations behind it, and nothing but
            slices reads that.
    """

    TYPE: ClassVar[str] = "SLICE"

    out_dims: Tuple[int, ...] = (1, 32, 56, 56)
    mode: str = "STRICT_BOUNDS"
    stride: Tuple[int, ...] = (1, 1, 1, 1)
    static: bool = True
    computed: bool = False
    has_fill_input: bool = False
    made_by: str = "cut"
    readers: Tuple[str, ...] = ("CONVOLUTION",)
    is_first: bool = False
    parts_convolution: bool = False

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Slice:
        p = layer.params
        tensor_inputs = [graph.tensors[t] for t in layer.inputs[1:4] if t]
        mode = str(p.get("mode") or "STRICT_BOUNDS")
        common = cls.common(layer, graph)
        return cls(
            **common,
            mode="STRICT_BOUNDS" if mode == "DEFAULT" else mode,
            stride=tuple(p.get("stride") or ()),
            static=all(t.is_constant for t in tensor_inputs),
            computed=any(p.get(f"{name}_source") == "tensor" for name in ("start", "size", "stride")),
            has_fill_input=bool(p.get("has_fill_input")),
            made_by=_made_by(layer.onnx_op, mode, tuple(p.get("stride") or ())),
            is_first=layer.inputs[0] in graph.input_names,
            parts_convolution=_cuts_channels(common["in_dims"], common["out_dims"]) and _is_of_convolution(layer, graph),
            readers=tuple(sorted({graph.layers[i].type for i in graph.successors(layer.index)})),
        )

    @property
    def padding(self) -> str:
        """What the padding holds: "zero", "zero in front of its layer", "value", "mirror"; "" where nothing is padded.

        Zeros in front of a convolution, or of a pooling, can become padding of that layer; edges, reflections and
        repetitions cannot.
        """
        if self.made_by != "pad":
            return ""
        if self.mode != "FILL":
            return "mirror"
        if self.has_fill_input:
            return "value"
        inside = bool(self.readers) and set(self.readers) <= {"CONVOLUTION", "POOLING"}
        return "zero in front of its layer" if inside else "zero"

    @property
    def takes_all(self) -> bool:
        """It gives back what it takes, as GhostNet's do."""
        return self.made_by == "cut" and self.in_dims == self.out_dims and all(s > 0 for s in self.stride)

    @property
    def keeps_batch(self) -> bool:
        """The dims before C, H, W stay whole."""
        return self.in_dims[:-3] == self.out_dims[:-3]


def _made_by(onnx_op: str, mode: str, stride: Tuple[int, ...]) -> str:
    """Engine listings and logs name no operator: there mode and stride tell."""
    if onnx_op in ("Expand", "Tile"):
        return "repeat"
    if onnx_op == "Pad" or (not onnx_op and mode in ("FILL", "REFLECT", "CLAMP")):
        return "pad"
    return "repeat" if not onnx_op and (mode == "WRAP" or 0 in stride) else "cut"


def _cuts_channels(before: Tuple[int, ...], after: Tuple[int, ...]) -> bool:
    return len(before) == len(after) == 4 and before[:1] + before[2:] == after[:1] + after[2:] and before != after


def _is_of_convolution(layer: Layer, graph: LayerGraph) -> bool:
    """Whether one convolution of one group makes what the layer cuts, and only slices read it."""
    whole = layer.inputs[0]
    cuts = graph.readers(whole)
    if len(cuts) > MOST_PARTS or any(graph.layers[i].type != "SLICE" for i in cuts):
        return False
    pending = [whole]
    inside: Set[int] = set()
    convolutions = 0
    while pending:
        index = graph.producer(pending.pop())
        if index is None or len(inside) > MOST_BETWEEN:
            return False
        if index in inside:
            continue
        inside.add(index)
        maker = graph.layers[index]
        read = [t for t in maker.inputs if t and not graph.tensors[t].is_constant]
        if maker.type == "CONVOLUTION" and int(maker.params.get("groups", 1)) == 1:
            convolutions += 1
        elif maker.type in CHANNELWISE or _is_depthwise(maker, graph):
            pending += read
        else:
            return False
    inner = {t for i in inside for t in graph.layers[i].outputs} - {whole}
    return (
        convolutions == 1
        and not graph.output_names & {*inner, whole}
        and all(i in inside for t in inner for i in graph.readers(t))
    )


def _is_depthwise(layer: Layer, graph: LayerGraph) -> bool:
    """Whether it is a convolution that makes one channel of each."""
    dims = graph.tensors[layer.inputs[0]].dims
    groups = int(layer.params.get("groups", 1))
    return layer.type == "CONVOLUTION" and len(dims) == 4 and groups == int(layer.params["nb_output_maps"]) == dims[1]
