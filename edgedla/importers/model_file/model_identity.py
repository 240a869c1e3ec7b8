"""Identity of an ONNX model: the files that make it up with their SHA-256, and its dynamic inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Tuple

from edgedla.errors import ModelError
from edgedla.importers.model_file.changed_outputs import METADATA, changed_outputs, decoder_path
from edgedla.importers.model_file.onnx_file import OnnxFile, read
from edgedla.io.files import sha256_of
from edgedla.records.ultralytics import class_names

#: TensorProto.DataLocation of weights that stand in a file beside the model.
EXTERNAL = 1


def model_identity(path: Path) -> Dict[str, Any]:
    """`identity_of` the file at `path`.

    Raises:
        ModelError: the file is not a readable ONNX model.
    """
    return identity_of(read(path))


def identity_of(file: OnnxFile) -> Dict[str, Any]:
    """{"name", "sha256", "external"}: the file, and the files beside it that hold its weights or its decoder.

    "outputs" is added where `fix` changed outputs: their state before it, see changed_outputs. "labels" is added where the
    model's metadata names its classes.

    Raises:
        ModelError: the decoder beside the model belongs to another one.
    """
    locations = {
        entry.value
        for tensor in file.model.graph.initializer
        if tensor.data_location == EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    folder = file.folder or Path()
    external = {name: sha256_of(folder / name) for name in sorted(locations) if (folder / name).is_file()}
    identity = {"name": file.name, "sha256": file.sha256, "external": external}
    metadata = {p.key: p.value for p in file.model.metadata_props}
    labels = class_names(metadata.get("names", ""))
    if labels:
        identity["labels"] = list(labels)
    changed = changed_outputs(metadata.get(METADATA), file.where)
    if changed.outputs:
        identity["outputs"] = [output.to_dict() for output in changed.outputs]
    decoder = decoder_path(folder / f"{file.name}.onnx")
    if changed.decoder_sha256 and decoder.is_file():
        external[decoder.name] = sha256_of(decoder)
        if external[decoder.name] != changed.decoder_sha256:
            raise ModelError(
                "the decoder was not cut off this model", where=str(decoder), hint="run `edgedla fix` on the model again"
            )
    return identity


def dynamic_inputs(file: OnnxFile) -> Tuple[str, ...]:
    """Names of the inputs that have a dimension without a fixed size."""
    return tuple(
        entry.name
        for entry in file.model.graph.input
        if any(not d.HasField("dim_value") or d.dim_value <= 0 for d in entry.type.tensor_type.shape.dim)
    )
