"""SLICE: a part of a tensor; also Split, Expand (stride 0), Tile (WRAP) and Pad (FILL, REFLECT, CLAMP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.graph.layer import Layer
from edgedla.graph.layer_graph import LayerGraph


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

    @classmethod
    def of(cls, layer: Layer, graph: LayerGraph) -> Slice:
        p = layer.params
        tensor_inputs = [graph.tensors[t] for t in layer.inputs[1:4] if t]
        mode = str(p.get("mode") or "STRICT_BOUNDS")
        return cls(
            **cls.common(layer, graph),
            mode="STRICT_BOUNDS" if mode == "DEFAULT" else mode,
            stride=tuple(p.get("stride") or ()),
            static=all(t.is_constant for t in tensor_inputs),
            computed=any(p.get(f"{name}_source") == "tensor" for name in ("start", "size", "stride")),
            has_fill_input=bool(p.get("has_fill_input")),
            made_by=_made_by(layer.onnx_op, mode, tuple(p.get("stride") or ())),
            is_first=layer.inputs[0] in graph.input_names,
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
