"""A nearest Resize by whole factors with rounding to the middle, written as asymmetric with floor: the same elements.

Element x of the output reads (x + 1/2)/s - 1/2 rounded. With x = q s + r that is q + (r + 1/2)/s - 1/2, which lies strictly
between q - 1/2 and q + 1/2: q, as x/s rounded down."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network, attribute
from edgedla.fixes.site import Node, Refused, Rewrite, Site, holds, no_pattern, refuses


def match(network: Network, node: Node) -> Optional[Site]:
    if attribute(node, "mode", "nearest") != "nearest" or len(node.inputs) < 3 or node.inputs[2] is None:
        return None
    coordinates = attribute(node, "coordinate_transformation_mode", "half_pixel")
    rounding = attribute(node, "nearest_mode", "round_prefer_floor")
    if coordinates not in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric"):
        return None
    if not rounding.startswith("round_prefer"):
        raise Refused(f"{coordinates} with {rounding} shifts by half an element")
    x = node.inputs[0]
    network.nchw(x)
    scales = network.constant(node.inputs[2])
    if scales is None:
        raise Refused("the scales are computed at run time")
    if scales.size == 0:
        return None
    if attribute(node, "axes", None):
        raise Refused("it names axes")
    if scales.shape != (4,):
        raise Refused(f"it has scales of {list(scales.shape)}, not one for each of four dims")
    if any(s < 1 or s != int(s) for s in scales) or any(s != 1 for s in scales[:2]):
        raise Refused(f"scales {[float(s) for s in scales]}: whole upscales of H and W are the same either way")

    def build(editor: Any) -> Any:
        return editor.resize(x, (int(scales[2]), int(scales[3])))

    return Site(node.outputs[0], (node,), build)


REWRITE = Rewrite(
    "resize-asymmetric",
    ("Resize",),
    match,
    (
        holds("x 1x8x4x5", "s = Constant<value_floats = [1.0, 1.0, 2.0, 3.0]>() y = Resize(x, , s)"),
        holds(
            "x 1x8x4x5",
            "s = Constant<value_floats = [1.0, 1.0, 5.0, 2.0]>() "
            'y = Resize<coordinate_transformation_mode = "pytorch_half_pixel", nearest_mode = "round_prefer_ceil">(x, , s)',
        ),
        refuses("x 1x8x4x6", "s = Constant<value_floats = [1.0, 1.0, 0.5, 0.5]>() y = Resize(x, , s)", "whole upscales"),
        refuses(
            "x 1x8x4x6",
            's = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() y = Resize<nearest_mode = "floor">(x, , s)',
            "half an",
        ),
        no_pattern("x 1x8x4x6", 's = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() y = Resize<mode = "linear">(x, , s)'),
        no_pattern(
            "x 1x8x4x6",
            "s = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>() "
            'y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , s)',
        ),
    ),
)
