"""The decoder in an artifact: an ONNX model that computes the original outputs from those that `fix` left."""

from __future__ import annotations

from typing import Tuple

from edgedla.builder.artifact.of_plan import Contents
from edgedla.builder.onnx_source import OnnxSource
from edgedla.importers.model_file.changed_outputs import decoder_path

ROLE = "decoder"


def decoder_contents(source: OnnxSource) -> Contents:
    """The decoder's file; empty unless the model has one beside it."""
    decoder = decoder_path(source.path)
    return {(ROLE, "decoder.onnx"): decoder.read_bytes()} if decoder.name in source.identity["external"] else {}


def decoder_notes(source: OnnxSource) -> Tuple[str, ...]:
    """Notes for the user if the original outputs cannot be restored."""
    lost = [output["name"] for output in source.identity.get("outputs", ()) if output["decoder"]]
    decoder = decoder_path(source.path).name
    if not lost or decoder in source.identity["external"]:
        return ()
    return (
        f"{', '.join(lost)}: cut off by `edgedla fix`; {decoder} is not beside the model, so the artifact cannot restore them",
    )
