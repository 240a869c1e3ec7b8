"""FLOAT16 models for ONNX Runtime's CPU, which leaves out roundings between nodes, and truncates where it should round to INT8."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Dict

from edgedla.importers.model_file.float16_tensors import FLOAT, HALF
from edgedla.importers.model_file.float32_types import TYPE_ATTRIBUTES, to_float32
from edgedla.importers.model_file.port_names import free_prefix
from edgedla.importers.model_file.tensor_types import tensor_types
from edgedla.importers.model_file.value_names import rename


def rounded_half(model: Any) -> Any:
    """A copy of an onnx.ModelProto, with weights, in FLOAT, whose values of type FLOAT16 are rounded by a pair of Casts each; inputs and
    outputs keep their types. The model itself if it has no such value, or subgraphs.
    """
    from onnx import helper

    half = {name for name, (kind, _) in tensor_types(model).items() if kind == HALF}
    ends = {v.name for v in (*model.graph.input, *model.graph.output) if v.type.tensor_type.elem_type == HALF}
    if not half | ends or any(entry.HasField("g") for node in model.graph.node for entry in node.attribute):
        return model
    changed = deepcopy(model)
    graph = changed.graph
    prefix = free_prefix("edgedla", graph)
    constants = {t.name for t in graph.initializer}
    inputs = [v.name for v in graph.input if v.name in ends - constants]
    wide = {name: f"{prefix}wide/{name}" for name in ends - constants}
    nodes = [helper.make_node("Cast", [name], [wide[name]], name=f"{wide[name]}/cast", to=FLOAT) for name in inputs]
    for node in graph.node:
        made: Dict[str, str] = {o: f"{prefix}exact/{o}" for o in node.output if o in half}
        for entry in node.attribute:
            if entry.name in TYPE_ATTRIBUTES and entry.i == HALF:
                entry.i = FLOAT
            if entry.t.data_type == HALF:
                to_float32(entry.t)
        node.output[:] = [made.get(name, name) for name in node.output]
        rename([node], wide)
        nodes.append(node)
        for name, exact in made.items():
            narrow = name if name in ends else f"{prefix}narrow/{name}"
            nodes.append(helper.make_node("Cast", [exact], [narrow], name=f"{exact}/cast", to=HALF))
            nodes.append(helper.make_node("Cast", [narrow], [wide.get(name, name)], name=f"{narrow}/cast", to=FLOAT))
    del graph.node[:]
    graph.node.extend(nodes)
    for tensor in graph.initializer:
        if tensor.data_type == HALF:
            to_float32(tensor)
    del graph.value_info[:]
    return changed


def quantize_in_float(model: Any) -> bool:
    """Puts Casts to FLOAT in front of every QuantizeLinear of FLOAT16, which ONNX Runtime 1.23 truncates; True if there is one."""
    from onnx import helper

    half, nodes = {t.name for t in model.graph.initializer if t.data_type == HALF}, []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[1] in half:
            wide = [f"{free_prefix('edgedla', model.graph)}float{k}/{node.output[0]}" for k in (0, 1)]
            nodes += [helper.make_node("Cast", [old], [new], to=FLOAT) for old, new in zip(node.input, wide)]
            node.input[:2] = wide
        nodes.append(node)
    found = len(nodes) > len(model.graph.node)
    if found:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return found
