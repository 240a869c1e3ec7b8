"""The tensors that cross between devices, or between two regions, in the predicted engine."""

from __future__ import annotations

from typing import Dict, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import UnitGraph, outer_name
from edgedla.regions.values import LayerPrediction, Placed, Transition

#: Minimum bytes of one element at a border, by precision: an INT8 build may keep a border at FP16.
BORDER_BYTES = {"fp16": 2.0, "int8": 1.0}


def transitions_of(
    graph: LayerGraph, units: UnitGraph, layers: Sequence[LayerPrediction], precision: str
) -> Tuple[Transition, ...]:
    """One entry per tensor and pair of places (device and region) that it crosses between, in network order.

    A tensor that three layers of one region read crosses once. The network's own inputs and outputs are not counted.
    """

    def place(unit: int) -> Tuple[str, int]:
        """Device and region of a unit; a reshape that only the transform adds is on the GPU."""
        members = units.units[unit].layers
        first = layers[members[0]] if members else None
        if first is None or first.placed is not Placed.DLA or first.region is None:
            return "GPU", -1
        return "DLA", first.region

    places = [place(u) for u in range(len(units.units))]
    transitions: Dict[Tuple[str, Tuple[str, int]], Transition] = {}
    for consumer, unit in enumerate(units.units):
        for producer, tensor in unit.inputs:
            if places[producer] == places[consumer] or (tensor, places[consumer]) in transitions:
                continue
            # The inner tensors of a transformed MATRIX_MULTIPLY are named after its output, with a suffix after a NUL.
            name = outer_name(tensor, graph.tensors)
            members = units.units[producer].layers
            transitions[tensor, places[consumer]] = Transition(
                tensor=name,
                producer=members[-1] if members else None,
                from_device=places[producer][0],
                to_device=places[consumer][0],
                size_bytes=graph.tensors[name].size_bytes(BORDER_BYTES[precision]) if name in graph.tensors else 0,
            )
    return tuple(transitions.values())
