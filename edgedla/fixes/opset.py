"""Another operator set for a model, by ONNX's own converter, without loading its weights."""

from __future__ import annotations

from typing import Any

from edgedla.errors import ModelError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import outline
from edgedla.fixes.network.network import DEFAULT_DOMAINS


def convert_opset(model: Any, version: int) -> Any:
    """An onnx_ir.Model in the operator set `version`; the model itself where it has that already.

    Raises:
        ModelError: an operator has no form there.
    """
    present = [v for d, v in model.graph.opset_imports.items() if d in DEFAULT_DOMAINS]
    if present == [version]:
        return model
    from onnx import version_converter

    try:
        # The converter reads no weights: small constants are in the outline, large ones are references.
        proto = version_converter.convert_version(outline(model), version)
    except Exception as e:
        # onnx raises RuntimeError with its assertion, or its own classes.
        raise ModelError(
            f"the model cannot be written in operator set {version}: {str(e).splitlines()[-1][-160:]}",
            where=model.graph.name or "<model>",
            hint="Export it again with that operator set.",
        ) from e
    converted = onnx_ir().from_proto(proto)
    for name, value in converted.graph.initializers.items():
        original = model.graph.initializers.get(name)
        if original is not None:
            value.const_value = original.const_value
    converted.metadata_props.update(model.metadata_props)
    converted.producer_name, converted.producer_version = model.producer_name, model.producer_version
    converted.doc_string, converted.domain, converted.model_version = (
        model.doc_string,
        model.domain,
        model.model_version,
    )
    return converted
