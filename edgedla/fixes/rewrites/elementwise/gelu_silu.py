"""GELU as x sigmoid(1.702 x). Largest error 0.0203."""

from __future__ import annotations

from edgedla.fixes.rewrites.elementwise.gelu_patterns import ERF, gelu_as_sigmoid
from edgedla.fixes.site import Rewrite, holds, no_pattern

SLOPE = 1.702

REWRITE = Rewrite(
    "gelu-silu",
    ("Gelu", "Erf"),
    gelu_as_sigmoid(lambda editor, x, channels: editor.batch_norm(x, SLOPE, 0.0, channels)),
    (holds("x 1x8x4x4", ERF + "m = Mul(x, a) y = Mul(m, h)"), no_pattern("x 1x8x4x4", "y = Erf(x)")),
)
