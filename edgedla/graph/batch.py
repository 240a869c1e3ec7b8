"""The batch of a network: what one frame of a prediction holds."""

from __future__ import annotations

from math import prod
from typing import Set

from edgedla.graph.layer_graph import LayerGraph


def batch_of(graph: LayerGraph) -> int:
    """The batch of every input of four dims or more, as the DLA counts it; 1 where they differ, are open, or none has four."""
    sizes: Set[int] = set()
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.is_dynamic:
            return 1
        if len(tensor.dims) > 3:
            sizes.add(prod(tensor.dims[:-3]))
    return sizes.pop() if len(sizes) == 1 else 1


def frame_text(batch: int) -> str:
    """What times and rates count as a frame; "" where a frame is one picture."""
    return f"a frame is one run of the network: a batch of {batch}" if batch > 1 else ""
