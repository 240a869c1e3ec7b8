"""Memory of loadables and engines in bytes: weights, and the tensors that are alive at one time."""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence, Tuple

from edgedla.costs.engines import PRECISION_BYTES
from edgedla.costs.transition import packed_bytes
from edgedla.costs.work import tensor_bytes
from edgedla.graph import LayerGraph
from edgedla.graph.kinds import kind_of
from edgedla.placement.prediction.prediction import LoadableMemory
from edgedla.placement.problem.problem import Limits

#: TensorRT's default of the pool dlaManagedSRAM, per core (developer guide, "Customizing DLA Memory Pools").
DEFAULT_SRAM_BYTES = 1 << 20
#: No figure of the DLA compiler's allocations is published: padding and reuse of buffers may halve or double them.
MEMORY_SPREAD = 0.5


def weight_bytes(graph: LayerGraph, layers: Iterable[int], precision: str) -> int:
    """Weights of layers at the engine's precision."""
    return sum(kind_of(graph.layers[i], graph).weight_elements * PRECISION_BYTES[precision] for i in layers)


def alive_bytes(graph: LayerGraph, layers: Sequence[int], precision: str, packed: bool) -> Tuple[int, int]:
    """(peak bytes of tensors inside these layers, bytes of their inputs and outputs).

    A tensor is alive from the layer that writes it to the last that reads it, in the layers' order.

    Args:
        packed: use the DLA's own format, with channels rounded up to whole vectors.
    """
    members = set(layers)
    outputs = set(graph.outputs)
    order = sorted(members)
    position = {i: k for k, i in enumerate(order)}
    border: Dict[str, float] = {}
    change: List[float] = [0.0] * (len(order) + 1)

    def size(name: str) -> float:
        tensor = graph.tensors[name]
        return packed_bytes(tensor, precision) if packed else tensor_bytes(tensor, PRECISION_BYTES[precision])

    for i in order:
        for tensor in graph.activations(graph.layers[i]):
            if graph.producer(tensor.name) not in members:
                border[tensor.name] = size(tensor.name)
        for name in graph.layers[i].outputs:
            readers = graph.readers(name)
            if name in outputs or any(r not in members for r in readers):
                border[name] = size(name)
            elif readers:
                last = max(position[r] for r in readers)
                change[position[i]] += size(name)
                change[max(last, position[i]) + 1] -= size(name)
    most = alive = 0.0
    for step in change:
        alive += step
        most = max(most, alive)
    return int(most), int(sum(border.values()))


def loadable_memory(graph: LayerGraph, layers: Sequence[int], precision: str, limits: Limits, sram: int) -> LoadableMemory:
    """Memory of one loadable by pool, and the limits that it exceeds."""
    weights = weight_bytes(graph, layers, precision)
    intermediate, io = alive_bytes(graph, layers, precision, packed=True)
    over = []
    if weights > limits.global_dram_bytes:
        over.append("dlaGlobalDRAM")
    if intermediate > limits.local_dram_bytes:
        over.append("dlaLocalDRAM")
    return LoadableMemory(weights, intermediate, io, min(intermediate, sram), "guessed", MEMORY_SPREAD, tuple(over))
