"""RNN, GRU and LSTM: loops of TensorRT layers."""

from __future__ import annotations

from typing import List, Tuple

from edgedla.importers.broadcast import axis_length, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.ops.control_flow.recurrent_layer import Recurrent
from edgedla.importers.refuse import Refused


def rnn(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """H(t) = f(X(t) * W^T + H(t-1) * R^T + (Wb + Rb))"""
    r = Recurrent(ctx, node, inputs, 1, ["Tanh"])
    bias = r.combined_bias()
    first = r.initial(5, r.state_shape)
    x = r.start()
    assert r.loop is not None
    state = ctx.name(r.loop.recurrence(first), node)
    total = r.add(r.product(x, r.weights), r.product(state, r.recurrence_weights))
    if bias is not None:
        total = r.add(total, bias)
    following = r.activate(total, 0)
    pass_shape = r.pass_shape(r.state_shape())
    following = r.kept(state, following, pass_shape)
    r.loop.close(state, following)
    return [r.sequence_output(following, pass_shape), r.last_value(state, 1)]


def gru(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """Gates z, r and h; their weights are split, for h depends on r."""
    r = Recurrent(ctx, node, inputs, 3, ["Sigmoid", "Tanh"])
    net, h, n = ctx.net, r.hidden, r.directions
    directions, hidden = ctx.scalar(n, "INT32", (1,)), ctx.scalar(h, "INT32", (1,))
    doubled = ctx.scalar(2 * h, "INT32", (1,))
    features = axis_length(ctx, r.x, 2, (1,))

    def share(start: int, rows: NetTensor) -> NetTensor:
        at = ctx.constant([0, start, 0], "INT32")
        size = shapes.concatenation(net, [directions, rows, features])
        return shapes.slice_layer(net, r.weights, at, size, [1, 1, 1])

    weights_zr, weights_h = share(0, doubled), share(2 * h, hidden)
    recurrent_zr = shapes.slice_layer(net, r.recurrence_weights, [0, 0, 0], [n, 2 * h, h], [1, 1, 1])
    recurrent_h = shapes.slice_layer(net, r.recurrence_weights, [0, 2 * h, 0], [n, h, h], [1, 1, 1])
    biases: List[NetTensor] = []
    if r.inputs[3] is not None:
        bias = shapes.shuffle(net, ctx.tensor(r.inputs[3]), reshape=(n, 1, 6 * h), zero_is_placeholder=False)
        for start, size in ((0, 2 * h), (2 * h, h), (3 * h, 2 * h), (5 * h, h)):
            biases.append(shapes.slice_layer(net, bias, [0, 0, start], [n, 1, size], [1, 1, 1]))
    shape = r.state_shape()
    # The trip limit's length stands before the loop's other layers.
    x, state = _loop_and_state(r, shape)
    stacked = r.add(r.product(x, weights_zr), r.product(state, recurrent_zr))
    if biases:
        stacked = r.add(r.add(stacked, biases[0]), biases[2])
    stacked = r.activate(stacked, 0)
    z, reset = r.gate(stacked, 0, shape), r.gate(stacked, 1, shape)
    candidate = r.product(x, weights_h)
    if node.integer("linear_before_reset", 0) == 0:
        inner = r.product(r.add(reset, state, "PROD"), recurrent_h)
        total = r.add(candidate, inner)
        if biases:
            total = r.add(total, r.add(biases[3], biases[1]))
    else:
        inner = r.product(state, recurrent_h)
        if biases:
            inner = r.add(inner, biases[3])
        inner = r.add(reset, inner, "PROD")
        if biases:
            inner = r.add(inner, biases[1])
        total = r.add(candidate, inner)
    new = r.activate(total, 1)
    # Order of evaluation differs between releases, and with it the layers' numbers.
    one = ctx.scalar(1.0, "FLOAT", (1, 1, 1)) if ctx.parser.gru_one_first else None
    carried = r.add(z, state, "PROD")
    if one is None:
        one = ctx.scalar(1.0, "FLOAT", (1, 1, 1))
    following = r.add(r.add(r.add(one, z, "SUB"), new, "PROD"), carried)
    pass_shape = r.pass_shape(shape)
    following = r.kept(state, following, pass_shape)
    assert r.loop is not None
    r.loop.close(state, following)
    return [r.sequence_output(following, pass_shape), r.last_value(state, 1)]


def _loop_and_state(r: Recurrent, shape: NetTensor) -> Tuple[NetTensor, NetTensor]:
    x = r.start()
    first = r.initial(5, shape)
    assert r.loop is not None
    return x, r.ctx.name(r.loop.recurrence(first), r.node)


def lstm(ctx: Context, node: Node, inputs: List[Value]) -> List[Value]:
    """Gates i, o, f and c, with peepholes P for i, o and f."""
    if node.integer("input_forget", 0):
        raise Refused("Coupled input/forget is unsupported in the LSTM converter")
    r = Recurrent(ctx, node, inputs, 4, ["Sigmoid", "Tanh", "Tanh"])
    bias = r.combined_bias()
    shape = r.state_shape()
    first, first_cell = r.initial(5, shape), r.initial(6, shape)
    x = r.start()
    assert r.loop is not None
    state = ctx.name(r.loop.recurrence(first), node)
    cell = r.loop.recurrence(first_cell)
    total = r.add(r.product(x, r.weights), r.product(state, r.recurrence_weights))
    if bias is not None:
        total = r.add(total, bias)
    peephole = None if r.inputs[7] is None else ctx.tensor(r.inputs[7])

    def peep(gate: NetTensor, value: NetTensor, index: int) -> NetTensor:
        if peephole is None:
            return gate
        at = [0, index * r.hidden]
        weights = shapes.slice_layer(ctx.net, peephole, at, [r.directions, r.hidden], [1, 1])
        weights = unsqueeze(ctx, weights, [1])
        return r.add(gate, r.add(weights, value, "PROD"))

    into = r.activate(peep(r.gate(total, 0, shape), cell, 0), 0)
    forget = r.activate(peep(r.gate(total, 2, shape), cell, 2), 0)
    candidate = r.activate(r.gate(total, 3, shape), 1)
    fresh = r.add(into, candidate, "PROD")
    remembered = r.add(forget, cell, "PROD")
    new_cell = r.add(remembered, fresh)
    pass_shape = r.pass_shape(shape)
    new_cell = r.kept(cell, new_cell, pass_shape)
    r.loop.close(cell, new_cell)
    out = r.activate(peep(r.gate(total, 1, shape), new_cell, 1), 0)
    following = r.add(out, r.activate(new_cell, 2), "PROD")
    following = r.kept(state, following, pass_shape)
    r.loop.close(state, following)
    return [r.sequence_output(following, pass_shape), r.last_value(state, 1), r.last_value(cell, 2)]
