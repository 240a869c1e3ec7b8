"""Artifact: a folder with what was built and a manifest that says of what, for what, and with which hashes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.errors import DocumentError
from edgedla.importers.model_file.changed_outputs import ChangedOutput
from edgedla.io.documents import header
from edgedla.io.files import sha256_of_bytes
from edgedla.text.printable import Fields

#: `Artifact.kind` of a file that holds a TensorRT engine and no manifest; such a one is run and never saved.
BARE_ENGINE = "engine"
#: Files written by an artifact carry their hash in their name, so that a new build never writes over a file that a
#: running pipeline or the old manifest refers to. The manifest is the one commit point.
HASHED_NAME = re.compile(r"^[A-Za-z0-9_]+-[0-9a-f]{12}(\.[A-Za-z0-9_]+)+$")
#: Folder of one stage of a chain; the number is the head of the stage's manifest digest.
STAGE_NAME = re.compile(r"^stage[0-9]{1,4}-[0-9a-f]{12}\Z")


@dataclass(frozen=True)
class Binding(Fields):
    """One input or output of the built network, as its buffer lies in memory.

    Attributes:
        name: tensor name. is_input: direction.
        shape_nchw: sizes without padding, in NCHW order (fewer where the tensor has a lower rank).
        dtype: element type at the border, TensorRT's name: FLOAT, HALF, INT8, INT32, ...
        format: edgedla.formats.TensorFormat name: LINEAR, DLA_LINEAR, DLA_HWC4, CHW16, CHW32.
        size_bytes: size of the buffer with its padding.
        strides_bytes: step between rows and so on by axis name, as the format defines them (`edgedla.formats.strides`).
        scale: real value = scale * stored value, for INT8; None for other types.
    """

    name: str
    is_input: bool
    shape_nchw: Tuple[int, ...]
    dtype: str
    format: str
    size_bytes: int
    strides_bytes: Mapping[str, int] = field(default_factory=dict)
    scale: Optional[float] = None


@dataclass(frozen=True)
class ArtifactFile(Fields):
    """One file: `role` is engine, loadable, host_model, plan, log, layers, drift, timing_cache, calibration, quantization
    or decoder (an ONNX model from the outputs to those that `fix` cut off)."""

    role: str
    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Stage:
    """One engine of a chain: a whole artifact, and the device it runs on.

    A tensor that passes from stage to stage has the same name and the same buffer (shape, type, format, scale) as output
    of the one and as input of the other. A stage reads network inputs and outputs of any stage before it.

    Attributes:
        device: "GPU", "DLA0" or "DLA1".
    """

    device: str
    artifact: Artifact


@dataclass(frozen=True)
class Artifact:
    """A built network. `folder` is None until it is saved or loaded.

    Attributes:
        kind: "hybrid" (TensorRT engine, GPU and DLA), "standalone" (DLA loadable for cuDLA), or "chain": a network that a
            placement spreads over both DLA cores, built as one engine per stage. "engine": a TensorRT engine file without a
            manifest: its model, its scales and its builder are unknown.
        backend: "tensorrt" or "host".
        simulated: True for the host backend, whose results are computed on the host, not on a DLA.
        model: {"name", "sha256"} of the ONNX file; "external": file name -> sha256 of its external data files; "outputs":
            the outputs before `fix` changed them (importers.model_file.changed_outputs); "labels": its metadata's class names.
        platform: Platform.to_dict() of the target.
        software: versions that built it: tensorrt, jetpack, dla_software, onnxruntime (None where absent or unknown).
        precision: "fp16" or "int8" (INT8 with FP16 allowed).
        placement_predicted, placement_real: layer name -> device, without folded layers; placement_real is None if
            unknown.
        accuracy: the error against ONNX Runtime in FP32 that the builder measured; None if it did not.
        notes: what the user must know.
        board: the Jetson that built it, as `targets.board.board_facts` tells (model, power mode, clocks); None elsewhere.
        preprocess: how pictures become the input (preprocess.settings), as in calibration; None if not given.
        tool, identity: version and digests of the edgedla that built it (`identity.Identity`); {} in artifacts of 0.1.
        stages: the stages of a chain, in the order in which a frame passes them; () for other kinds.
    """

    kind: str
    backend: str
    simulated: bool
    model: Mapping[str, Any]
    platform: Mapping[str, Any]
    software: Mapping[str, Optional[str]]
    precision: str
    bindings: Tuple[Binding, ...]
    placement_predicted: Mapping[str, str]
    placement_real: Optional[Mapping[str, str]] = None
    accuracy: Optional[Mapping[str, Any]] = None
    notes: Tuple[str, ...] = ()
    files: Tuple[ArtifactFile, ...] = ()
    tool: str = ""
    folder: Optional[Path] = None
    stages: Tuple[Stage, ...] = ()
    board: Optional[Mapping[str, Any]] = None
    preprocess: Optional[Mapping[str, Any]] = None
    identity: Mapping[str, str] = field(default_factory=dict)

    def file(self, role: str) -> Path:
        """The path of the artifact's file with this role.

        Raises:
            DocumentError: the artifact has no such file, or was never saved.
        """
        for entry in self.files:
            if entry.role == role and self.folder is not None:
                return self.folder / entry.path
        raise DocumentError(f"the artifact has no {role} file", where=str(self.folder or "unsaved artifact"))

    def has(self, role: str) -> bool:
        return any(entry.role == role for entry in self.files)

    @property
    def changed_outputs(self) -> Tuple[ChangedOutput, ...]:
        """The outputs that the model had before `fix` changed them."""
        return tuple(ChangedOutput.of(entry) for entry in self.model.get("outputs", ()))

    @property
    def inputs(self) -> Tuple[Binding, ...]:
        return tuple(b for b in self.bindings if b.is_input)

    @property
    def outputs(self) -> Tuple[Binding, ...]:
        return tuple(b for b in self.bindings if not b.is_input)

    def to_dict(self) -> Dict[str, Any]:
        """The manifest. `digest` covers everything else in it."""
        document: Dict[str, Any] = {
            **header("edgedla.artifact"),
            "tool": self.tool,
            **({"identity": dict(self.identity)} if self.identity else {}),
            "kind": self.kind,
            "backend": self.backend,
            "simulated": self.simulated,
            "model": dict(self.model),
            "platform": dict(self.platform),
            "software": dict(self.software),
            "precision": self.precision,
            "bindings": [b.to_dict() for b in self.bindings],
            "placement": {
                "predicted": dict(self.placement_predicted),
                "real": None if self.placement_real is None else dict(self.placement_real),
            },
            "accuracy": None if self.accuracy is None else dict(self.accuracy),
            "notes": list(self.notes),
            "files": [f.to_dict() for f in self.files],
        }
        if self.board is not None:
            document["board"] = dict(self.board)
        if self.preprocess is not None:
            document["preprocess"] = dict(self.preprocess)
        if self.kind == "chain":
            document["stages"] = [
                {"device": s.device, "folder": s.artifact.folder and s.artifact.folder.name, "digest": s.artifact.digest}
                for s in self.stages
            ]
        document["digest"] = manifest_digest(document)
        return document

    @property
    def digest(self) -> str:
        """SHA-256 of the rest of the manifest. As that holds the hashes of all files, it covers the whole artifact."""
        return str(self.to_dict()["digest"])


def written_name(name: str) -> bool:
    """True for a name that an artifact gives its files and stages."""
    return bool(HASHED_NAME.match(name) or STAGE_NAME.match(name))


def manifest_digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_of_bytes(text.encode("ascii"))
