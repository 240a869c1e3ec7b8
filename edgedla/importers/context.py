"""The parser's state while it walks a graph: what each ONNX tensor name stands for, scopes, names, opset."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from edgedla.importers.network import arithmetic, shapes
from edgedla.importers.network.core import NetTensor, Network
from edgedla.importers.network.known import KnownValue, Small, of_array
from edgedla.importers.network.layer_checks import check_layer
from edgedla.importers.node import Node
from edgedla.importers.operand import Value, operand
from edgedla.importers.parser_releases import lowering_name, parser_of
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

#: Nested subgraphs and functions that the parser follows (ModelImporter.cpp, kMAX_NESTED_SUBGRAPHS).
MAX_NESTED_SUBGRAPHS = 24

TEMPORARY = "ONNXTRT_temporary_weights"


class Context:
    """State of one import.

    Attributes:
        net: the network under construction.
        trt: the TensorRT release to import for.
        parser: what the parser of that release does (parser_releases.Parser).
        v10: `parser.v10`, which most lowerings read.
        lowering: the observed release whose parser is used for `trt`, for example "10.3".
        opset: version of the default ONNX domain.
        tensors: ONNX tensor name -> Value.
        functions: model-local functions by name.
        shared_parameters: outputs of Identity nodes that stand for weights of their own (see shared_parameters.py).
    """

    def __init__(self, trt: Tuple[int, ...], opset: int) -> None:
        self.net = Network()
        self.trt = trt
        self.parser = parser_of(trt)
        self.lowering = lowering_name(trt)
        self.v10 = self.parser.v10
        if self.parser.checks_layers:
            self.net.check = check_layer
        self.opset = opset
        self.index_type = "INT64" if self.v10 else "INT32"
        self.tensors: Dict[str, Value] = {}
        self.shared_parameters: FrozenSet[str] = frozenset()
        self.functions: Dict[str, Any] = {}
        self.function_attributes: List[Dict[str, Any]] = []
        self.graph_outputs: Dict[str, None] = {}
        self.nodes: List[Any] = []
        self.depth = 0
        self.parse_graph: Callable[..., None] = _not_set
        self.parse_node: Callable[..., None] = _not_set
        self.weights_of: Callable[[Any], Weights] = _not_set
        self._departures: Dict[str, List[str]] = {}
        self._constants: Dict[str, NetTensor] = {}
        self._shape_values: Dict[Tuple[Any, ...], Small] = {}
        self._scopes: List[Dict[str, Tuple[bool, Value]]] = []

    # Names -----------------------------------------------------------------------------------------------------------

    def name(self, tensor: NetTensor, node: Node) -> NetTensor:
        """Names the layer that writes `tensor` after its ONNX node."""
        self.net.register(tensor, node.name)
        return tensor

    def helper_name(self, tensor: NetTensor, base: str) -> NetTensor:
        """Names a layer that the parser adds by itself; 8.6 leaves such layers unnamed."""
        if self.v10:
            self.net.register(tensor, base)
        return tensor

    def take_temporary_name(self) -> None:
        """Takes the name that the parser gives to weights of its own: it advances the counter that makes all names unique."""
        self.net.unique_tensor_name(TEMPORARY)

    # Faults of the parser --------------------------------------------------------------------------------------------

    def departs(self, node: Node, how: str) -> None:
        """Notes that the parser departs from ONNX at this node, so that the engine computes something else."""
        self._departures.setdefault(f"[{node.op}]: the parser {how}", []).append(node.name)

    def departures(self) -> List[str]:
        """One sentence per departure, with the nodes that have it."""
        out = []
        for how, names in self._departures.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            out.append(f"{names[0]!r}{more} {how} (TensorRT {self.lowering})")
        return out

    # Values ----------------------------------------------------------------------------------------------------------

    def tensor(self, x: Value) -> NetTensor:
        """The network tensor of a node's input; weights become a CONSTANT layer, once for each name."""
        x = operand(x)
        if isinstance(x, NetTensor):
            return x
        if x.name:
            existing = self._constants.get(x.name)
            if existing is not None:
                return existing
        made = self.net.constant(x.dims, x.dtype, x.value(), x.name or None)
        if x.name:
            self._constants[self.net.register(made, x.name)] = made
        if x.dtype == "BOOL" and self.parser.bool_constant_identity:
            cast = arithmetic.identity(self.net, made, "BOOL")
            if x.name:
                self._constants[x.name] = cast
            return cast
        return made

    def has_constant(self, name: str) -> bool:
        """True where a CONSTANT layer already holds the weights of this name."""
        return bool(name) and name in self._constants

    def constant(self, values: Sequence[float], dtype: str, dims: Optional[Tuple[int, ...]] = None) -> NetTensor:
        """A CONSTANT of the parser's own."""
        self.take_temporary_name()
        return arithmetic.constant(self.net, values, dtype, dims)

    def scalar(self, value: float, dtype: str, dims: Tuple[int, ...] = ()) -> NetTensor:
        self.take_temporary_name()
        return arithmetic.scalar(self.net, value, dtype, dims)

    def shape_constant(self, values: List[int], dims: Tuple[int, ...]) -> NetTensor:
        """A CONSTANT with known shape values."""
        self.take_temporary_name()
        key = (dims, *values)
        value = self._shape_values.get(key)
        if value is None:
            bound = (1 << 63) - 1 if self.v10 else (1 << 31) - 1
            clipped = [max(-bound - 1, min(bound, v)) for v in values]
            value = self._shape_values[key] = Small(clipped, dims, self.index_type)
        made = self.net.constant(dims, self.index_type, value)
        return self.helper_name(made, "ONNXTRT_ShapeTensorFromDims")

    def shape_layer(self, x: NetTensor) -> NetTensor:
        """SHAPE of a tensor whose dims are not all known."""
        made = self.helper_name(shapes.shape(self.net, x, self.index_type), "ONNXTRT_ShapeShape")
        return self.cast_helper(made, self.index_type) if self.parser.shape_casts else made

    def cast_helper(self, x: NetTensor, dtype: str) -> NetTensor:
        """A cast that the parser adds by itself: CAST in 10.3, IDENTITY with an output type in 8.6."""
        if self.v10:
            made = arithmetic.cast(self.net, x, dtype)
            self.net.register(made, "ONNXTRT_castHelper")
            return made
        return arithmetic.identity(self.net, x, dtype)

    def identity(self, x: Value) -> Value:
        """Weights as they are; a tensor through an IDENTITY layer."""
        return x if isinstance(x, Weights) else self.through_identity(self.tensor(x))

    def through_identity(self, tensor: NetTensor) -> NetTensor:
        return self.helper_name(arithmetic.identity(self.net, tensor), "ONNXTRT_identity")

    # Scopes ----------------------------------------------------------------------------------------------------------

    def set(self, name: str, value: Value, unique: bool = False) -> None:
        """Registers the value of an ONNX tensor name.

        Raises:
            Refused: the name is taken.
        """
        unique_name = self.net.unique_tensor_name(name)
        if isinstance(value, NetTensor):
            value.name = unique_name
        elif isinstance(value, Weights):
            value = self._weights(value, unique_name if self._scopes else name)
        key = unique_name if unique else name
        fresh = key not in self.tensors
        before = self.tensors.get(key)
        if self._scopes:
            scope = self._scopes[-1]
            in_use = key in scope
            if not in_use:
                scope[key] = (fresh, before)
        else:
            in_use = not fresh and before is not None
        if in_use:
            raise Refused(f"ONNX graph has duplicate tensor name: {key}")
        self.tensors[key] = value

    def _weights(self, w: Weights, name: str) -> Weights:
        if not self.v10 and w.dtype == "INT64":
            return _narrowed(w, name)
        if not w.name:
            # No other name refers to these weights.
            w.name = name
            return w
        return w.renamed(name)

    def push_scope(self) -> None:
        self._scopes.append({})

    def pop_scope(self) -> None:
        for name, (fresh, before) in self._scopes.pop().items():
            if fresh:
                self.tensors.pop(name, None)
            else:
                self.tensors[name] = before


def _narrowed(w: Weights, name: str) -> Weights:
    """INT64 weights as 8.6 keeps them: INT32, out-of-range numbers clamped."""

    def load() -> Optional[KnownValue]:
        value = w.value()
        if isinstance(value, Small):
            return Small([max(-(1 << 31), min((1 << 31) - 1, n)) for n in value.numbers], w.dims, "INT32")
        array = None if value is None else value.array()
        if array is None:
            return None
        return of_array(array.clip(-(1 << 31), (1 << 31) - 1).astype("int32"), w.dims, "INT32")

    return Weights(name, w.dims, "INT32", 6, load)


def _not_set(*_: Any) -> Any:
    raise AssertionError("the context is not wired to the graph walk")
