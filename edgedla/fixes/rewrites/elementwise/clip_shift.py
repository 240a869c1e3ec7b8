"""A Clip that does not begin at 0, or ends outside 1 to 127: moved and scaled so that it does, and back."""

from __future__ import annotations

import math
from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.rewrites.limits import rule_parameter
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses

#: Largest offset. The DLA stores what is moved: values around 1 behind a Clip from -20 have 54 dB in place of 66 in FP16 and 29 in place
#: of 34 in INT8, behind one from -1000 24 and 1 dB (simulated).
MOST_OFFSET = 4.0


def match(network: Network, node: Node) -> Optional[Site]:
    x = node.inputs[0]
    shape = network.shape(x)
    if shape is None or len(shape) != 4:
        return None
    dtype = network.dtype(x)
    low, high = _bounds(network, node)
    least, most = rule_parameter("ACT002", "min"), rule_parameter("ACT002", "max")
    if low is None or high is None or not high > low:
        raise Refused("it has one bound only, or none between its bounds")
    if low == 0 and least <= high <= most:
        return None
    if dtype.name == "float16" or abs(low) > MOST_OFFSET or abs(high) > 1e4:
        raise Refused(f"bounds {low:g} and {high:g}: moving them would cost too many bits")
    # Scaling by a power of 2 is exact.
    span = high - low
    scale = 1.0
    if span < least:
        scale = 2.0 ** math.ceil(math.log2(least / span))
    elif span > most:
        scale = 2.0 ** math.floor(math.log2(most / span))
    channels = shape[1]

    def build(editor: Any) -> Any:
        moved = editor.batch_norm(x, scale, -low * scale, channels)
        return editor.batch_norm(editor.clip(moved, 0.0, span * scale), 1.0 / scale, low, channels)

    return Site(node.outputs[0], (node,), build)


def _bounds(network: Network, node: Node) -> Any:
    """(low, high), None where there is none.

    Raises:
        Refused: a bound is computed at run time.
    """
    bounds = []
    for i, name in ((1, "min"), (2, "max")):
        value = node.inputs[i] if len(node.inputs) > i else None
        if value is None:
            bounds.append(attribute(node, name, None))
            continue
        constant = network.constant(value)
        if constant is None or constant.size != 1:
            raise Refused(f"{value.name} is computed at run time")
        number = float(constant.reshape(-1)[0])
        bounds.append(None if abs(number) > 1e30 else number)
    return bounds


REWRITE = Rewrite(
    "clip-shift",
    ("Clip",),
    match,
    (
        holds("x 1x8x4x4", "l = Constant<value_float = -1.0>() h = Constant<value_float = 1.0>() y = Clip(x, l, h)"),
        holds("x 1x8x4x4", "l = Constant<value_float = 0.0>() h = Constant<value_float = 0.3>() y = Clip(x, l, h)"),
        holds("x 1x8x4x4", "l = Constant<value_float = -4.0>() h = Constant<value_float = 200.0>() y = Clip(x, l, h)"),
        refuses("x 1x8x4x4", "l = Constant<value_float = -1.0>() y = Clip(x, l)", "one bound"),
        refuses(
            "x 1x8x4x4", "l = Constant<value_float = -1.0>() h = Constant<value_float = 65000.0>() y = Clip(x, l, h)", "bits"
        ),
        refuses("x 1x8x4x4", "l = Constant<value_float = -4.5>() h = Constant<value_float = 20.0>() y = Clip(x, l, h)", "bits"),
        no_pattern("x 1x8x4x4", "l = Constant<value_float = 0.0>() h = Constant<value_float = 6.0>() y = Clip(x, l, h)"),
    ),
)
