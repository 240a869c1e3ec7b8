"""Where the Q/DQ pairs of a model stand: the tensors that have one, and which of their readers read it."""

from __future__ import annotations

import json
from typing import Any, Collection, Dict, Mapping, Set

from edgedla.importers.model_file.tensor_types import FLOAT, tensor_types
from edgedla.quantization.qdq.fused import fused_tensors
from edgedla.quantization.qdq.nodes import METADATA


class Pairs:
    """Pairs of a model without Q/DQ, on `tensors`. `kept`: their original places, for a model from strip_qdq; otherwise empty."""

    def __init__(self, model: Any, absmax: Mapping[str, float], fp16_nodes: Collection[str], kind: int = FLOAT) -> None:
        """Args:
        absmax: tensor -> range. fp16_nodes: names of nodes without pairs. kind: onnx.TensorProto.DataType of the tensors.
        """
        self.absmax, self.kind, self.fp16 = absmax, kind, frozenset(fp16_nodes)
        self.types = tensor_types(model)
        self.outputs = {o.name for o in model.graph.output}
        self.wide = {name for node in model.graph.node if node.name in self.fp16 for name in node.output}
        self.kept = _recorded_places(model)
        paired = {n for node in model.graph.node for slot, n in enumerate(node.input) if self.read_by(node, slot, n)}
        self.tensors: Set[str] = paired | {n for n in self.outputs if self.wants(n) and self.output_through(n)}

    def wants(self, name: str) -> bool:
        # A model from strip_qdq gets pairs only where it had them, even if rules gave more tensors a scale.
        stood = not self.kept or name in self.kept["edges"] or name in self.kept["outputs"]
        return stood and name in self.absmax and self.types.get(name, (self.kind, ()))[0] == self.kind

    def output_through(self, name: str) -> bool:
        """True for a network output that is written by its pair's DQ."""
        return name in self.outputs and (name in self.kept["outputs"] if self.kept else name not in self.wide)

    def read_by(self, node: Any, slot: int, name: str) -> bool:
        """Whether the node reads the tensor through its pair."""
        if not self.wants(name):
            return False
        if self.kept:
            return [node.output[0], slot] in self.kept["edges"].get(name, [])
        # A size is the same in front of the pair.
        return node.op_type not in ("Shape", "Size") and not (node.name and node.name in self.fp16)


def stored_ranges(model: Any, absmax: Mapping[str, float]) -> Mapping[str, float]:
    """Without tensors inside what TensorRT fuses, where a pair would keep it from fusing. A model from strip_qdq gets the pairs it had."""
    if any(entry.key == METADATA for entry in model.metadata_props):
        return absmax
    fused = fused_tensors(model)
    return {name: value for name, value in absmax.items() if name not in fused}


def _recorded_places(model: Any) -> Dict[str, Any]:
    for entry in model.metadata_props:
        if entry.key == METADATA:
            try:
                places = json.loads(entry.value)
            except (ValueError, RecursionError):
                return {}
            return places if _is_record(places) else {}
    return {}


def _is_record(record: object) -> bool:
    """True if the metadata has the form that strip_qdq writes. Metadata is untrusted input."""
    if not isinstance(record, dict):
        return False
    edges, *others = (record.get(name) for name in ("edges", "outputs", "weights"))
    slots = edges.values() if isinstance(edges, dict) else (None,)
    return all(isinstance(of, (list, dict)) for of in others) and all(isinstance(of, list) for of in slots)
