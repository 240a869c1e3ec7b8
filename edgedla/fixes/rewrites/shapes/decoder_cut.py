"""A decoder after the last convolutions: the network ends at these, and the host decodes.

No DLA runs what YOLO and SSD do after their heads (Reshape to three dims, Concat of all scales, Softmax, boxes, NMS). The
decoder becomes a small separate model that computes the original outputs from the new ones."""

from __future__ import annotations

from typing import Any, List, Optional, Set

from edgedla.fixes.network.network import Network
from edgedla.fixes.network.plugins import is_plugin
from edgedla.fixes.network.subgraphs import subgraphs
from edgedla.fixes.rewrites.convolution.deconv_crop import FIRST_SLICE
from edgedla.fixes.rewrites.shapes.patterns import RESHAPES
from edgedla.fixes.site import Cut, Node, Refused, Rewrite, Site, holds, no_pattern, refuses
from edgedla.importers.model_file.changed_outputs import METADATA, changed_outputs
from edgedla.importers.operator_schema import DEFAULT_DOMAINS

#: A Conv after a Softmax with at most this many weights is part of a decoder: YOLOv8's for box distributions has 16.
MOST_DECODER_WEIGHTS = 64
#: More nodes than this are a second network, not a decoder.
MOST_NODES = 600
#: Operators that belong to the convolution before them: they keep four dims, and the DLA runs them.
SPATIAL = frozenset("Relu Clip LeakyRelu Sigmoid Tanh BatchNormalization MaxPool AveragePool Resize".split())
WEIGHTED = frozenset("Conv ConvTranspose Gemm MatMul".split())


def match(network: Network, node: Node) -> Optional[Site]:
    if not any(v.is_graph_output() for v in node.outputs):
        return None
    tail = _tail(network)
    outputs = [v for v in network.graph.outputs if v.producer() in tail]
    if not outputs or outputs[0].producer() is not node or all(n.op_type in RESHAPES for n in tail):
        return None
    heads = _heads(network, tail)
    if not heads:
        # Outputs that are only constants have no convolution before them to end at.
        return None
    unknown = [n for n in tail if n.domain not in DEFAULT_DOMAINS or is_plugin(n, network.model)]
    nested = [n for n in tail if subgraphs(n)]
    if unknown or nested:
        what = f"{unknown[0].op_type} is not an ONNX operator" if unknown else f"{nested[0].op_type} holds a graph"
        raise Refused(f"its decoder cannot run by itself: {what}")
    shared = [v for n in network.graph if n in tail for v in n.outputs if any(u.node not in tail for u in v.uses())]
    if shared:
        raise Refused(f"the network reads {shared[0].name} of its decoder too")
    if network.cut_off or changed_outputs(network.model.metadata_props.get(METADATA), network.graph.name).decoder_sha256:
        raise Refused("a decoder was cut off before, and the model can have only one")
    if not network.goal.change_outputs:
        what = "convolution" if len(heads) == 1 else "convolutions"
        raise Refused(f"{len(heads)} {what} would be the outputs: allow it with --change-outputs")
    names = ", ".join(v.name for v in outputs)
    interface = f"{names}: the outputs are {', '.join(v.name for v in heads)} now, and the decoder is a model of its own"
    ordered = tuple(n for n in network.graph if n in tail)
    cut = Cut(tuple(heads), tuple(outputs))
    return Site(outputs[0], ordered, lambda editor: outputs[0], new_interface=interface, cut=cut)


def _tail(network: Network) -> Set[Any]:
    """Nodes between the last convolutions and the outputs, without those that the DLA runs."""
    tail: Set[Any] = set()
    pending = [v.producer() for v in network.graph.outputs]
    while pending:
        node = pending.pop()
        if node is None or node in tail or _is_network(network, node):
            continue
        if len(tail) > MOST_NODES:
            return set()
        tail.add(node)
        pending += [v.producer() for v in node.inputs if v is not None]
    # Nodes are in running order: those before each have been decided already.
    for node in [n for n in network.graph if n in tail]:
        values = [v for v in node.inputs if v is not None and not network.is_constant(v)]
        dims = [network.shape(v) for v in (*values, *node.outputs)]
        inside = any(v.producer() in tail for v in values)
        if (node.op_type in SPATIAL or _crops(network, node)) and not inside and all(d is not None and len(d) == 4 for d in dims):
            tail.discard(node)
    return tail


def _crops(network: Network, node: Node) -> bool:
    """Whether the node is what deconv-crop adds after a transposed convolution, which the DLA runs."""
    deconvolution = network.producer(node.inputs[0], "ConvTranspose") if node.op_type == "Slice" else None
    return deconvolution is not None and network.goal.trt >= FIRST_SLICE


def _is_network(network: Network, node: Node) -> bool:
    """Whether the node has weights, except a mean over the bins of a distribution, after a Softmax."""
    if node.op_type not in WEIGHTED or not any(network.is_constant(v) for v in node.inputs[1:2]):
        return False
    weights = node.inputs[1]
    assert weights is not None
    assert weights.const_value is not None
    mean = weights.const_value.size <= MOST_DECODER_WEIGHTS
    return not (mean and network.producer(node.inputs[0], "Softmax", "Transpose", "Reshape"))


def _heads(network: Network, tail: Set[Any]) -> Optional[List[Any]]:
    """The values that the decoder reads; None if one is no computed N x C x H x W map of numbers."""
    heads = {}
    for node in network.graph:
        for value in node.inputs if node in tail else ():
            if value is None or network.is_constant(value) or value.producer() in tail:
                continue
            shape = network.shape(value)
            if value.producer() is None or shape is None or len(shape) != 4:
                return None
            heads[value.name] = value
    return list(heads.values())


_HEADS = "p = Conv(x, w1) q = Conv(x, w2) s = Constant<value_ints = [1, 12, -1]>() "
_JOIN = "a = Reshape(p, s) b = Reshape(q, s) y = Concat<axis = 2>(a, b)"
_INPUTS = "x 1x8x6x6, w1 12x8x1x1, w2 12x8x3x3"

REWRITE = Rewrite(
    "decoder-cut",
    (),
    match,
    (
        holds(_INPUTS, _HEADS + _JOIN, change_outputs=True),
        holds(
            _INPUTS,
            _HEADS + "r = Relu(q) a = Reshape(p, s) b = Reshape(r, s) c = Concat<axis = 2>(a, b) y = Sigmoid(c)",
            change_outputs=True,
        ),
        holds("x 1x8x1x1, w 10x8x1x1", "c = Conv(x, w) f = Flatten(c) y = Softmax<axis = 1>(f)", change_outputs=True),
        refuses(_INPUTS, _HEADS + _JOIN, "--change-outputs"),
        refuses(
            "x 1x8x6x6, w1 12x8x1x1, w2 12x12x1x1",
            "p = Conv(x, w1) r = Softmax<axis = 1>(p) z = Conv(r, w2) y = Mul(r, z)",
            "reads r",
            change_outputs=True,
        ),
        no_pattern("x 1x8x6x6, w 12x8x1x1", "p = Conv(x, w) y = Sigmoid(p)", change_outputs=True),
        no_pattern(
            "x 1x8x6x6, w 8x4x4x4",
            "p = ConvTranspose<strides = [2, 2]>(x, w) s = Constant<value_ints = [1, 1]>() "
            "e = Constant<value_ints = [13, 13]>() a = Constant<value_ints = [2, 3]>() y = Slice(p, s, e, a)",
            change_outputs=True,
        ),
        no_pattern("x 1x8x6x6, w 12x8x1x1", "p = Conv(x, w) y = Flatten(p)", change_outputs=True),
        no_pattern("x 1x80, w 80x10", "p = MatMul(x, w) y = Softmax(p)", change_outputs=True),
    ),
)
