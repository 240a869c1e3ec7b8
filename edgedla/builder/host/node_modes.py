"""Which precision every ONNX node of a planned network runs in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Set

from edgedla.builder.plan.plan import BuildPlan, LayerPlan
from edgedla.importers.model_file.value_names import graphs_in
from edgedla.quantization.numerics import INT8_GATES
from edgedla.quantization.scale_rules import scale_rules
from edgedla.vocabulary import GPU

if TYPE_CHECKING:
    from onnx import ModelProto

#: The operators that INT8_GATES switches (rules/int8_scales.yaml, SCALE030).
GATES = frozenset({"Sigmoid", "Tanh"})


def node_modes(model: ModelProto, plan: BuildPlan) -> List[str]:
    """For every ONNX node of the main graph "int8", "fp16", "fp32" (GPU), or "" where it becomes no layer.

    A node runs on the DLA if all layers made from it do. INT8 needs a scale for every tensor that the node reads or
    writes; without one TensorRT runs the layer in FP16 (calibration chapter of the 8.6.1 guide; rule Q-01).
    """
    constants = {i.name for i in model.graph.initializer}
    constants |= {o for node in model.graph.node if node.op_type == "Constant" for o in node.output}
    scaled, fp16_only = set(plan.calibration.absmax), scale_rules().fp16_only
    # The user chose INT8 for gates; their FP16 in the plan is only this feature's default.
    gates = GATES if plan.numerics.get(INT8_GATES) == "int8" else frozenset()
    modes = []
    for node, working in zip(model.graph.node, _working(model, plan)):
        if not working:
            modes.append("")
            continue
        if any(x.device == GPU for x in working):
            modes.append("fp32")
            continue
        activations = [t for t in (*node.input, *node.output) if t and t not in constants]
        int8 = (
            plan.precision == "int8"
            and (node.op_type in gates or node.op_type not in fp16_only)
            and all(node.op_type in gates or x.precision in (None, "int8") for x in working)
            and all(t in scaled for t in activations)
        )
        modes.append("int8" if int8 else "fp16")
    return modes


def folded_nodes(model: ModelProto, plan: BuildPlan) -> List[bool]:
    """For each ONNX node, True if it is folded away at build time."""
    return [bool(working) and all(x.folded for x in working) for working in _working(model, plan)]


def _is_handed_on(layer: LayerPlan, node: Any, outputs: Set[str]) -> bool:
    """Whether the layer copies an input that is an output too: the parser names the last node as its source."""
    return layer.type == "IDENTITY" and not outputs.isdisjoint(layer.outputs) and set(layer.outputs).isdisjoint(node.output)


def _working(model: ModelProto, plan: BuildPlan) -> Iterator[List[LayerPlan]]:
    """For each ONNX node, the layers made from it."""
    by_node: Dict[str, List[LayerPlan]] = {}
    by_output: Dict[str, List[LayerPlan]] = {}
    for layer in plan.layers:
        if layer.onnx_node:
            by_node.setdefault(layer.onnx_node, []).append(layer)
        for output in layer.outputs:
            by_output.setdefault(output, []).append(layer)
    named = Counter(node.name for graph in graphs_in(model.graph) for node in graph.node if node.name)
    outputs = {io.name for io in plan.outputs}
    for node in model.graph.node:
        # A node inside an If or Loop may have the name of one outside: then only what it writes tells its layers.
        layers = by_node.get(node.name, []) if named[node.name] == 1 else []
        layers = [x for x in layers if not _is_handed_on(x, node, outputs)]
        layers = layers or [x for o in node.output for x in by_output.get(o, [])]
        yield [x for x in layers if x.type not in ("SHUFFLE", "SQUEEZE", "UNSQUEEZE")] or layers
