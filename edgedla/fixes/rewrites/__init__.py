"""Every rewrite, in the order in which they are tried. To add one: its file, its row here, its entry in rules/fixes.yaml.

The order matters: what removes nodes, ends the network and fixes numbers first, then what later patterns build on, forms that one layer is
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
    "shapes.decoder_cut",
    "elementwise.expand_layer_norm",
    "pooling.average_flag",
    "resampling.resize_scales",
    "resampling.resize_asymmetric",
    "resampling.focus",
    "resampling.strided_slice",
    "pooling.global_average_pool",
    "pooling.global_average_conv",
    "pooling.global_max_pool",
    "pooling.chain_max_pool",
    "pooling.average_conv",
    "pooling.padded_average",
    "elementwise.hard_sigmoid_into_conv",
    "elementwise.hard_sigmoid",
    "shapes.depth_to_space",
    "shapes.space_to_depth",
    "shapes.channel_gather",
    "shapes.channel_shuffle",
    "shapes.dense_to_conv",
    "resampling.pad_into_conv",
    "convolution.conv_per_part",
    "shapes.int32_slice",
    "convolution.deconv_dense",
    "convolution.deconv_crop",
    "convolution.deconv_subpixel",
    "elementwise.leaky_relu",
    "elementwise.divide_by_constant",
    "elementwise.integer_power",
    "elementwise.negate",
    "elementwise.gelu_sigmoid",
    "elementwise.gelu_silu",
    "elementwise.mish",
    "elementwise.channel_mean",
    "convolution.dilated_centre",
    "convolution.patch_embedding",
    "convolution.split_channels",
    "elementwise.clip_shift",
    "elementwise.two_entry_softmax",
    "elementwise.spatial_gate",
    "elementwise.channel_gate",
    "elementwise.prelu",
    "elementwise.constants_to_batch_norm",
    "elementwise.full_rank_constants",
    "shapes.outputs_4d",
)


#: (first in INT8, first in FP16): two rewrites of one pattern, of which one is more exact and the other faster.
SWAPPED_IN_INT8: Tuple[Tuple[str, str], ...] = (("pooling.global_average_conv", "pooling.global_average_pool"),)


@lru_cache(maxsize=None)
def all_rewrites(precision: str = "fp16") -> Tuple[Rewrite, ...]:
    """The REWRITE of each module, in the order for this precision."""
    names = list(ORDER)
    if precision == "int8":
        for first, second in SWAPPED_IN_INT8:
            i, j = names.index(first), names.index(second)
            names[min(i, j)], names[max(i, j)] = first, second
    return tuple(importlib.import_module(f"{_PACKAGE}.{name}").REWRITE for name in names)
