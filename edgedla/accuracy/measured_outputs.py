"""The tensors whose INT8 error is measured: a network's float outputs, or the floats that its ArgMax reads."""

from __future__ import annotations

from typing import Any, List, Set, Tuple

from edgedla.errors import ModelError
from edgedla.importers.model_file.tensor_types import FLOAT, float_activations, tensor_types


def given_outputs(model: Any) -> Tuple[str, ...]:
    """Names of the outputs for a metric: the float ones, or all if there is none (a segmenter that ends in ArgMax)."""
    return _floats(model) or tuple(o.name for o in model.graph.output)


def measured_outputs(model: Any) -> Tuple[str, ...]:
    """Names of the float outputs; if there are none, of the last float tensors before the outputs.

    Args:
        model: onnx.ModelProto.

    Raises:
        ModelError: no output depends on a float that the network computes.
    """
    floats = _floats(model)
    return floats or _in_front(model)


def _floats(model: Any) -> Tuple[str, ...]:
    types = tensor_types(model)
    return tuple(o.name for o in model.graph.output if types[o.name][0] == FLOAT)


def _in_front(model: Any) -> Tuple[str, ...]:
    floats, makers = float_activations(model), {o: node for node in model.graph.node for o in node.output if o}
    sources: Set[str] = set()
    seen: Set[str] = set()
    waiting: List[str] = [o.name for o in model.graph.output]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in makers:
            continue
        seen.add(name)
        if name in floats:
            sources.add(name)
        else:
            waiting.extend(makers[name].input)
    if not sources:
        raise ModelError(
            "no output depends on a float tensor that the network computes, so there is no INT8 error to measure",
            where=", ".join(o.name for o in model.graph.output),
            hint="build it in FP16, or add an output for its scores",
        )
    return tuple(name for name in floats if name in sources)


def output_fields(model: Any, names: Tuple[str, ...]) -> bytes:
    """Bytes that, appended to the serialised model, add those names that are not outputs yet to its outputs."""
    import onnx

    outputs, added = {o.name for o in model.graph.output}, onnx.ModelProto()
    for name in names:
        if name not in outputs:
            added.graph.output.add().name = name
    written: bytes = added.SerializeToString()
    return written
