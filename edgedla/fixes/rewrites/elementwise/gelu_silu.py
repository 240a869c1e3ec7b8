"""GELU as x sigmoid(1.702 x). Largest error 0.0203."""

from __future__ import annotations

from typing import Any, Optional

from edgedla.fixes.network.network import Network
from edgedla.fixes.rewrites.elementwise.gelu_patterns import gelu_of
from edgedla.fixes.rewrites.elementwise.gelu_sigmoid import ERF
from edgedla.fixes.site import Rewrite, Site, holds, no_pattern

SLOPE = 1.702


def match(network: Network, node: Any) -> Optional[Site]:
    found = gelu_of(network, node)
    if found is None:
        return None
    x, nodes, output = found
    _, channels, _, _ = network.nchw(x)
    network.dtype(x)

    def build(editor: Any) -> Any:
        return editor.op("Mul", x, editor.op("Sigmoid", editor.batch_norm(x, SLOPE, 0.0, channels)))

    return Site(output, nodes, build)


REWRITE = Rewrite(
    "gelu-silu",
    ("Gelu", "Erf"),
    match,
    (holds("x 1x8x4x4", ERF + "m = Mul(x, a) y = Mul(m, h)"), no_pattern("x 1x8x4x4", "y = Erf(x)")),
)
