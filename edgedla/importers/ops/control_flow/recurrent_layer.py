"""What RNN, GRU and LSTM share: attributes, the loop, masks for ragged sequences, the outputs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edgedla.importers.broadcast import axis_length, constant_of_shape, unsqueeze
from edgedla.importers.context import Context
from edgedla.importers.network import arithmetic, dense, shapes
from edgedla.importers.network.core import NetTensor
from edgedla.importers.network.loops import Loop
from edgedla.importers.node import Node
from edgedla.importers.operand import Value
from edgedla.importers.ops.control_flow.control import add_counter
from edgedla.importers.refuse import Refused

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
    by_lower_name = {key.lower(): value for key, value in ACTIVATIONS.items()}
    kinds: List[Activation] = []
    alphas, betas = node.floats("activation_alpha"), node.floats("activation_beta")
    for i, name in enumerate(names):
        if name.lower() not in by_lower_name:
            raise Refused(f"Unrecognized activation type {name!r}")
        kind, alpha, beta = by_lower_name[name.lower()]
        kinds.append((kind, alphas[i] if i < len(alphas) else alpha, betas[i] if i < len(betas) else beta))
    n = len(defaults)
    if directions == 2 and kinds[:n] != kinds[n : 2 * n]:
        raise Refused(
            "The parser does not currently support cases where activations for the reverse pass of the "
            f"{node.op} do not match the forward pass."
        )
    return kinds[:n]


class Recurrent:
    """What RNN, GRU and LSTM share: attributes, the loop, masks for ragged sequences, the outputs."""

    def __init__(self, ctx: Context, node: Node, inputs: List[Value], gates: int, defaults: List[str]) -> None:
        self.ctx = ctx
        self.net = ctx.net
        self.node = node
        self.inputs = inputs + [None] * (8 - len(inputs))
        self.direction = node.text("direction", "forward")
        if self.direction not in ("forward", "reverse", "bidirectional"):
            raise Refused(f"direction {self.direction!r} of {node.op}")
        self.directions = 2 if self.direction == "bidirectional" else 1
        if node.integer("layout", 0):
            ctx.departs(node, "ignores layout=1 and takes the first axis for the sequence; transpose, and leave layout out")
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

    def valid(self, lengths: NetTensor, longest: NetTensor, reverse: bool, counter: Optional[NetTensor] = None) -> NetTensor:
        """True where the step lies inside the sequence."""
        ctx = self.ctx
        if counter is None:
            counter = self.counter()
        if ctx.v10:
            counter = ctx.cast_helper(counter, "INT32")
        if reverse:
            remaining = arithmetic.elementwise(self.net, unsqueeze(ctx, longest, [0]), counter, "SUB")
            mask = arithmetic.elementwise(self.net, lengths, remaining, "LESS")
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

    def wants(self, output: int) -> bool:
        """Whether the parser makes an output: all of them, since 10.6 those that have a name."""
        names = self.node.outputs
        return not self.ctx.parser.unnamed_outputs_dropped or (output < len(names) and bool(names[output]))

    def last_value(self, state: NetTensor, output: int) -> Optional[NetTensor]:
        assert self.loop is not None
        return self.loop.output(state, "LAST_VALUE") if self.wants(output) else None

    def sequence_output(self, state: NetTensor, pass_shape: NetTensor) -> Optional[NetTensor]:
        """All states of the sequence, stacked."""
        if not self.wants(0):
            return None
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
