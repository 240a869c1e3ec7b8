"""Every rewrite, in the order in which they are tried. To add one: its file, its row here, its entry in rules/fixes.yaml.

The order matters: what removes nodes and fixes numbers first, then what later patterns build on, forms that one layer is
enough for before longer ones, and what only strict builds need last.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Tuple

from edgedla.fixes.site import Rewrite

_PACKAGE = "edgedla.fixes.rewrites"
#: Modules with a REWRITE each.
ORDER: Tuple[str, ...] = (
    "shapes.no_ops",
    "shapes.int32_slice",
    "resampling.resize_scales",
    "pooling.global_average_pool",
    "pooling.global_average_conv",
    "elementwise.hard_sigmoid_into_conv",
    "elementwise.hard_sigmoid",
    "shapes.channel_shuffle",
    "shapes.dense_to_conv",
    "elementwise.channel_gate",
    "elementwise.constants_to_batch_norm",
    "shapes.outputs_4d",
)


@lru_cache(maxsize=None)
def all_rewrites() -> Tuple[Rewrite, ...]:
    """The REWRITE of each module, in order."""
    return tuple(importlib.import_module(f"{_PACKAGE}.{name}").REWRITE for name in ORDER)
