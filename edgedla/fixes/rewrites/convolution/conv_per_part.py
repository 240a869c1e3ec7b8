"""A Conv whose channels a Split or Slices take apart: one Conv for each part, with its share of the weights.

A slice costs Orin's DLA about 0.7 clocks for each byte; releases before 8.5 have no slice on it at all.
The activation between the Conv and the cut is done for each part too.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.convolution.channelwise import Chain, chain_behind, of_channels
from edgedla.fixes.rewrites.resampling.slices import Steps, steps_of
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses
from edgedla.graph.kinds.slice import MOST_PARTS

#: Older releases run no slice on a DLA (SLIC001), and there the rewrite helps whatever one costs.
SLICES_FROM = (8, 5)


def match(network: Network, node: Node) -> Optional[Site]:
    whole = node.inputs[0]
    if len(network.shape(whole) or ()) != 4 or _channels_of(network, node) is None:
        return None
    cuts = [n for n in network.readers(whole) if n.graph is network.graph and n.op_type in ("Split", "Slice")]
    cuts = [n for n in cuts if _channels_of(network, n) is not None]
    if cuts[0] is not node:
        # The first of several cuts takes the others with it.
        return None
    chain = chain_behind(network, whole, cuts)
    if network.goal.chip != "orin" and network.goal.trt >= SLICES_FROM:
        raise Refused("what a slice takes on the DLA of this module is not known: no figure is published")
    parts: List[Tuple[Any, Steps]] = []
    for cut in cuts:
        for value, steps in zip(cut.outputs, _channels_of(network, cut) or ()):
            if not steps[2]:
                raise Refused(f"{value.name} has no channels")
            if value.uses() or value.is_graph_output():
                parts.append((value, steps))
    if len(parts) > MOST_PARTS:
        raise Refused(f"it is cut into {len(parts)} parts, more than {MOST_PARTS}")
    if not parts:
        return None

    def build(editor: Any) -> Any:
        built = tuple(_part(editor, chain, value, steps) for value, steps in parts)
        return built if len(built) > 1 else built[0]

    values = [value for value, _ in parts]
    return Site(values[0], (*chain.nodes, *cuts), build, others=tuple(values[1:]))


def _part(editor: Any, chain: Chain, value: Any, steps: Steps) -> Any:
    """The Conv and what stands behind it, for one part of the channels. Its names begin with the part's."""
    editor.base = value.name
    first, step, count = steps
    return of_channels(editor, chain, slice(first, first + step * count, step))


def _channels_of(network: Network, node: Node) -> Optional[List[Steps]]:
    """The channels that each output takes; None where the node cuts another axis, or its numbers are not known."""
    if node.op_type == "Slice":
        steps = steps_of(network, node)
        return [steps[1]] if steps is not None and _whole_but_channels(network, node, steps) else None
    shape = network.shape(node.inputs[0])
    if shape is None or attribute(node, "axis", 0) % 4 != 1:
        return None
    sizes = _sizes(network, node, shape[1])
    if sizes is None:
        return None
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [(start, 1, size) for start, size in zip(starts, sizes)]


def _whole_but_channels(network: Network, node: Node, steps: Dict[int, Steps]) -> bool:
    shape = network.shape(node.inputs[0]) or ()
    return 1 in steps and all(axis == 1 or taken == (0, 1, shape[axis]) for axis, taken in steps.items())


def _sizes(network: Network, node: Node, channels: int) -> Optional[List[int]]:
    """The channels of each output of a Split, which an attribute, an input or the number of outputs tells."""
    given = attribute(node, "split", None)
    if given is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        constant = network.constant(node.inputs[1])
        given = None if constant is None else constant.tolist()
        if given is None:
            return None
    if given is None:
        each = -(-channels // len(node.outputs))
        given = [max(0, min(each, channels - i * each)) for i in range(len(node.outputs))]
    sizes = [int(size) for size in given]
    return sizes if len(sizes) == len(node.outputs) and sum(sizes) == channels and min(sizes) >= 0 else None


SPLIT = "n = Constant<value_ints = [4, 2]>() "
CUTS = (
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [-2]>() a = Constant<value_ints = [1]>() "
    "l = Constant<value_ints = [9223372036854775807]>() "
)

REWRITE = Rewrite(
    "conv-per-part",
    ("Split", "Slice"),
    match,
    (
        holds(
            "x 1x8x4x4, w 6x8x1x1, wb 6",
            SPLIT + "c = Conv(x, w, wb) p, q = Split<axis = 1>(c, n) r = Relu(q) y = Concat<axis = 1>(r, p)",
        ),
        holds(
            "x 1x8x5x5, w 6x8x3x3",
            SPLIT + "c = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) s = Sigmoid(c) m = Mul(c, s) "
            "p, q = Split<axis = -3>(m, n) y = Concat<axis = 1>(q, p, q)",
        ),
        holds(
            "x 1x8x4x4, w 6x8x1x1, wb 6, ws 6, wt 6, wm 6, wv 6",
            SPLIT + "c = Conv(x, w, wb) b = BatchNormalization(c, ws, wt, wm, wv) h = HardSigmoid(b) m = Mul(b, h) "
            "p, q = Split<axis = 1>(m, n) y = Concat<axis = 1>(q, p)",
        ),
        holds(
            "x 1x8x4x4, w 6x8x1x1, wp 6x1x1",
            CUTS + "c = Conv(x, w) m = PRelu(c, wp) p = Slice(m, s, e, a) " "q = Slice(m, e, l, a) y = Concat<axis = 1>(q, p)",
        ),
        holds(
            "x 1x8x4x4, w 6x8x1x1, wd 6x1x3x3, wb 6",
            SPLIT + "c = Conv(x, w) r = Relu(c) "
            "d = Conv<group = 6, pads = [1, 1, 1, 1]>(r, wd, wb) p, q = Split<axis = 1>(d, n) y = Relu(q)",
        ),
        holds(
            "x 1x8x4x4, w 6x8x1x1",
            SPLIT + "c = Conv(x, w) p, q = Split<axis = 1>(c, n) y = Concat<axis = 1>(q, p)",
            chip="xavier",
            trt=(8, 4),
        ),
        refuses(
            "x 1x8x4x4, w 6x8x1x1",
            SPLIT + "c = Conv(x, w) p, q = Split<axis = 1>(c, n) y = Concat<axis = 1>(q, p)",
            "not known",
            chip="xavier",
            trt=(8, 5),
        ),
        refuses("x 1x6x4x4", SPLIT + "r = Relu(x) p, q = Split<axis = 1>(r, n) y = Relu(q)", "not of a convolution"),
        refuses("x 1x8x4x4, w 6x4x1x1", SPLIT + "c = Conv<group = 2>(x, w) p, q = Split<axis = 1>(c, n) y = Relu(q)", "2 groups"),
        refuses(
            "x 1x8x4x4, w 6x8x1x1",
            SPLIT + "c = Conv(x, w) p, q = Split<axis = 1>(c, n) r = Relu(p) " "t = Concat<axis = 1>(q, r) y = Add(t, c)",
            "c is read whole",
        ),
        refuses(
            "x 1x8x4x4, v 1x6x4x4, w 6x8x1x1",
            SPLIT + "c = Conv(x, w) t = Add(c, v) " "p, q = Split<axis = 1>(t, n) y = Relu(q)",
            "not of a convolution",
        ),
        no_pattern("x 1x8x4x6, w 6x8x1x1", SPLIT + "c = Conv(x, w) p, q = Split<axis = 3>(c, n) y = Relu(q)"),
        no_pattern(
            "x 1x8x4x4, w 6x8x1x1",
            "s = Constant<value_ints = [0, 0]>() e = Constant<value_ints = [3, 2]>() "
            "a = Constant<value_ints = [1, 2]>() c = Conv(x, w) y = Slice(c, s, e, a)",
        ),
    ),
)
