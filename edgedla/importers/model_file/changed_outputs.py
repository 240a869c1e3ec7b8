"""Outputs that `fix` changed: their old names and shapes, kept in the model's metadata and in an artifact's manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from edgedla.errors import ModelError
from edgedla.text.printable import Fields

#: Key of the model's metadata.
METADATA = "edgedla.outputs"


@dataclass(frozen=True)
class ChangedOutput(Fields):
    """An output of the model before `fix` changed it.

    Attributes:
        name, shape: before the change.
        sources: the outputs that hold its values now.
        decoder: True if the ONNX file beside the model computes it from `sources`; False if it is `sources`, in order,
            in another shape.
    """

    name: str
    shape: Tuple[int, ...]
    sources: Tuple[str, ...]
    decoder: bool = False

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ChangedOutput:
        """Raises KeyError, TypeError or ValueError on an entry of another form."""
        return cls(
            str(entry["name"]),
            tuple(int(d) for d in entry["shape"]),
            tuple(str(s) for s in entry["sources"]),
            bool(entry["decoder"]),
        )


@dataclass(frozen=True)
class ChangedOutputs:
    """What the metadata holds. `decoder_sha256`: SHA-256 of the decoder's file; "" where there is no decoder."""

    outputs: Tuple[ChangedOutput, ...] = ()
    decoder_sha256: str = ""

    def to_text(self) -> str:
        return json.dumps({"outputs": [o.to_dict() for o in self.outputs], "decoder_sha256": self.decoder_sha256})


def changed_outputs(text: Optional[str], where: str) -> ChangedOutputs:
    """Parses the text under METADATA; None means that no output changed.

    Raises:
        ModelError: it is not what `fix` writes.
    """
    if not text:
        return ChangedOutputs()
    try:
        document = json.loads(text)
        return ChangedOutputs(tuple(ChangedOutput.of(entry) for entry in document["outputs"]), str(document["decoder_sha256"]))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as e:
        raise ModelError(
            f"the metadata {METADATA} is damaged: {e}", where=where, hint="run `edgedla fix` on the model again"
        ) from e


def decoder_path(model: Path) -> Path:
    """Path of a model's decoder: in the folder of the model."""
    return model.with_name(f"{model.stem}.decoder.onnx")


def named(outputs: Sequence[ChangedOutput]) -> Dict[str, ChangedOutput]:
    """Outputs by old name; for an output that changed twice, its state before the first change."""
    first: Dict[str, ChangedOutput] = {}
    for output in outputs:
        first.setdefault(output.name, output)
    return first
