"""RNN, GRU, LSTM and CumSum: loops of TensorRT layers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edgedla.importers import shape_tensor as st
from edgedla.importers.broadcast import axis_length, constant_of_shape, squeeze, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.loops import Loop
from edgedla.importers.node import Node, single_axis
from edgedla.importers.ops.control import add_counter
from edgedla.importers.ops.elementwise import zero_like
from edgedla.importers.refuse import Refused
from edgedla.importers.values import Weights

#: ONNX activation -> TensorRT's, its default alpha and beta.
ACTIVATIONS: Dict[str, Tuple[str, float, float]] = {
    "Relu": ("RELU", 0.0, 0.0),
    "Tanh": ("TANH", 0.0, 0.0),
    "Sigmoid": ("SIGMOID", 0.0, 0.0),
    "LeakyRelu": ("LEAKY_RELU", 0.01, 0.0),
    "ThresholdedRelu": ("THRESHOLDED_RELU", 1.0, 0.0),
    "ScaledTanh": ("SCALED_TANH", 1.0, 1.0),
    "HardSigmoid": ("HARD_SIGMOID", 0.2, 0.5),
    "Elu": ("ELU", 1.0, 0.0),
    "Softsign": ("SOFTSIGN", 0.0, 0.0),
    "Softplus": ("SOFTPLUS", 0.0, 0.0),
}

Activation = Tuple[str, float, float]


def _activations(node: Node, defaults: List[str], directions: int) -> List[Activation]:
    """The gates' activations of the forward pass; both passes must have the same ones.

    Raises:
        Refused: an unknown activation, or a reverse pass of its own.
    """
    names = node.strings("activations") or defaults * directions
    if len(names) < len(defaults) * directions:
        raise Refused(f"activations {names} do not fit {directions} directions")
    known = {key.lower(): value for key, value in ACTIVATIONS.items()}
    found: List[Activation] = []
    alphas, betas = node.floats("activation_alpha"), node.floats("activation_beta")
    for i, name in enumerate(names):
        if name.lower() not in known:
            raise Refused(f"Unrecognized activation type {name!r}")
        kind, alpha, beta = known[name.lower()]
        found.append((kind, alphas[i] if i < len(alphas) else alpha, betas[i] if i < len(betas) else beta))
    n = len(defaults)
    if directions == 2 and found[:n] != found[n : 2 * n]:
        raise Refused(
            "The parser does not currently support cases where activations for the reverse pass of the "
            f"{node.op} do not match the forward pass."
        )
    return found[:n]


class Recurrent:
    """What RNN, GRU and LSTM share: attributes, the loop, masks for ragged sequences, the outputs."""

    def __init__(self, ctx: Context, node: Node, inputs: List[Any], gates: int, defaults: List[str]) -> None:
        self.ctx = ctx
        self.net = ctx.net
        self.node = node
        self.inputs = inputs + [None] * (8 - len(inputs))
        self.direction = node.text("direction", "forward")
        if self.direction not in ("forward", "reverse", "bidirectional"):
            raise Refused(f"direction {self.direction!r} of {node.op}")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.hidden = node.required_int("hidden_size")
        if self.hidden <= 0:
            raise Refused(f"hidden_size {self.hidden} must be positive")
        self.clip = node.number("clip", -1.0)
        self.gates = gates
        self.activations = _activations(node, defaults, self.directions)
        self.x = ctx.tensor(inputs[0])
        if len(self.x.dims) != 3:
            raise Refused(f"the input of {node.op} must be 3D, its rank is {len(self.x.dims)}")
        self.weights = ctx.tensor(inputs[1])
        self.recurrence_weights = ctx.tensor(inputs[2])
        self.lengths: Any = self.inputs[4]
        self.loop: Optional[Loop] = None

    @property
    def reverse(self) -> bool:
        return self.direction == "reverse"

    def combined_bias(self) -> Optional[NetTensor]:
        """Wb + Rb, as (directions, 1, gates * hidden)."""
        if self.inputs[3] is None:
            return None
        bias = self.ctx.tensor(self.inputs[3])
        dims = (self.directions, 2, self.gates * self.hidden)
        bias = shapes.shuffle(self.net, bias, reshape=dims, zero_is_placeholder=False)
        return dense.reduce(self.net, bias, "SUM", [1], True)

    def state_shape(self) -> NetTensor:
        """(directions, batch, hidden) as a tensor."""
        ctx = self.ctx
        directions = ctx.scalar(self.directions, "INT32", (1,))
        hidden = ctx.scalar(self.hidden, "INT32", (1,))
        batch = axis_length(ctx, self.x, 1, (1,))
        return shapes.concatenation(self.net, [directions, batch, hidden])

    def initial(self, index: int, shape: Any) -> NetTensor:
        """A state's first value: an input, or zeros of `shape`."""
        ctx = self.ctx
        if self.inputs[index] is not None:
            return ctx.tensor(self.inputs[index])
        # The compiler that builds the parser evaluates the arguments from the last one.
        dims = shape() if callable(shape) else shape
        return constant_of_shape(ctx, ctx.scalar(0.0, "FLOAT", (1,)), dims)

    def start(self) -> NetTensor:
        """Open the loop over the sequence; returns X(t) as (directions, batch, input size)."""
        ctx = self.ctx
        self.loop = loop = Loop(self.net)
        loop.trip_limit(axis_length(ctx, self.x, 0), "COUNT")
        if self.direction != "bidirectional":
            x = unsqueeze(ctx, loop.iterator(self.x, 0, self.reverse), [0])
            if self.lengths is not None:
                lengths = ctx.tensor(self.lengths)
                x = self.cleared(lengths, x, axis_length(ctx, self.x, 0), self.reverse)
            return x
        forward, backward = loop.iterator(self.x), loop.iterator(self.x, 0, True)
        first, second = unsqueeze(ctx, forward, [0]), unsqueeze(ctx, backward, [0])
        if self.lengths is not None:
            lengths = ctx.tensor(self.lengths)
            counter = self.counter()
            longest = axis_length(ctx, self.x, 0)
            first = self.cleared(lengths, first, longest, False, counter)
            second = self.cleared(lengths, second, longest, True, counter)
        return shapes.concatenation(self.net, [first, second], 0)

    def counter(self) -> NetTensor:
        assert self.loop is not None
        return add_counter(self.ctx, self.loop, self.ctx.index_type)

    def valid(
        self, lengths: NetTensor, longest: NetTensor, reverse: bool, counter: Optional[NetTensor] = None
    ) -> NetTensor:
        """True where the step lies inside the sequence."""
        ctx = self.ctx
        if counter is None:
            counter = self.counter()
        if ctx.v10:
            counter = ctx.cast_helper(counter, "INT32")
        if reverse:
            left = arithmetic.elementwise(self.net, unsqueeze(ctx, longest, [0]), counter, "SUB")
            mask = arithmetic.elementwise(self.net, lengths, left, "LESS")
            mask = arithmetic.unary(self.net, mask, "NOT")
        else:
            mask = arithmetic.elementwise(self.net, counter, lengths, "LESS")
        return unsqueeze(ctx, mask, [0, 2])

    def cleared(
        self, lengths: NetTensor, x: NetTensor, longest: NetTensor, reverse: bool, counter: Optional[NetTensor] = None
    ) -> NetTensor:
        """Zeros outside the sequence."""
        zero = self.ctx.scalar(0.0, "FLOAT", (1, 1, 1))
        mask = self.valid(lengths, longest, reverse, counter)
        return arithmetic.select(self.net, mask, x, zero)

    def kept(self, before: NetTensor, after: NetTensor, pass_shape: NetTensor) -> NetTensor:
        """The new state inside the sequence, the old one outside."""
        if self.lengths is None:
            return after
        ctx = self.ctx
        lengths = ctx.tensor(self.lengths)
        longest = axis_length(ctx, self.x, 0)
        if self.directions == 1:
            mask = self.valid(lengths, longest, self.reverse)
            return arithmetic.select(self.net, mask, after, before)
        starts = [ctx.constant([i, 0, 0], "INT32") for i in (0, 1)]
        parts = [self.part(t, s, pass_shape) for t in (after, before) for s in starts]
        counter = self.counter()
        out = []
        for i in (0, 1):
            mask = self.valid(lengths, longest, bool(i), counter)
            out.append(arithmetic.select(self.net, mask, parts[i], parts[i + 2]))
        return shapes.concatenation(self.net, out, 0)

    def part(self, x: NetTensor, start: NetTensor, size: NetTensor) -> NetTensor:
        return shapes.slice_layer(self.net, x, start, size, [1, 1, 1])

    def gate(self, x: NetTensor, index: int, size: NetTensor) -> NetTensor:
        """One gate's share of the stacked gates: a SLICE whose start constant is made after it."""
        number = self.net.number_of_layers
        self.net.number_of_layers += 1
        start = self.ctx.constant([0, 0, index * self.hidden], "INT32")
        out = self.part(x, start, size)
        self.net.renumber([out], number)
        return out

    def activate(self, x: NetTensor, which: int) -> NetTensor:
        if self.clip >= 0.0:
            x = arithmetic.activation(self.net, x, "CLIP", -self.clip, self.clip)
        kind, alpha, beta = self.activations[which]
        return arithmetic.activation(self.net, x, kind, alpha, beta)

    def product(self, x: NetTensor, weights: NetTensor) -> NetTensor:
        return dense.matrix_multiply(self.net, x, "NONE", weights, "TRANSPOSE")

    def add(self, a: NetTensor, b: NetTensor, op: str = "SUM") -> NetTensor:
        return arithmetic.elementwise(self.net, a, b, op)

    def pass_shape(self, shape: NetTensor) -> NetTensor:
        """(1, batch, hidden)"""
        return self.add(shape, self.ctx.constant([self.directions, 1, 1], "INT32"), "DIV")

    def sequence_output(self, state: NetTensor, pass_shape: NetTensor) -> NetTensor:
        """All states of the sequence, stacked."""
        ctx = self.ctx
        assert self.loop is not None
        length = axis_length(ctx, self.x, 0)
        if self.directions == 1:
            if self.lengths is not None:
                state = self.cleared(ctx.tensor(self.lengths), state, length, self.reverse)
            return self.loop.output(state, "REVERSE" if self.reverse else "CONCATENATE", 0, length)
        starts = [ctx.constant([i, 0, 0], "INT32") for i in (0, 1)]
        parts = [self.part(state, s, pass_shape) for s in starts]
        if self.lengths is not None:
            lengths = ctx.tensor(self.lengths)
            parts = [self.cleared(lengths, p, length, bool(i)) for i, p in enumerate(parts)]
        outs = [self.loop.output(p, kind, 0, length) for p, kind in zip(parts, ("CONCATENATE", "REVERSE"))]
        return shapes.concatenation(self.net, outs, 1)


def rnn(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
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
    return [r.sequence_output(following, pass_shape), r.loop.output(state, "LAST_VALUE")]


def gru(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
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
    # Order of evaluation differs between the two parsers, and with it the layers' numbers.
    one = ctx.scalar(1.0, "FLOAT", (1, 1, 1)) if ctx.v10 else None
    carried = r.add(z, state, "PROD")
    if one is None:
        one = ctx.scalar(1.0, "FLOAT", (1, 1, 1))
    following = r.add(r.add(r.add(one, z, "SUB"), new, "PROD"), carried)
    pass_shape = r.pass_shape(shape)
    following = r.kept(state, following, pass_shape)
    assert r.loop is not None
    r.loop.close(state, following)
    return [r.sequence_output(following, pass_shape), r.loop.output(state, "LAST_VALUE")]


def _loop_and_state(r: Recurrent, shape: NetTensor) -> Tuple[NetTensor, NetTensor]:
    x = r.start()
    first = r.initial(5, shape)
    assert r.loop is not None
    return x, r.ctx.name(r.loop.recurrence(first), r.node)


def lstm(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
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
    return [
        r.sequence_output(following, pass_shape),
        r.loop.output(state, "LAST_VALUE"),
        r.loop.output(cell, "LAST_VALUE"),
    ]


def _slice_across(ctx: Context, x: NetTensor, axis: int) -> NetTensor:
    """One element along `axis`: stride of its whole length, size 1."""
    dtype = ctx.index_type
    length = st.from_tensor(axis_length(ctx, x, axis, (1,), dtype))

    def size_of(i: int) -> st.ShapeTensor:
        return st.from_tensor(axis_length(ctx, x, i, (1,), dtype))

    sizes = st.vector(1) if axis == 0 else size_of(0)
    strides = length.copy() if axis == 0 else st.vector(1)
    for i in range(1, len(x.dims)):
        if i == axis:
            strides = st.concat(ctx, strides, length)
            sizes = st.concat(ctx, sizes, st.vector(1))
        else:
            own = size_of(i)
            strides = st.concat(ctx, strides, st.vector(1))
            sizes = st.concat(ctx, sizes, own)
    return st.add_slice(ctx, x, st.vector_of([0] * len(x.dims)), sizes, strides)


def _shifted(ctx: Context, x: NetTensor, zero: NetTensor, axis: int, reverse: bool) -> NetTensor:
    """An exclusive sum is the sum of the input moved by one, with a zero at the end that comes free."""
    rank = len(x.dims)
    joined = shapes.concatenation(ctx.net, [x, zero] if reverse else [zero, x], axis)
    subscripts = st.interlace_subscripts(st.vector(axis), rank)
    dims = st.shape_of(joined)
    starts = st.vector_of([0] * rank)
    if reverse:
        starts = st.interlace(ctx, starts, st.vector(1), subscripts)
    shorter = st.sub(ctx, st.gather(ctx, dims, st.vector(axis)), st.vector(1))
    sizes = st.interlace(ctx, st.shape_of(joined), shorter, subscripts)
    return st.add_slice(ctx, joined, starts, sizes, st.vector_of([1] * rank))


def cum_sum(ctx: Context, node: Node, inputs: List[Any]) -> List[Any]:
    reverse = node.integer("reverse", 0) == 1
    x = ctx.tensor(inputs[0])
    if not isinstance(inputs[1], Weights):
        raise Refused("Axis input for CumSum must be an initializer!")
    axis = single_axis(inputs[1].integers()[0], len(x.dims))
    across = _slice_across(ctx, x, axis)
    if node.integer("exclusive", 0):
        x = _shifted(ctx, x, zero_like(ctx, across), axis, reverse)
    loop = Loop(ctx.net)
    length = axis_length(ctx, x, axis)
    loop.trip_limit(length, "COUNT")
    step = loop.iterator(x, axis, reverse)
    across = squeeze(ctx, across, [axis])
    total = loop.recurrence(zero_like(ctx, across))
    following = arithmetic.elementwise(ctx.net, step, total, "SUM")
    loop.close(total, following)
    return [loop.output(following, "REVERSE" if reverse else "CONCATENATE", axis, length)]
