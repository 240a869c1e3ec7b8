"""Which layers TensorRT runs as one operator: Conv + BatchNorm + ReLU + Add, and chains of element-wise layers."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from edgedla.costs.work import WORK_CLASS, gate_of
from edgedla.graph import Layer, LayerGraph
from edgedla.graph.layer_graph import QUANTIZING


class Operator(NamedTuple):
    """Layers that TensorRT runs as one operator if they are on one device.

    Attributes:
        layers: indices, leader first (Conv, then its Scale, Activation, Add, ...).
        links: (producer, consumer) pairs inside the group; a device change across a link separates the consumer.
    """

    layers: Tuple[int, ...]
    links: Tuple[Tuple[int, int], ...] = ()

    @property
    def leader(self) -> int:
        return self.layers[0]


def operators_of(graph: LayerGraph) -> Tuple[Operator, ...]:
    """Every live layer in exactly one operator, in order of the leaders.

    An element-wise layer joins the operator of a producer of one of its inputs when nothing else reads that tensor and it
    is no network output. SiLU, x * sigmoid(x), is one such layer, and so is hard swish. With two such producers it joins
    the later one: the other input is ready before. An operator takes one second activation operand, the residual Add.

    Quantize and Dequantize join what writes their input. An Add behind a Dequantize stays apart: its convolution has
    written INT8 (TensorRT Developer Guide, "Q/DQ Layer-Placement Recommendations": quantize the residual input alone).
    """
    return graph.once("operators", _operators)


def _operators(graph: LayerGraph) -> Tuple[Operator, ...]:
    outputs = set(graph.outputs)
    members: Dict[int, List[int]] = {}
    links: Dict[int, List[Tuple[int, int]]] = {}
    leader_of: Dict[int, int] = {}
    has_operand: Dict[int, bool] = {}
    for layer in graph.layers:
        joined = _producer_to_join(layer, graph, outputs, leader_of, has_operand)
        if joined is None:
            leader_of[layer.index] = layer.index
            members[layer.index] = [layer.index]
            links[layer.index] = []
            # A pointwise leader that reads two activations has taken its operand.
            has_operand[layer.index] = _is_pointwise(layer) and len(_activations(layer, graph)) > 1
            continue
        leader = leader_of[joined]
        leader_of[layer.index] = leader
        members[leader].append(layer.index)
        links[leader].append((joined, layer.index))
        takes = len(_activations(layer, graph)) > 1 and gate_of(layer, graph) is None
        has_operand[leader] = has_operand[leader] or takes
    return tuple(Operator(tuple(members[i]), tuple(links[i])) for i in sorted(members))


def _producer_to_join(
    layer: Layer, graph: LayerGraph, outputs: set, leader_of: Dict[int, int], has_operand: Dict[int, bool]
) -> Optional[int]:
    if not _is_pointwise(layer):
        return None
    activations = _activations(layer, graph)
    best: Optional[int] = None
    for name in activations:
        producer = graph.producer(name)
        if producer is None or producer not in leader_of or name in outputs or not _alone_reads(layer, name, graph):
            continue
        leader = leader_of[producer]
        head = graph.layers[leader]
        if WORK_CLASS.get(head.type) not in ("multiply", "pointwise") and layer.type not in QUANTIZING:
            continue
        if graph.layers[producer].type == "DEQUANTIZE" and len(activations) > 1 and gate_of(layer, graph) is None:
            continue
        if len(activations) > 1 and has_operand[leader] and gate_of(layer, graph) is None:
            continue
        # A fused layer writes what the operator would have written.
        if graph.tensors[layer.outputs[0]].volume != graph.tensors[name].volume:
            continue
        best = producer if best is None else max(best, producer)
    return best


def _alone_reads(layer: Layer, name: str, graph: LayerGraph) -> bool:
    """Nothing else reads the tensor; the two layers of SiLU, x * sigmoid(x), or of hard swish count as one reader."""
    readers = graph.readers(name)
    if readers == (layer.index,):
        return True
    return len(readers) == 2 and layer.index in readers and gate_of(graph.layers[readers[-1]], graph) == readers[0]


def _is_pointwise(layer: Layer) -> bool:
    return WORK_CLASS.get(layer.type) == "pointwise"


def _activations(layer: Layer, graph: LayerGraph) -> Tuple[str, ...]:
    return tuple(dict.fromkeys(t.name for t in graph.activations(layer)))
