"""Folds constants before any rewrite: writes fixed shapes down, turns shape arithmetic and computed weights into constants.

Later rewrites need numbers (the bounds of a Slice, the sizes of a Resize), which exporters leave as chains of Shape,
Gather, Mul and Concat. TensorRT folds most of them too, but not all: the parser of 10.x makes layers of slice bounds that
are computed, and weights that a training-mode BatchNormalization standardises are refused by all of them.
"""

from __future__ import annotations

import math
from typing import Any, Container, Dict, Iterable, List, Mapping, Optional, Sequence, Set

import numpy as np

from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import Goal, Network, data_of, has_data
from edgedla.fixes.network.plugins import is_plugin
from edgedla.fixes.network.subgraphs import subgraphs
from edgedla.fixes.site import Node
from edgedla.graph.named import no_such_input
from edgedla.graph.open_sizes import TRTEXEC_BATCH, require_given
from edgedla.importers.model_file.shape_inference import SIZED_BY_VALUE, inferred_by_values
from edgedla.importers.operator_schema import DEFAULT_DOMAINS

#: Each round folds what the last round's shapes made computable: YOLO's decoders need three rounds, Swin one per shifted window.
MOST_ROUNDS = 200
#: Larger results are not folded, unless they replace constants of their size.
MOST_ELEMENTS = 1 << 16
#: ONNX's data propagation follows the numbers in scalars and vectors.
MOST_PROPAGATED_RANK = 1
#: numpy.dtype.kind of values to fold.
NUMBERS = "biuf"
#: Operators that are never folded: random numbers, and quantization, which holds scales.
KEPT = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli QuantizeLinear "
    "DequantizeLinear DynamicQuantizeLinear If Loop Scan".split()
)


def fold_constants(model: Any) -> int:
    """Folds the onnx_ir.Model in place; returns how many nodes became constants."""
    from onnx_ir.passes.common import LiftConstantsToInitializersPass

    before = model.graph.num_nodes()
    constants = sum(n.op_type == "Constant" for n in model.graph)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    settled: Set[str] = set()
    for _ in range(MOST_ROUNDS):
        infer_shapes(model, settled)
        if not _fold_round(model):
            break
    remove_dead_nodes(model)
    return int(before - constants - model.graph.num_nodes())


def _inputs_are_no_weights(model: Any) -> None:
    """Makes initializers no inputs: before IR version 4 every initializer had to be an input, so that callers could override it."""
    if any(v.name in model.graph.initializers for v in model.graph.inputs):
        from onnx_ir.passes.common import RemoveInitializersFromInputsPass

        RemoveInitializersFromInputsPass()(model)
        model.ir_version = max(model.ir_version, 4)


def set_shapes(model: Any, shapes: Mapping[str, Sequence[int]], batch: Optional[int]) -> bool:
    """Writes the dims of inputs into the model. A batch that stays open becomes trtexec's; returns whether one did.

    Raises:
        UsageError: `shapes` names no input, has another number of dims, or does not map names to numbers; or the batch is not a
            whole number of 1 or more.
    """
    require_given(shapes, batch)
    _inputs_are_no_weights(model)
    inputs = {v.name: v for v in model.graph.inputs}
    if len(inputs) == 1:
        # A shape without a name is the only input's.
        shapes = {name or next(iter(inputs)): dims for name, dims in shapes.items()}
    for name in shapes:
        if name not in inputs:
            raise no_such_input(name, inputs)
    changed = batch_fixed = False
    for name, value in inputs.items():
        dims = list(value.shape) if value.shape is not None else None
        new_dims = list(shapes[name]) if name in shapes else dims
        if new_dims is not None and dims is not None and len(new_dims) != len(dims):
            text = "x".join(map(str, new_dims))
            raise UsageError(f"--shapes {name}: {text} has {len(new_dims)} dims, the input has {len(dims)}")
        if new_dims and batch is not None and name not in shapes:
            new_dims = [batch, *new_dims[1:]]
        elif new_dims and not (isinstance(new_dims[0], int) and new_dims[0] >= 0):
            new_dims, batch_fixed = [TRTEXEC_BATCH, *new_dims[1:]], True
        if new_dims is not None and new_dims != dims:
            value.shape = onnx_ir().Shape(new_dims)
            changed = True
    if changed:
        # Shapes that the exporter wrote down hold only for the old sizes.
        for node in model.graph.all_nodes():
            for value in node.outputs:
                value.shape = None
    return batch_fixed


def infer_shapes(model: Any, settled: Optional[Set[str]] = None) -> None:
    """Writes the dims of ONNX's shape inference into the values.

    Args:
        settled: names of values with final shapes from earlier calls, whose nodes are skipped. This call adds its own.
    """
    ir = onnx_ir()
    nodes = _unsettled(model, settled) if settled else None
    proto = outline(model, nodes)
    inferred = inferred_by_values(proto)
    if inferred is None:
        # Rewrites refuse sites with unknown shapes one by one.
        return
    by_name = {v.name: v.type for v in list(inferred.graph.value_info) + list(inferred.graph.output)}
    for node in model.graph if nodes is None else nodes:
        for value in node.outputs:
            proto = by_name.get(value.name)
            if proto is None or not proto.HasField("tensor_type"):
                continue
            if proto.tensor_type.elem_type:
                value.type = ir.TensorType(ir.DataType(proto.tensor_type.elem_type))
            dims = proto.tensor_type.shape.dim
            new_dims = [d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in dims]
            fixed = all(isinstance(d, int) for d in new_dims)
            if proto.tensor_type.HasField("shape") and (fixed or not value.is_graph_output()):
                value.shape = ir.Shape(new_dims)
            if settled is not None and fixed and len(new_dims) > MOST_PROPAGATED_RANK:
                settled.add(value.name)


def _unsettled(model: Any, settled: Container[str]) -> Optional[List[Any]]:
    """Nodes with an output that is not settled; None means all nodes, if a subgraph may read any value."""
    if any(subgraphs(n) for n in model.graph):
        return None
    return [n for n in model.graph if not all(v.name in settled for v in n.outputs)]


def _fold_round(model: Any) -> bool:
    """Folds once; returns whether a value became a constant. A node that could not be evaluated is not tried again."""
    network = Network(model, Goal())
    results: Dict[str, np.ndarray] = {}
    nodes: List[Any] = []
    made: Set[str] = set()
    for node in model.graph:
        if node.domain not in DEFAULT_DOMAINS or node.op_type in KEPT or any(v.is_graph_output() for v in node.outputs):
            continue
        if is_plugin(node, model):
            continue
        measured = _measured(network, node)
        if measured is not None:
            results[node.outputs[0].name] = measured
            made.update(v.name for v in node.outputs)
            continue
        read = [v for v in node.inputs if v is not None]
        if _computable(network, node, read, made) and _small(network, node, read, made):
            nodes.append(node)
            made.update(v.name for v in node.outputs)
    if not made:
        return False
    results.update(_evaluated(network, nodes, results))
    return _replace(model, results) > 0


def _measured(network: Network, node: Node) -> Optional[np.ndarray]:
    """The result of Shape or Size if its input's dims are fixed; else None."""
    if node.op_type not in ("Shape", "Size"):
        return None
    shape = network.shape(node.inputs[0])
    if shape is None:
        return None
    if node.op_type == "Size":
        return np.array(int(np.prod(shape)), np.int64)
    start = node.attributes.get("start")
    end = node.attributes.get("end")
    return np.array(shape[slice(start.value if start else 0, end.value if end else None)], np.int64)


def _computable(network: Network, node: Node, read: Sequence[Any], made: Iterable[str]) -> bool:
    if subgraphs(node):
        return False
    # A node without inputs gives a constant too (a Constant with a sparse value stays).
    return node.op_type != "Constant" and all(
        v.name in made or (network.is_constant(v) and v.const_value.dtype.name != "STRING" and has_data(v.const_value))
        for v in read
    )


def _small(network: Network, node: Node, read: Sequence[Any], made: Container[str]) -> bool:
    sizes = sorted((math.prod(s) for s in map(network.shape, read) if s is not None), reverse=True)
    most = max([MOST_ELEMENTS, *sizes])
    shapes = [network.shape(value) for value in node.outputs]
    if None not in shapes:
        return all(math.prod(s) <= most for s in shapes if s is not None)
    # An open size is bounded by the inputs once they are constants: a chain of such nodes could double it at each step.
    return node.op_type not in SIZED_BY_VALUE and not any(v.name in made for v in read) and math.prod(sizes[:2]) <= most


def _evaluated(network: Network, nodes: Sequence[Any], folded: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Results of the nodes by name, computed by ONNX Runtime in one session without optimisation."""
    if not nodes:
        return {}
    import onnx

    ir = onnx_ir()
    inside = {v.name for n in nodes for v in n.outputs}
    graph = onnx.GraphProto(name="constants")
    constants: Dict[str, np.ndarray] = {}
    for node in nodes:
        graph.node.append(ir.serde.serialize_node(node))
        for value in node.inputs:
            if value is None or value.name in inside or value.name in constants:
                continue
            elements = folded.get(value.name)
            constants[value.name] = np.asarray(data_of(value.const_value) if elements is None else elements)
    if any(v.dtype.kind == "O" and not all(isinstance(x, (str, bytes)) for x in v.flat) for v in constants.values()):
        # None: a value that a broken model holds in an unreadable form.
        return {}
    graph.initializer.extend(onnx.numpy_helper.from_array(v, k) for k, v in constants.items())
    these = set(map(id, nodes))
    output_names = [v.name for n in nodes for v in n.outputs if any(id(u.node) not in these for u in v.uses())]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in output_names)
    if not output_names:
        return {}
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in network.graph.opset_imports.items()]
    proto = onnx.ModelProto(ir_version=min(network.model.ir_version, 10), graph=graph, opset_import=opsets)
    from edgedla.quantization.session import open_session

    try:
        values = open_session(proto.SerializeToString(), optimize=False).run(output_names, {})
        # Sequences (lists), absent optionals (None) and texts (objects) are no constants of a network.
        return {name: v for name, v in zip(output_names, values) if isinstance(v, np.ndarray) and v.dtype.kind in NUMBERS}
    except EnvironmentMissing:
        raise
    except Exception:
        # An operator that ONNX Runtime lacks makes the whole session fail: then each node is tried by itself.
        if len(nodes) == 1:
            return {}
        evaluated = dict(folded)
        for node in nodes:
            ready = all(v is None or v.name in evaluated or network.is_constant(v) for v in node.inputs)
            evaluated.update(_evaluated(network, [node], evaluated) if ready else {})
        return {name: evaluated[name] for name in output_names if name in evaluated}


def _replace(model: Any, constants: Mapping[str, np.ndarray]) -> int:
    """Replaces values by constants; returns how many values were replaced."""
    ir = onnx_ir()
    graph = model.graph
    replaced = 0
    for node in list(graph):
        for value in node.outputs:
            elements = constants.get(value.name)
            # Skip values without readers: their node may stay for another output.
            if elements is None or not value.uses():
                continue
            replaced += 1
            constant = ir.Value(
                name=value.name,
                shape=ir.Shape(elements.shape),
                type=ir.TensorType(ir.DataType.from_numpy(elements.dtype)),
                const_value=ir.tensor(elements, name=value.name),
            )
            value.replace_all_uses_with(constant)
            # The node is removed; the constant takes over its output's name.
            value.name = f"{value.name}/folded"
            graph.register_initializer(constant)
    remove_dead_nodes(model)
    return replaced


def remove_dead_nodes(model: Any) -> None:
    """Removes nodes of the main graph whose outputs nothing reads, subgraphs included."""
    for node in reversed(list(model.graph)):
        if not any(v.uses() or v.is_graph_output() for v in node.outputs):
            model.graph.remove(node, safe=True)
