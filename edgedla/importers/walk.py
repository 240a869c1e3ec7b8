"""The walk over an ONNX graph: initializers, then nodes in topological order."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from edgedla.errors import ModelRefused, ModelTooLarge
from edgedla.importers import known_ops
from edgedla.importers.context import MAX_NESTED_SUBGRAPHS, Context
from edgedla.importers.network.core import NetTensor, NodeRecord
from edgedla.importers.network.limits import above_volume_limit, volume_text
from edgedla.importers.node import Node, node_name
from edgedla.importers.node_order import topological
from edgedla.importers.operand import Value
from edgedla.importers.ops import OPERATORS, Lowering
from edgedla.importers.parser_operators import imports
from edgedla.importers.parser_releases import basis
from edgedla.importers.refuse import CannotTell, Refused
from edgedla.importers.values import Weights

#: Limit on nodes of model-local functions, counted per call: calls of functions by functions multiply them.
MAX_FUNCTION_NODES = 100_000


class Walk:
    """One import: holds the context, the model's name for messages, and what the reader gave."""

    def __init__(self, ctx: Context, where: str, weights_of: Any, infer: Any) -> None:
        self.ctx = ctx
        self.where = where
        self.infer = infer
        self.function_nodes = 0
        self.sparse: Set[str] = set()
        self.inferred: Optional[Dict[str, Tuple[Tuple[int, ...], str]]] = None
        ctx.parse_graph = self.parse_graph
        ctx.parse_node = self.parse_node
        ctx.weights_of = weights_of

    # The parser stops at the first node that it refuses.
    def refuse(self, reason: str, node: Optional[Any] = None, hint: str = "") -> ModelRefused:
        where = self.where
        if node is not None:
            where = f"{where}, node {node_name(node)!r} [{node.op_type}]"
        return ModelRefused(
            f"TensorRT's ONNX parser refuses the model: {reason}",
            where=where,
            hint="; ".join(filter(None, (hint, *self.ctx.departures(), f"as seen in the {basis(self.ctx.trt)}"))),
        )

    def parse_graph(self, graph: Any) -> None:
        ctx = self.ctx
        for initializer in graph.initializer:
            ctx.set(initializer.name, self.initializer(initializer))
        self.sparse.update(s.values.name for s in graph.sparse_initializer)
        for output in graph.output:
            ctx.graph_outputs[output.name] = None
        for proto in topological(graph.node):
            self.parse_node(proto)

    def initializer(self, proto: Any) -> Weights:
        try:
            return self.ctx.weights_of(proto)
        except Refused as e:
            raise Refused(f"Failed to import initializer {proto.name!r}: {e}") from e

    def parse_node(self, proto: Any) -> None:
        ctx = self.ctx
        if ctx.depth > MAX_NESTED_SUBGRAPHS:
            raise Refused("ONNX graph contains nested structures that exceed the maximum allowed by TensorRT!")
        if ctx.function_attributes:
            self.function_nodes += 1
            if self.function_nodes > MAX_FUNCTION_NODES:
                raise ModelTooLarge(f"more than {MAX_FUNCTION_NODES} nodes in calls of the model's functions", where=self.where)
        node = Node(proto, ctx.function_attributes[-1] if ctx.function_attributes else None)
        record = NodeRecord(node.name, node.op, ctx.depth > 0, proto)
        ctx.nodes.append(record)
        ctx.net.node = record
        outputs = self.lower(node, record)
        names = node.outputs
        if ctx.parser.unnamed_outputs_dropped:
            while names and not names[-1]:
                names = names[:-1]
        if len(names) > len(outputs):
            raise self.refuse(
                "Node has more output tensors than TRT expected, expected output size is "
                f"{len(outputs)}, actual output size is {len(names)}.",
                proto,
            )
        for name, value in zip(names, outputs):
            if name and value is not None:
                try:
                    ctx.set(name, value)
                except Refused as e:
                    raise self.refuse(str(e), proto) from e
                live = isinstance(value, NetTensor) and not value.const
                if ctx.parser.volume_limit and live and above_volume_limit(value.dims):
                    raise self.refuse(volume_text(name, value.dims), proto)
                if value.dtype == "UINT8" and ctx.parser.uint8_io and name not in ctx.graph_outputs:
                    raise self.refuse("TensorRT does not support UINT8 types for intermediate tensors!", proto)

    def inputs_of(self, node: Node, record: NodeRecord) -> List[Value]:
        """Values of the node's inputs; notes in `record` if the rank of one is unknown."""
        tensors = self.ctx.tensors
        inputs: List[Value] = []
        for name in node.proto.input:
            if not name:
                inputs.append(None)
                continue
            if name not in tensors:
                sparse = "it is a sparse initializer, which the parser does not read; store it as a dense one"
                hint = sparse if name in self.sparse else ""
                raise self.refuse(f"Node input {name!r} was not registered.", node.proto, hint)
            value = tensors[name]
            if value is not None and value.dims is None:
                record.unknown = f"the shape of its input {name!r} is unknown"
            inputs.append(value)
        return inputs

    def function_of(self, node: Node, record: NodeRecord) -> Optional[Lowering]:
        """The node's lowering; None for a plugin that TensorRT brings, and, with a note in `record`, for an unknown operator."""
        ctx = self.ctx
        function = OPERATORS.get(node.op)
        imported = imports(node.op, ctx.trt)
        if function is not None and imported is not False:
            return function
        if node.op in ctx.functions:
            from edgedla.importers.ops.control_flow.control import function_call

            return function_call
        if imported:
            record.unknown = f"nobody has seen which layers this release of TensorRT makes of {node.op}"
            return None
        if function is not None or known_ops.is_standard(node.op, node.domain):
            raise self.refuse(
                f"TensorRT has no importer for the operator {node.op}; it would look for a plugin of that name.",
                node.proto,
                known_ops.way_out(node.op),
            )
        if node.op in known_ops.SHIPPED_PLUGINS and ctx.trt < known_ops.PLUGINS_UNTIL:
            return None
        record.unknown = (
            f"edgedla does not know the operator {node.op!r}: TensorRT takes it where a plugin of that name is loaded, which runs on "
            "the GPU, and refuses the model where none is"
        )
        return None

    def lower(self, node: Node, record: NodeRecord) -> List[Value]:
        ctx = self.ctx
        inputs = self.inputs_of(node, record)
        function = self.function_of(node, record)
        if function is None or record.unknown:
            return self.unknown_outputs(node, inputs, "UNKNOWN" if record.unknown else "PLUGIN_V2")
        before = (len(ctx.net.layers), ctx.net.number_of_layers, len(ctx.nodes))
        ctx.depth += 1
        try:
            return function(ctx, node, inputs)
        except Refused as e:
            raise self.refuse(str(e), node.proto, e.hint) from e
        except (IndexError, KeyError) as e:
            # The parser's own lookups throw here too.
            raise self.refuse(f"the node lacks an input or attribute ({type(e).__name__}: {e})", node.proto) from e
        except CannotTell as e:
            record.unknown = str(e)
        except (TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as e:
            # Attributes or inputs of a form that no lowering foresees: unknown, not a crash.
            record.unknown = f"its attributes or inputs have an unforeseen form ({type(e).__name__}: {e})"
        finally:
            ctx.depth -= 1
        self.undo(record, *before)
        return self.unknown_outputs(node, inputs)

    def undo(self, record: NodeRecord, layers: int, number: int, nodes: int) -> None:
        """Removes what a lowering added before it found that the node's layers cannot be determined."""
        ctx = self.ctx
        del ctx.net.layers[layers:]
        ctx.net.number_of_layers = number
        ctx.net.node = record
        record.constant_layers.clear()
        for inner in ctx.nodes[nodes:]:
            inner.constant_layers.clear()
            inner.unknown = inner.unknown or f"it belongs to {record.name!r}, whose layers are not known"

    def unknown_outputs(self, node: Node, inputs: Sequence[Value], layer_type: str = "UNKNOWN") -> List[Value]:
        """One UNKNOWN layer, or a plugin, with the dims that the file or ONNX shape inference gives its outputs, if any."""
        ctx = self.ctx
        if self.inferred is None:
            self.inferred = self.infer()
        outputs = []
        for name in node.outputs:
            dims, dtype = self.inferred.get(name, (None, "FLOAT"))
            outputs.append((dims, dtype))
        tensors: List[Optional[NetTensor]] = [ctx.tensor(x) for x in inputs if x is not None]
        made = ctx.net.emit_many(layer_type, tensors, {"onnx_op": node.op}, outputs, always_live=True)
        if made:
            ctx.net.register(made[0], node.name)
        return list(made)
