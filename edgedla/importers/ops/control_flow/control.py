"""If, Loop, Scan, and calls of model-local functions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from edgedla.importers.broadcast import axis_length, to_scalar
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, loops, shapes
from edgedla.importers.network.core import NetLayer, NetTensor
from edgedla.importers.node import Node, positive_axis
from edgedla.importers.operand import Value
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

#: Length that the parser gives to the scan outputs of a loop without a trip count.
DUMMY_SCAN_LENGTH = 1024


def _body(node: Node, key: str) -> Any:
    return node.required(key).g


def _registered(ctx: Context, name: str) -> Any:
    if name not in ctx.tensors or ctx.tensors[name] is None:
        raise Refused(f"the subgraph output {name!r} was not registered")
    return ctx.tensors[name]


def if_op(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    then_graph, else_graph = _body(node, "then_branch"), _body(node, "else_branch")
    if len(then_graph.output) != len(else_graph.output):
        raise Refused("then/else subgraphs should have the same number of outputs.")
    condition = inputs[0]
    if isinstance(condition, Weights) and condition.count == 1:
        branch = then_graph if condition.known().ravel()[0] else else_graph
        ctx.push_scope()
        try:
            ctx.parse_graph(branch)
            return [_registered(ctx, o.name) for o in branch.output]
        finally:
            ctx.pop_scope()
    value = to_scalar(ctx, ctx.tensor(condition))
    number = ctx.net.conditionals
    ctx.net.conditionals += 1
    loops.condition(ctx.net, number, value)
    name = node.name
    branches = []
    entries: Dict[int, NetTensor] = {}
    parts = []
    start = len(ctx.net.layers)
    for graph in (then_graph, else_graph):
        first = len(ctx.net.layers)
        ctx.push_scope()
        try:
            ctx.parse_graph(graph)
            branches.append([_registered(ctx, o.name) for o in graph.output])
        finally:
            ctx.pop_scope()
        parts.append(ctx.net.layers[first:])
    if ctx.parser.conditional_inputs:
        for part in parts:
            _enter(ctx, number, part, entries, start)
    outputs: List[Any] = []
    for then, otherwise in zip(branches[0], branches[1]):
        out = loops.conditional_output(ctx.net, number, ctx.tensor(then), ctx.tensor(otherwise))
        ctx.net.register(out, name + "_OutputLayer")
        outputs.append(out)
    return outputs


def _enter(ctx: Context, number: int, branch: List[NetLayer], entries: Dict[int, NetTensor], start: int) -> None:
    """Let the layers of a branch read tensors from outside through a CONDITIONAL_INPUT, one for each tensor.

    The parser adds these last. Here they stand from `start` on, before the branches: a layer comes behind those that it reads.
    """
    inside = {id(t) for layer in branch for t in layer.outputs}
    for layer in branch:
        for i, t in enumerate(layer.inputs):
            if t is None or t.const or id(t) in inside:
                continue
            if id(t) not in entries:
                name = t.name + "_InputLayer"
                entries[id(t)] = made = loops.conditional_input(ctx.net, number, t)
                ctx.net.layers.insert(start, ctx.net.layers.pop())
                ctx.net.register(made, name)
                made.name = name + "_output"
            layer.inputs[i] = entries[id(t)]


def add_counter(ctx: Context, loop: loops.Loop, dtype: str = "INT32") -> NetTensor:
    """0, 1, 2, ... as a recurrence."""
    first = ctx.scalar(0, dtype, (1,))
    one = ctx.scalar(1, dtype, (1,))
    state = loop.recurrence(first)
    loop.close(state, arithmetic.elementwise(ctx.net, state, one, "SUM"))
    return state


def loop_op(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    if len(inputs) < 2:
        raise Refused(f"The Loop operator requires at least 2 inputs. The current number of inputs = {len(inputs)}.")
    body = _body(node, "body")
    states_count = len(inputs) - 2
    if len(body.input) < len(inputs) or len(body.output) < states_count + 1:
        raise Refused("the body of Loop does not fit its inputs")
    loop = loops.Loop(ctx.net)
    ctx.push_scope()
    try:
        trip: Optional[NetTensor] = None
        if inputs[0] is not None and not _is_endless(inputs[0]):
            trip = to_scalar(ctx, ctx.tensor(inputs[0]))
            if ctx.v10:
                trip = ctx.cast_helper(trip, "INT32")
            loop.trip_limit(trip, "COUNT")
            counter = add_counter(ctx, loop, ctx.index_type)
            if ctx.parser.loop_counter_is_scalar:
                counter = to_scalar(ctx, counter)
            ctx.set(body.input[0].name, counter)
        condition: Optional[NetTensor] = None
        if inputs[1] is not None:
            condition = to_scalar(ctx, ctx.tensor(inputs[1]))
            ctx.set(body.input[1].name, condition)
        states: List[NetTensor] = []
        for i in range(2, len(inputs)):
            states.append(loop.recurrence(ctx.tensor(inputs[i])))
            ctx.set(body.input[i].name, states[-1])
        ctx.parse_graph(body)
        if condition is not None:
            running = loop.recurrence(condition)
            following = to_scalar(ctx, ctx.tensor(_registered(ctx, body.output[0].name)))
            loop.close(running, following)
            loop.trip_limit(running, "WHILE")
        outputs: List[Any] = []
        for i, state in enumerate(states):
            loop.close(state, ctx.tensor(_registered(ctx, body.output[i + 1].name)))
            outputs.append(loop.output(state, "LAST_VALUE"))
        for i in range(states_count + 1, len(body.output)):
            scanned = ctx.tensor(_registered(ctx, body.output[i].name))
            length = trip if trip is not None else ctx.scalar(DUMMY_SCAN_LENGTH, "INT32")
            outputs.append(loop.output(scanned, "CONCATENATE", 0, length))
        return outputs
    finally:
        ctx.pop_scope()


def _is_endless(trip: Any) -> bool:
    """Exporters write INT_MAX where the condition alone ends the loop."""
    if not isinstance(trip, Weights):
        return False
    array = trip.array()
    return array is not None and array.size > 0 and int(array.ravel()[0]) >= (1 << 31) - 1


def scan(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    shift = 1 if ctx.opset == 8 else 0
    if shift and inputs[0] is not None:
        raise Refused("TensorRT doesn't support sequence_lens input for this node!")
    body = _body(node, "body")
    scanned_count = node.required_int("num_scan_inputs")
    states_count = len(inputs) - shift - scanned_count
    outputs_count = len(node.outputs) - states_count
    if scanned_count < 1 or states_count < 1 or outputs_count < 0:
        raise Refused("the inputs and outputs of Scan do not fit its num_scan_inputs")
    if len(body.input) < states_count + scanned_count or len(body.output) < states_count + outputs_count:
        raise Refused("the body of Scan does not fit its inputs")

    def listed(key: str, count: int, default: int) -> List[int]:
        values = node.ints(key) if node.has(key) else [default] * count
        if len(values) < count:
            raise Refused(f"{key} of Scan has {len(values)} entries, not {count}")
        return values

    in_axes = [positive_axis(a, shapes.MAX_DIMS) for a in listed("scan_input_axes", scanned_count, shift)]
    out_axes = [positive_axis(a, shapes.MAX_DIMS) for a in listed("scan_output_axes", outputs_count, shift)]
    backwards = listed("scan_input_directions", scanned_count, 0)
    prepends = listed("scan_output_directions", outputs_count, 0)
    loop = loops.Loop(ctx.net)
    trip = axis_length(ctx, ctx.tensor(inputs[-1]), in_axes[-1])
    loop.trip_limit(trip, "COUNT")
    ctx.push_scope()
    try:
        states: List[NetTensor] = []
        for i in range(states_count):
            states.append(loop.recurrence(ctx.tensor(inputs[i + shift])))
            ctx.set(body.input[i].name, states[-1])
        ctx.net.register(states[0], node.name)
        for i in range(scanned_count):
            index = states_count + i
            x = ctx.tensor(inputs[index + shift])
            if in_axes[i] >= len(x.dims):
                raise Refused(f"scan axis {in_axes[i]} does not exist in a tensor of rank {len(x.dims)}")
            ctx.set(body.input[index].name, loop.iterator(x, in_axes[i], backwards[i] == 1))
        ctx.parse_graph(body)
        outputs: List[Any] = []
        for i, state in enumerate(states):
            loop.close(state, ctx.tensor(_registered(ctx, body.output[i].name)))
            outputs.append(loop.output(state, "LAST_VALUE"))
        for i in range(outputs_count):
            x = ctx.tensor(_registered(ctx, body.output[states_count + i].name))
            kind = "REVERSE" if prepends[i] else "CONCATENATE"
            outputs.append(loop.output(x, kind, out_axes[i], trip))
        return outputs
    finally:
        ctx.pop_scope()


def function_call(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """A model-local function: its nodes, in a scope of their own."""
    function = ctx.functions[node.op]
    if len(inputs) != len(function.input):
        raise Refused(
            "LocalFunction has an unexpected number of inputs! "
            f"Number of node inputs = {len(inputs)}, number of function inputs = {len(function.input)}."
        )
    attributes: Dict[str, Any] = {a.name: a for a in function.attribute_proto}
    attributes.update(node.attributes)
    ctx.push_scope()
    local: List[str] = []
    try:
        for outside, inside, value in zip(node.proto.input, function.input, inputs):
            if outside != inside and inside not in ctx.tensors:
                ctx.tensors[inside] = value
                local.append(inside)
        ctx.function_attributes.append(attributes)
        try:
            for proto in function.node:
                ctx.parse_node(proto)
        finally:
            ctx.function_attributes.pop()
        return [_registered(ctx, name) for name in function.output]
    finally:
        for name in local:
            ctx.tensors.pop(name, None)
        ctx.pop_scope()
