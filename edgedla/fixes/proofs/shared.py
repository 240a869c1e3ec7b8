"""What a rewritten network has in common with the one before: those nodes run once, and only the rest runs again for the proof.

ONNX Runtime without optimisation runs node by node, so the same nodes make the same bytes of the same inputs and constants.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple

import numpy as np

from edgedla.fixes.network.plugins import plugin_names
from edgedla.fixes.network.subgraphs import subgraphs
from edgedla.fixes.site import Node

#: Values that are held for it, over all inputs; with more, both networks run whole.
MOST_HELD_BYTES = 256_000_000
#: ONNX Runtime computes these in FLOAT from node to node, and rounds only what is an output. None: an unknown type may be one.
ROUNDED_LATE = ("FLOAT16", "BFLOAT16", None)


@dataclass(frozen=True)
class Shared:
    """Attributes:
    border: values of the network before that the rest reads, and its outputs.
    rest: nodes of the rewritten network that are not as before, or read what they make.
    same: values that both networks make alike.
    held: those of the border, for each input of the network.
    """

    border: FrozenSet[str]
    rest: Tuple[Node, ...]
    same: FrozenSet[str]
    held: List[Mapping[str, np.ndarray]] = field(default_factory=list)

    def hold(self, values: Mapping[str, np.ndarray]) -> None:
        if self.border <= values.keys():
            self.held.append({name: values[name] for name in self.border})


def shared_of(before: Any, after: Any, inputs: int) -> Optional[Shared]:
    """None if both networks have to run whole.

    Args:
        before, after: onnx_ir.Models; the second was cloned from the first and rewritten.
        inputs: number of inputs to run.
    """
    made: Dict[str, Any] = {v.name: v for node in before.graph for v in node.outputs}
    types = {v.dtype and v.dtype.name for v in (*before.graph.inputs, *made.values()) if v.name}
    if not types.isdisjoint(ROUNDED_LATE) or plugin_names(before):
        return None
    constants = before.graph.initializers
    given = {v.name for v in before.graph.inputs}
    given |= {n for n, v in after.graph.initializers.items() if n in constants and v.const_value is constants[n].const_value}
    same = {"", *given}
    rest: List[Node] = []
    for node in after.graph:
        earlier = made.get(node.outputs[0].name)
        if earlier is not None and same.issuperset(map(_name, node.inputs)) and _alike(earlier.producer(), node):
            same.update(v.name for v in node.outputs)
        else:
            rest.append(node)
    outputs = {v.name for v in before.graph.outputs} | {v.name for v in after.graph.outputs if v.name in same}
    read = {name for node in rest for name in map(_name, node.inputs) if name in same}
    border = frozenset(outputs | (read - given - {""}))
    if not made.keys() >= outputs or any(subgraphs(node) for node in rest):
        return None
    held_bytes = inputs * sum(bytes_of(made[name]) for name in border)
    return None if held_bytes > MOST_HELD_BYTES else Shared(border, tuple(rest), frozenset(same))


def bytes_of(value: Any) -> int:
    """About so many bytes an onnx_ir.Value holds at run time."""
    return math.prod(d for d in value.shape or () if isinstance(d, int)) * 4


def _name(value: Any) -> str:
    return (value and value.name) or ""


def _alike(before: Node, after: Node) -> bool:
    """Whether two nodes compute the same, by names. Clones share the attributes, except those that hold graphs."""
    a, b = ([n.op_identifier(), *n.attributes, None, *map(_name, (*n.inputs, None, *n.outputs))] for n in (before, after))
    return a == b and all(entry is after.attributes[name] for name, entry in before.attributes.items())
