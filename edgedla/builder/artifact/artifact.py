"""Artifact: a folder with what was built and a manifest that says of what, for what, and with which hashes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from edgedla.errors import BuildError, DocumentError, EnvironmentMissing
from edgedla.files import sha256_of, write_atomic
from edgedla.version import __version__

try:
    import fcntl
except ImportError:  # Windows, where a build on a laptop goes without the lock
    fcntl = None  # type: ignore[assignment]

SCHEMA = "edgedla.artifact/1"
MANIFEST = "manifest.json"
#: Files written by an artifact carry their hash in their name, so that a new build never writes over a file that a
#: running pipeline or the old manifest refers to. The manifest is the one commit point.
HASHED_NAME = re.compile(r"^[A-Za-z0-9_]+-[0-9a-f]{12}(\.[A-Za-z0-9_]+)+$")
#: Folder of one stage of a chain; the number is the head of the stage's manifest digest.
STAGE_NAME = re.compile(r"^stage[0-9]{1,4}-[0-9a-f]{12}\Z")
_PARTIAL_NAME = re.compile(r"^\.([A-Za-z0-9_]+-[0-9a-f]{12}(\.[A-Za-z0-9_]+)+|manifest\.json)\..*\.part$")


@dataclass(frozen=True)
class Binding:
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

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "is_input": self.is_input,
            "shape_nchw": list(self.shape_nchw),
            "dtype": self.dtype,
            "format": self.format,
            "size_bytes": self.size_bytes,
            "strides_bytes": dict(self.strides_bytes),
            "scale": self.scale,
        }


@dataclass(frozen=True)
class ArtifactFile:
    """One file: `role` is engine, loadable, host_model, plan, log, layers, drift, timing_cache or calibration."""

    role: str
    path: str
    sha256: str
    size_bytes: int

    def to_dict(self) -> Dict[str, Any]:
        return {"role": self.role, "path": self.path, "sha256": self.sha256, "size_bytes": self.size_bytes}


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
            placement spreads over both DLA cores, built as one engine a stage.
        backend: "tensorrt" or "host".
        simulated: True for the host backend: its numbers are computed, not those of a DLA.
        model: {"name", "sha256"} of the ONNX file, and "external": file name -> sha256 of its weight files.
        platform: Platform.to_dict() of the target.
        software: versions that built it: tensorrt, jetpack, dla_software, onnxruntime (None where absent or unknown).
        precision: "fp16" or "int8" (INT8 with FP16 allowed).
        placement_predicted, placement_real: layer name -> device; `real` is None where nothing could tell.
        accuracy: what the builder measured of the result against ONNX Runtime in FP32, if it did.
        notes: what the user must know.
        stages: of a chain, in the order in which a frame passes them; () for every other kind.
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
    tool: str = __version__
    folder: Optional[Path] = None
    stages: Tuple[Stage, ...] = ()

    def file(self, role: str) -> Path:
        """The path of the file with this role.

        Raises:
            DocumentError: the artifact has none, or was never saved.
        """
        for entry in self.files:
            if entry.role == role and self.folder is not None:
                return self.folder / entry.path
        raise DocumentError(f"the artifact has no {role} file", where=str(self.folder or "unsaved artifact"))

    def has(self, role: str) -> bool:
        return any(entry.role == role for entry in self.files)

    @property
    def inputs(self) -> Tuple[Binding, ...]:
        return tuple(b for b in self.bindings if b.is_input)

    @property
    def outputs(self) -> Tuple[Binding, ...]:
        return tuple(b for b in self.bindings if not b.is_input)

    def to_dict(self) -> Dict[str, Any]:
        """The manifest. `digest` covers everything else in it."""
        document: Dict[str, Any] = {
            "schema": SCHEMA,
            "tool": self.tool,
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
        if self.kind == "chain":
            document["stages"] = [
                {
                    "device": s.device,
                    "folder": s.artifact.folder and s.artifact.folder.name,
                    "digest": s.artifact.digest,
                }
                for s in self.stages
            ]
        document["digest"] = manifest_digest(document)
        return document

    @property
    def digest(self) -> str:
        """SHA-256 of the rest of the manifest; with the hashes in it, of the whole artifact."""
        return str(self.to_dict()["digest"])

    def save(self, folder: Union[str, Path], contents: Mapping[Tuple[str, str], bytes]) -> Artifact:
        """Writes the files and then the manifest; until the manifest stands, the folder holds what it held before.

        A chain's stages are saved already, each into a folder of its own on the same disk; these are moved to `folder`.

        Args:
            folder: made if missing. An older artifact in it is replaced in one step, its files are removed afterwards.
            contents: (role, file name) -> content. `engine.plan` becomes `engine-<hash>.plan`.

        Raises:
            BuildError: the folder holds other things, or the disk refuses.
        """
        target = Path(folder)
        try:
            claim_folder(target)
            with folder_lock(target):
                return self._write(target, contents)
        except (OSError, EnvironmentMissing) as e:
            raise BuildError(
                f"the artifact cannot be written: {getattr(e, 'strerror', None) or getattr(e, 'what', e)}",
                where=str(target),
                hint="nothing was half-written: what stood there before still loads; free the space and build again",
            ) from e

    def _write(self, target: Path, contents: Mapping[Tuple[str, str], bytes]) -> Artifact:
        stages = tuple(replace(s, artifact=_moved(s.artifact, target, k)) for k, s in enumerate(self.stages))
        files: List[ArtifactFile] = []
        for (role, name), data in sorted(contents.items()):
            sha256 = hashlib.sha256(data).hexdigest()
            path = _hashed(name, sha256)
            here = target / path
            # Left by a build that was killed: its name says its content, so it need not be written again.
            if not (here.is_file() and not here.is_symlink() and sha256_of(here) == sha256):
                write_atomic(here, data)
            files.append(ArtifactFile(role, path, sha256, len(data)))
        saved = replace(self, files=tuple(files), folder=target, stages=stages)
        write_atomic(target / MANIFEST, json.dumps(saved.to_dict(), indent=1, sort_keys=True) + "\n")
        _remove_unlisted(saved, target)
        return saved

    def tidy(self) -> None:
        """Removes what builds that were killed left in the folder; nothing while another build writes into it."""
        if self.folder is not None:
            with contextlib.suppress(BuildError, OSError), folder_lock(self.folder):
                _remove_unlisted(self, self.folder)


def _moved(stage: Artifact, target: Path, number: int) -> Artifact:
    """The saved stage under its name in the chain's folder, moved there in one step."""
    here = target / f"stage{number}-{stage.digest[:12]}"
    if stage.folder is None:
        raise BuildError("a stage of the chain was not saved", where=str(target))
    if stage.folder != here:
        if here.exists() and _whole(here, stage.digest):
            # The manifest that stands may name it: it is not to be missing for a moment.
            return replace(stage, folder=here)
        if here.exists():
            shutil.rmtree(here)
        os.rename(stage.folder, here)
    return replace(stage, folder=here)


def _whole(folder: Path, digest: str) -> bool:
    from edgedla.builder.artifact.load import load_artifact

    try:
        return load_artifact(folder).digest == digest
    except DocumentError:
        return False


def claim_folder(folder: Path) -> None:
    """Makes the folder, or refuses one that holds files of somebody else.

    Raises:
        BuildError: `folder` is a file, or a non-empty folder that is no artifact (finished or not) of edgedla.
    """
    if folder.exists() and not folder.is_dir():
        raise BuildError("the output is a file, not a folder", where=str(folder), hint="give -o a folder name")
    folder.mkdir(parents=True, exist_ok=True)
    strangers = [
        p.name
        for p in sorted(folder.iterdir())
        if p.name != MANIFEST and not p.name.startswith(".") and not written_name(p.name)
    ]
    if strangers and not (folder / MANIFEST).exists():
        raise BuildError(
            f"the folder holds other files: {', '.join(strangers[:5])}",
            where=str(folder),
            allowed="a new folder, an empty one, or an artifact to replace",
        )


def written_name(name: str) -> bool:
    """True for a name that an artifact gives its files and stages."""
    return bool(HASHED_NAME.match(name) or STAGE_NAME.match(name))


def manifest_digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _hashed(name: str, sha256: str) -> str:
    stem, dot, endings = name.partition(".")
    return f"{stem}-{sha256[:12]}{dot}{endings}"


def _remove_unlisted(saved: Artifact, folder: Path) -> None:
    listed = {f.path for f in saved.files} | {s.artifact.folder.name for s in saved.stages if s.artifact.folder}
    # Only what an earlier build wrote, finished (HASHED_NAME) or cut off (.NAME.xxxx.part). It is no error if it cannot
    # be removed: no manifest names it any more.
    for path in folder.iterdir():
        if path.name in listed:
            continue
        if STAGE_NAME.match(path.name) and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif written_name(path.name) or _PARTIAL_NAME.match(path.name):
            with contextlib.suppress(OSError):
                os.unlink(path)


@contextlib.contextmanager
def folder_lock(folder: Path, name: str = ".lock") -> Iterator[None]:
    """Holds the folder against a second build. The lock belongs to the process, so that a killed build leaves none.

    Args:
        name: of the lock's file, below `folder`.

    Raises:
        BuildError: another process builds into the folder.
    """
    with open(folder / name, "w", encoding="ascii") as handle:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as e:
                raise BuildError("another build writes into this folder now", where=str(folder)) from e
        yield
