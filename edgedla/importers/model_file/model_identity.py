"""What an ONNX file is besides its graph: the files that make it up, and which inputs have no fixed size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

from edgedla.files import sha256_of
from edgedla.importers.model_file.onnx_file import OnnxFile, read

#: TensorProto.DataLocation of weights that stand in a file beside the model.
EXTERNAL = 1


def model_identity(path: Path) -> Dict[str, Any]:
    """`identity_of` the file at `path`.

    Raises:
        ModelError: no readable ONNX model.
    """
    return identity_of(read(path))


def identity_of(file: OnnxFile) -> Dict[str, Any]:
    """{"name", "sha256", "external"}: the file, and the files beside it that hold its weights."""
    locations = {
        entry.value
        for tensor in file.model.graph.initializer
        if tensor.data_location == EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    folder = file.folder or Path()
    external = {name: sha256_of(folder / name) for name in sorted(locations) if (folder / name).is_file()}
    return {"name": file.name, "sha256": file.sha256, "external": external}


def dynamic_inputs(file: OnnxFile) -> Tuple[str, ...]:
    """Names of the inputs that have a dimension without a fixed size."""
    return tuple(
        entry.name
        for entry in file.model.graph.input
        if any(not d.HasField("dim_value") or d.dim_value <= 0 for d in entry.type.tensor_type.shape.dim)
    )
