"""Tensors and layers while a network is being built, their names, and which of them are build-time constants."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from edgedla.importers.network.known import KnownValue
from edgedla.importers.network.limits import MAX_LAYERS

Dims = Tuple[int, ...]

#: How TensorRT writes a layer type in the name of a layer that has none of its own: "(Unnamed Layer* 7) [ElementWise]".
TYPE_WORDS: Dict[str, str] = {
    "ACTIVATION": "Activation",
    "CAST": "Cast",
    "CONCATENATION": "Concatenation",
    "CONDITION": "IfCondition",
    "CONDITIONAL_INPUT": "ConditionalInput",
    "CONDITIONAL_OUTPUT": "ConditionalOutput",
    "CONSTANT": "Constant",
    "CONVOLUTION": "Convolution",
    "CUMULATIVE": "Cumulative",
    "DECONVOLUTION": "Deconvolution",
    "DEQUANTIZE": "Dequantize",
    "EINSUM": "Einsum",
    "ELEMENTWISE": "ElementWise",
    "FILL": "Fill",
    "GATHER": "Gather",
    "GRID_SAMPLE": "GridSample",
    "IDENTITY": "Identity",
    "ITERATOR": "Iterator",
    "LOOP_OUTPUT": "LoopOutput",
    "LRN": "LRN",
    "MATRIX_MULTIPLY": "Matrix Multiply",
    "NMS": "Nms",
    "NON_ZERO": "NonZero",
    "NORMALIZATION": "Normalization",
    "ONE_HOT": "OneHot",
    "PARAMETRIC_RELU": "ParametricReLU",
    "PLUGIN_V2": "PluginV2",
    "PLUGIN_V3": "PluginV3",
    "POOLING": "Pooling",
    "QUANTIZE": "Quantize",
    "RECURRENCE": "Recurrence",
    "REDUCE": "Reduce",
    "RESIZE": "Resize",
    "REVERSE_SEQUENCE": "ReverseSequence",
    "SCALE": "Scale",
    "SCATTER": "Scatter",
    "SELECT": "Select",
    "SHAPE": "Shape",
    "SHUFFLE": "Shuffle",
    "SLICE": "Slice",
    "SOFTMAX": "Softmax",
    "SQUEEZE": "Squeeze",
    "TOPK": "TopK",
    "TRIP_LIMIT": "TripLimit",
    "UNARY": "Unary",
    "UNSQUEEZE": "Unsqueeze",
}


class NetTensor:
    """A tensor of the network under construction.

    Attributes:
        dims: sizes, -1 where dynamic; None where not even the rank is known (behind an unknown operator).
        const: the value is known when the engine is built.
        value: that value, where it is small and its data is available.
        source: for a constant, the ONNX tensor that it comes from.
        layer: the live layer that writes it; None for a network input or a constant.
    """

    __slots__ = ("_index", "_name", "_suffix", "_word", "const", "dims", "dtype", "is_input", "layer", "source", "value")

    def __init__(
        self,
        dims: Any,
        dtype: str,
        *,
        index: int = -1,
        word: str = "",
        suffix: str = "",
        name: Optional[str] = None,
        const: bool = False,
        value: Optional[KnownValue] = None,
        source: Optional[str] = None,
        is_input: bool = False,
    ) -> None:
        self.dims: Dims = dims
        self.dtype = dtype
        self.const = const
        self.value = value
        self.source = source
        self.layer: Optional[NetLayer] = None
        self.is_input = is_input
        self._index = index
        self._word = word
        self._suffix = suffix
        self._name = name

    @property
    def name(self) -> str:
        if self._name is None:
            self._name = f"(Unnamed Layer* {self._index}) [{self._word}]_output{self._suffix}"
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    def move(self, number: int) -> None:
        """Changes the layer number in the tensor's default name."""
        self._index = number


class NetLayer:
    """A live layer of the network under construction."""

    __slots__ = ("_name", "inputs", "node", "number", "outputs", "params", "type")

    def __init__(
        self, layer_type: str, number: int, node: NodeRecord, inputs: List[Optional[NetTensor]], params: Dict[str, Any]
    ) -> None:
        self.type = layer_type
        self.number = number
        self.node = node
        self.inputs = inputs
        self.params = params
        self.outputs: List[NetTensor] = []
        self._name: Optional[str] = None

    @property
    def name(self) -> str:
        return self._name or f"(Unnamed Layer* {self.number}) [{TYPE_WORDS.get(self.type, self.type)}]"

    @name.setter
    def name(self, name: str) -> None:
        self._name = name


class NodeRecord:
    """The layers that the parser has made of one ONNX node so far."""

    __slots__ = ("constant_layers", "name", "nested", "op", "proto", "unknown")

    def __init__(self, name: str, op: str, nested: bool = False, proto: Any = None) -> None:
        self.name = name
        self.op = op
        self.proto = proto
        self.nested = nested
        self.constant_layers: List[str] = []
        self.unknown = ""


class TooLarge(Exception):
    """The network has more layers than edgedla handles. One node can be many layers: a Sum of n inputs is n - 1."""


class Network:
    """The layers in the order in which the parser adds them. Constant layers are counted and typed, but not kept."""

    def __init__(self) -> None:
        self.layers: List[NetLayer] = []
        self.number_of_layers = 0
        self.node = NodeRecord("", "")
        self.loops = 0
        self.conditionals = 0
        #: Raises Refused for (type, inputs, parameters, output type) that the library of the release does not take.
        self.check: Optional[Callable[[str, List[Optional[NetTensor]], Mapping[str, Any], str], None]] = None
        self._layer_names: Set[str] = set()
        self._tensor_names: Set[str] = set()
        self._suffix = 0

    def unique(self, names: Set[str], base: str) -> str:
        """`base`, or `base_<n>` where it is taken. The parser shares one counter between all names."""
        if base not in names:
            names.add(base)
            return base
        candidate = base
        while candidate in names:
            candidate = f"{base}_{self._suffix}"
            self._suffix += 1
        names.add(candidate)
        return candidate

    def unique_tensor_name(self, base: str) -> str:
        return self.unique(self._tensor_names, base)

    def register(self, tensor: NetTensor, base: str) -> str:
        """Name the layer behind `tensor`; a constant layer's name is taken as well, though the layer is not kept."""
        name = self.unique(self._layer_names, base)
        if tensor.layer is not None:
            tensor.layer.name = name
        return name

    def emit(
        self,
        layer_type: str,
        inputs: List[Optional[NetTensor]],
        params: Dict[str, Any],
        dims: Any,
        dtype: str,
        *,
        value: Optional[KnownValue] = None,
        always_live: bool = False,
    ) -> NetTensor:
        """Add a layer of one output; returns that output. A layer of constants alone is a constant layer."""
        if self.check is not None:
            self.check(layer_type, inputs, params, dtype)
        number = self.number_of_layers
        self.number_of_layers = number + 1
        out = NetTensor(dims, dtype, index=number, word=TYPE_WORDS.get(layer_type, layer_type))
        if not always_live:
            for t in inputs:
                if t is not None and not t.const:
                    break
            else:
                out.const = True
                out.value = value
                self.node.constant_layers.append(layer_type)
                for t in inputs:
                    if t is not None:
                        out.source = t.source
                        break
                return out
        layer = NetLayer(layer_type, number, self.node, inputs, params)
        layer.outputs.append(out)
        out.layer = layer
        self._keep(layer)
        return out

    def emit_many(
        self,
        layer_type: str,
        inputs: List[Optional[NetTensor]],
        params: Dict[str, Any],
        outputs: Sequence[Tuple[Any, str]],
        *,
        always_live: bool = False,
    ) -> List[NetTensor]:
        """Add a layer of several outputs, given as (dims, dtype); returns them."""
        if self.check is not None:
            self.check(layer_type, inputs, params, outputs[0][1] if outputs else "")
        number = self.number_of_layers
        self.number_of_layers = number + 1
        word = TYPE_WORDS.get(layer_type, layer_type)
        const = not always_live and all(t is None or t.const for t in inputs)
        made = [
            NetTensor(dims, dtype, index=number, word=word, suffix=f"_{i + 1}" if len(outputs) > 1 else "", const=const)
            for i, (dims, dtype) in enumerate(outputs)
        ]
        if const:
            self.node.constant_layers.append(layer_type)
            return made
        layer = NetLayer(layer_type, number, self.node, inputs, params)
        layer.outputs.extend(made)
        for t in made:
            t.layer = layer
        self._keep(layer)
        return made

    def _keep(self, layer: NetLayer) -> None:
        self.layers.append(layer)
        if len(self.layers) > MAX_LAYERS:
            raise TooLarge(f"the model becomes more than {MAX_LAYERS} layers")

    def renumber(self, outputs: Sequence[NetTensor], number: int) -> None:
        """Give the layer made last the `number` that was kept free for it, before those of its constant inputs."""
        self.number_of_layers -= 1
        for t in outputs:
            t.move(number)
            if t.layer is not None:
                t.layer.number = number

    def make_constant(self, layer: NetLayer) -> None:
        """Take a live layer out again, once it shows that its outputs are constants."""
        self.layers.remove(layer)
        layer.node.constant_layers.append(layer.type)
        for t in layer.outputs:
            t.const = True
            t.layer = None

    def constant(self, dims: Dims, dtype: str, value: Optional[KnownValue], source: Optional[str] = None) -> NetTensor:
        """Add a CONSTANT layer; `value` is None where it is large or its data is missing."""
        number = self.number_of_layers
        self.number_of_layers = number + 1
        self.node.constant_layers.append("CONSTANT")
        return NetTensor(dims, dtype, index=number, word="Constant", const=True, value=value, source=source)
