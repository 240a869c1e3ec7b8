"""What an ONNX file is besides its graph: the files that make it up, and which inputs have no fixed size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

from edgedla.files import sha256_of


def model_identity(path: Path) -> Dict[str, Any]:
    """{"name", "sha256", "external"}: the file, and the files beside it that hold its weights."""
    import onnx
    from onnx.external_data_helper import uses_external_data

    model = onnx.load(str(path), load_external_data=False)
    locations = {
        entry.value
        for tensor in model.graph.initializer
        if uses_external_data(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    external = {name: sha256_of(path.parent / name) for name in sorted(locations) if (path.parent / name).is_file()}
    return {"name": path.stem, "sha256": sha256_of(path), "external": external}


def dynamic_inputs(path: Path) -> Tuple[str, ...]:
    """Names of the inputs that have a dimension without a fixed size."""
    import onnx

    found = []
    for entry in onnx.load(str(path), load_external_data=False).graph.input:
        if any(not d.HasField("dim_value") or d.dim_value <= 0 for d in entry.type.tensor_type.shape.dim):
            found.append(entry.name)
    return tuple(found)
