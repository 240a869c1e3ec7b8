"""A Pad of zeros around H and W in the `pads` of the Conv or AveragePool that reads it."""

from __future__ import annotations

from typing import Any, List, Optional

from edgedla.fixes.network.network import Network, attribute, window_numbers
from edgedla.fixes.rewrites.limits import conv_padding, rule_parameter
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    pad = network.producer(node.inputs[0], "Pad")
    if pad is None:
        return None
    x = pad.inputs[0]
    network.nchw(x)
    network.dtype(x)
    around = _zeros_around(network, pad)
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        raise Refused(f"auto_pad is {auto}: it would count the padding as input")
    pads_now = window_numbers(node, "pads", (0, 0, 0, 0)) if auto == "NOTSET" else [0, 0, 0, 0]
    kernel = attribute(node, "kernel_shape", None)
    if node.op_type == "Conv":
        kernel = kernel or list(network.weight_shape(node.inputs[1])[2:])
        most = conv_padding()
    else:
        most = rule_parameter("POOL004", "max")
        if any(pads_now) and not attribute(node, "count_include_pad", 0):
            raise Refused("its divisor leaves its own padding out")
        if attribute(node, "ceil_mode", 0):
            raise Refused("ceil_mode adds windows that reach outside")
    if not kernel or len(kernel) != 2:
        raise Refused(f"kernel_shape is {kernel}: a 2-D window has 2 numbers")
    pads = [a + b for a, b in zip(pads_now, around)]
    reach = [(k - 1) * d for k, d in zip(kernel, window_numbers(node, "dilations", (1, 1)))]
    if max(pads) > most or any(p > r for p, r in zip(pads, reach * 2)):
        raise Refused(f"padding of {pads} is above {most}, or not below the kernel")
    attributes = {name: a.value for name, a in node.attributes.items() if name not in ("pads", "auto_pad")}
    if node.op_type == "AveragePool":
        attributes["count_include_pad"] = 1

    def build(editor: Any) -> Any:
        return editor.op(node.op_type, x, *node.inputs[1:], **{**attributes, "pads": pads})

    return Site(node.outputs[0], (pad, node), build)


def _zeros_around(network: Network, pad: Any) -> List[int]:
    """[top, left, bottom, right].

    Raises:
        Refused: it pads by something else, elsewhere, or by numbers that are computed.
    """
    mode = attribute(pad, "mode", "constant")
    if mode != "constant":
        raise Refused(f"it pads in mode {mode}; a convolution pads with zeros")
    given = [None if v is None else network.constant(v) for v in pad.inputs[1:]]
    if not given or given[0] is None or any(v is not None and g is None for v, g in zip(pad.inputs[1:], given)):
        raise Refused("its numbers are computed at run time")
    if len(given) > 1 and given[1] is not None and given[1].size and float(given[1].reshape(-1)[0]) != 0.0:
        raise Refused("it pads with another value than 0")
    axes = [int(a) % 4 for a in given[2]] if len(given) > 2 and given[2] is not None else [0, 1, 2, 3]
    numbers = [int(n) for n in given[0]]
    sides = {axis: (numbers[i], numbers[i + len(axes)]) for i, axis in enumerate(axes)}
    if any(sides.get(axis, (0, 0)) != (0, 0) for axis in (0, 1)) or any(n < 0 for n in numbers):
        raise Refused("it pads batch or channels, or crops")
    rows, columns = sides.get(2, (0, 0)), sides.get(3, (0, 0))
    return [rows[0], columns[0], rows[1], columns[1]]


REWRITE = Rewrite(
    "pad-into-conv",
    ("Conv", "AveragePool"),
    match,
    (
        holds("x 1x8x6x6, w 4x8x3x3", "p = Constant<value_ints = [0, 0, 0, 1, 0, 0, 1, 2]>() q = Pad(x, p) y = Conv(q, w)"),
        holds(
            "x 1x8x6x6, w 8x1x3x3",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() q = Pad(x, p) "
            "y = Conv<group = 8, pads = [1, 1, 1, 1], dilations = [2, 2], strides = [2, 2]>(q, w)",
        ),
        holds(
            "x 1x8x6x6",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() q = Pad(x, p) y = AveragePool<kernel_shape = [3, 3]>(q)",
        ),
        refuses(
            "x 1x8x6x6, w 4x8x3x3",
            "p = Constant<value_ints = [0, 1, 0, 1, 0, 0, 1, 1]>() q = Pad(x, p) "
            "i = Constant<value_ints = [0, 1, 2, 3, 4, 5, 6, 7, 0]>() v = Gather<axis = 1>(w, i) y = Conv(q, v)",
            "batch or channels",
        ),
        refuses(
            "x 1x8x6x6, w 4x8x3x3",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() " 'q = Pad<mode = "reflect">(x, p) y = Conv(q, w)',
            "reflect",
        ),
        refuses(
            "x 1x8x6x6, w 4x8x3x3",
            "p = Constant<value_ints = [0, 0, 3, 1, 0, 0, 1, 1]>() " "q = Pad(x, p) y = Conv(q, w)",
            "below the kernel",
        ),
        refuses(
            "x 1x8x6x6",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() q = Pad(x, p) "
            "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 0, 0]>(q)",
            "leaves its own padding out",
        ),
        refuses(
            "x 1x8x6x6",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() q = Pad(x, p) "
            "y = AveragePool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(q)",
            "reach outside",
        ),
        refuses(
            "x 1x8x6x6, w 4x8x3x3",
            "p = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() q = Pad(x, p) " 'y = Conv<auto_pad = "SAME_UPPER">(q, w)',
            "auto_pad",
        ),
        no_pattern("x 1x8x6x6, w 4x8x3x3", "y = Conv(x, w)"),
    ),
)
