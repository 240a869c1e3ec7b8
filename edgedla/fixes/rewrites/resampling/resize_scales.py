"""A Resize to `sizes` that are whole multiples of the input, written with `scales`."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    if len(node.inputs) < 4 or node.inputs[3] is None:
        return None
    x = node.inputs[0]
    before = network.nchw(x)
    sizes = network.constant(node.inputs[3])
    if sizes is None:
        raise Refused("the sizes are computed at run time")
    if attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch" or attribute(node, "axes", None):
        raise Refused("it names axes or keeps the aspect ratio")
    if attribute(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        raise Refused("it crops a region")
    after = [int(s) for s in sizes.ravel()]
    if sizes.shape != (len(before),) or min(after) < 1:
        raise Refused(f"its sizes are {after}")
    if any(a % b for a, b in zip(after, before)):
        raise Refused(f"from {list(before)} to {after} is not a whole factor")
    attributes = {name: a.value for name, a in node.attributes.items() if name != "keep_aspect_ratio_policy"}

    def build(editor: Any) -> Any:
        scales = editor.constant([a // b for a, b in zip(after, before)], np.float32, "scales")
        return editor.op("Resize", x, editor.no_region(), scales, **attributes)

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "resize-scales",
    ("Resize",),
    match,
    (
        holds("x 1x8x4x4", 's = Constant<value_ints = [1, 8, 8, 12]>() y = Resize<mode = "nearest">(x, , , s)'),
        holds(
            "x 1x8x4x4",
            "s = Constant<value_ints = [1, 8, 8, 8]>() "
            'y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , , s)',
        ),
        refuses("x 1x8x4x4", 's = Constant<value_ints = [1, 8, 6, 6]>() y = Resize<mode = "nearest">(x, , , s)', "whole"),
        no_pattern("x 1x8x4x4", "s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() y = Resize(x, , s)"),
    ),
)
