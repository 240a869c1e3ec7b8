"""Another operator set for a model, by ONNX's own converter, without loading its weights."""

from __future__ import annotations

import math
import re
from typing import Any, List

from edgedla.errors import ModelError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.importers.model_file.converted_bounds import type_bounds
from edgedla.importers.operator_schema import DEFAULT_DOMAINS, operator_schema

#: The body of a newer operator may have a newer one again: Gelu's has CastLike.
MOST_EXPANSIONS = 4
#: Elements that a tensor may have (TensorRT's Dims hold 31 bits). The converter writes down a shape of more, value by value.
MOST_ELEMENTS = 2**31 - 1
#: ONNX's function bodies cast their constants with it; older parsers lack it. It becomes a Cast once the type is known.
GLUE = "CastLike"


def convert_opset(model: Any, version: int) -> Any:
    """An onnx_ir.Model in the operator set `version`; the model itself where it has that already.

    Raises:
        ModelError: an operator has no form there, or an input has more elements than a tensor may have.
    """
    present = [v for d, v in model.graph.opset_imports.items() if d in DEFAULT_DOMAINS]
    if present == [version]:
        return model
    from onnx import version_converter

    # The converter reads no weights: small constants are in the outline, large ones are references.
    proto = outline(model)
    _require_sizes(proto)
    _drop_defaults(proto)
    try:
        proto = _expanded(proto, version)
        proto = version_converter.convert_version(proto, version)
        type_bounds(proto)
    except Exception as e:
        # onnx raises RuntimeError with its assertion, or its own classes.
        raise ModelError(
            f"the model cannot be written in operator set {version}: {_reason(e)}",
            where=model.graph.name or "<model>",
            hint="Export it again with that operator set.",
        ) from e
    converted = onnx_ir().from_proto(proto)
    for name, value in converted.graph.initializers.items():
        original = model.graph.initializers.get(name)
        if original is not None:
            value.const_value = original.const_value
    keep_description(model, converted)
    return converted


def keep_description(model: Any, made: Any) -> None:
    """What `model` says of itself, also in the onnx_ir.Model that was made of its outline."""
    made.metadata_props.update(model.metadata_props)
    made.producer_name, made.producer_version = model.producer_name, model.producer_version
    made.doc_string, made.domain, made.model_version = model.doc_string, model.domain, model.model_version


def _require_sizes(proto: Any) -> None:
    for value in proto.graph.input:
        elements = math.prod(max(d.dim_value, 1) for d in value.type.tensor_type.shape.dim)
        if elements > MOST_ELEMENTS:
            raise ModelError(
                f"input {value.name!r} has {elements} elements",
                where=proto.graph.name or "<model>",
                allowed=f"at most {MOST_ELEMENTS}",
            )


def _newer_functions(proto: Any, version: int) -> List[str]:
    """Operators that this set does not have yet and that ONNX writes in others, such as Gelu before 20; each once."""
    present = max(o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS)
    newer = []
    for operator in dict.fromkeys(n.op_type for n in proto.graph.node if n.domain in DEFAULT_DOMAINS):
        schema = operator_schema(operator, present)
        if schema is None or (operator_schema(operator, version) is not None and operator != GLUE):
            continue
        if schema.has_function or schema.has_context_dependent_function:
            newer.append(operator)
    return newer


def _expanded(proto: Any, version: int) -> Any:
    """The model with newer operators written in those that they are made of, as far as this onnx can do that."""
    from onnx import helper, inliner

    # The inliner looks for types of values, those of constants among them.
    typed = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in proto.graph.initializer]
    proto.graph.value_info.extend(typed)
    for _ in range(MOST_EXPANSIONS):
        operators = [("", name) for name in _newer_functions(proto, version)]
        if not operators:
            break
        try:
            proto = inliner.inline_selected_functions(proto, operators, inline_schema_functions=True)
        except TypeError:
            # Older onnx expands the model's own functions alone.
            break
    return proto


def _drop_defaults(proto: Any) -> None:
    """Exporters write this default; the converter keeps it where the operator has no such attribute yet."""
    for node in proto.graph.node:
        for entry in list(node.attribute):
            if entry.name == "noop_with_empty_axes" and entry.i == 0:
                node.attribute.remove(entry)


def _reason(error: Exception) -> str:
    """Why the converter fails, without the place in its source code."""
    text = str(error).splitlines()[-1]
    missing = re.search(r"No Previous Version of (\w+) exists", text)
    if missing:
        return f"it has no {missing.group(1)}"
    stuck = re.search(r"No Adapter From Version \$?(\d+) for (\w+)", text)
    return f"ONNX's converter has no step down from {stuck.group(1)} for {stuck.group(2)}" if stuck else text[-160:]
