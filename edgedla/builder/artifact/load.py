"""Loading an artifact: nothing is handed out before schema, hashes, origin and destination are verified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Optional, Tuple, Union

from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact, ArtifactFile, Binding, manifest_digest, written_name
from edgedla.builder.artifact.manifest_types import wrong_types
from edgedla.builder.artifact.stages import StageEntry, check_stages, stage_folder
from edgedla.errors import DocumentError
from edgedla.io.documents import MANIFEST, artifact_folder, require
from edgedla.io.files import sha256_of
from edgedla.io.strict_documents import read_json
from edgedla.records.plan_header import ENGINE_ENDINGS

#: A manifest has some hundred bytes per layer; a larger file is not a manifest.
MANIFEST_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True)
class Running:
    """The platform that is about to load an artifact. An unknown field is None and is not checked."""

    target: Optional[str] = None
    tensorrt: Optional[str] = None
    jetpack: Optional[str] = None


@typed
def load_artifact(
    folder: Union[str, Path], *, model: Optional[Union[str, Path]] = None, on: Optional[Running] = None
) -> Artifact:
    """Reads and verifies an artifact: schema, manifest digest, and size and SHA-256 of every file.

    A TensorRT engine runs its builder's code when it is deserialised, so its hash is verified before any call of TensorRT.
    Hashes find damage and careless edits. They are no signature: anybody who can write the folder can write matching
    hashes, so open only artifacts from people you trust.

    Args:
        folder: the artifact's folder, its manifest.json, or the folder of the deployment that it stands in.
        model: the ONNX file it should have been built from; another content makes it stale.
        on: the platform that will run it; another module or TensorRT makes it foreign. Simulated artifacts run anywhere.

    Raises:
        DocumentError: no artifact, unfinished, of another schema, damaged, tampered with, stale, or foreign; no such model.
    """
    artifact = _load(artifact_folder(folder), on, stage=False)
    if model is not None:
        _verify_source(artifact, Path(model))
    return artifact


def _load(path: Path, on: Optional[Running], stage: bool) -> Artifact:
    artifact, entries = _read_manifest(path / MANIFEST)
    artifact = replace(artifact, folder=path)
    if stage and artifact.kind == "chain":
        raise DocumentError("a stage of a chain is a chain itself", where=str(path), hint="build it again")
    for entry in artifact.files:
        _verify_file(path, entry)
    if artifact.kind == "chain":
        stages = tuple((e, _load(stage_folder(path, e), on, stage=True)) for e in entries)
        artifact = replace(artifact, stages=check_stages(artifact, stages))
    if on is not None:
        _verify_home(artifact, on)
    return artifact


def _read_manifest(path: Path) -> Tuple[Artifact, Tuple[StageEntry, ...]]:
    if path.parent.is_file():
        raise DocumentError("a file, not the folder of an artifact", where=str(path.parent), hint=artifact_hint(path.parent))
    if not path.parent.exists():
        raise DocumentError("no such file or folder", where=str(path.parent), hint=f"the current folder is {Path.cwd()}")
    if not path.is_file():
        unfinished = path.parent.is_dir() and any(written_name(p.name) for p in path.parent.iterdir())
        raise DocumentError(
            "an unfinished build: it has files but no manifest" if unfinished else "not an artifact: manifest.json is missing",
            where=str(path.parent),
            hint="run the build again; it resumes" if unfinished else folder_hint(path.parent),
        )
    damaged, hint = "the manifest is damaged", "build it again"
    document = read_json(path, wrong=damaged, most_bytes=MANIFEST_LIMIT_BYTES, hint=hint)
    if not isinstance(document, dict):
        raise DocumentError(f"{damaged}: it is not a JSON object", where=str(path), hint=hint)
    require(document, "edgedla.artifact", str(path))
    if document.get("digest") != manifest_digest({k: v for k, v in document.items() if k != "digest"}):
        raise DocumentError(
            "the manifest was changed after it was written", where=str(path), hint="restore it, or build it again"
        )
    wrong = wrong_types(document)
    if wrong:
        raise DocumentError(f"the manifest lacks or misnames a field: {', '.join(wrong[:5])}", where=str(path))
    placement = document["placement"]
    artifact = Artifact(
        kind=document["kind"],
        backend=document["backend"],
        simulated=document["simulated"],
        model=document["model"],
        platform=document["platform"],
        software=document["software"],
        precision=document["precision"],
        bindings=tuple(Binding(**{**b, "shape_nchw": tuple(b["shape_nchw"])}) for b in document["bindings"]),
        placement_predicted=placement["predicted"],
        placement_real=placement["real"],
        accuracy=document["accuracy"],
        notes=tuple(document["notes"]),
        files=tuple(ArtifactFile(**f) for f in document["files"]),
        tool=document["tool"],
        identity=document.get("identity", {}),
        board=document.get("board"),
        preprocess=document.get("preprocess"),
    )
    return artifact, tuple(StageEntry(**s) for s in document.get("stages", ()))


def artifact_hint(file: Path) -> str:
    """The error's hint for a file given in place of an artifact."""
    if file.suffix.lower() in ENGINE_ENDINGS:
        return (
            "an engine alone does not say its scales and origin: build the artifact from the ONNX model with `edgedla build "
            "MODEL.onnx -o ARTIFACT`; `edgedla inspect` reads this file's header, `edgedla bench` and `edgedla run` take it as "
            "it is on the Jetson that built it"
        )
    if file.suffix.lower() == ".onnx":
        return f"edgedla build {file} -o ARTIFACT"
    if file.suffix.lower() in (".yaml", ".yml"):
        return (
            "a pipeline file is for `edgedla run FILE` and `edgedla bundle --pipeline FILE`; here give the artifact that it names"
        )
    return "give the folder that `edgedla build -o` wrote"


def folder_hint(folder: Path) -> str:
    """The error's hint for a folder that is not an artifact. It names artifacts inside, such as those of `deploy`."""
    inside = [folder / "artifact"] if (folder / "artifact" / MANIFEST).is_file() else []
    if not inside:
        inside = sorted(p.parent for p in [*folder.glob(f"*/{MANIFEST}"), *folder.glob(f"*/artifact/{MANIFEST}")])
    if len(inside) == 1:
        return f"give the artifact in it: {inside[0]}"
    if inside:
        listed = ", ".join(map(str, inside[:3])) + (", ..." if len(inside) > 3 else "")
        return f"give one of the artifacts in it: {listed}"
    return "give the folder that `edgedla build -o` wrote"


def _verify_file(folder: Path, entry: ArtifactFile) -> None:
    pure = PurePosixPath(entry.path)
    # A manifest from elsewhere must not make us read, or later deserialise, a file outside its folder.
    if len(pure.parts) != 1 or pure.parts[0] in ("..", ".") or "\\" in entry.path:
        raise DocumentError(f"the manifest points outside its folder: {entry.path!r}", where=str(folder))
    file = folder / entry.path
    if file.is_symlink() or not file.is_file():
        raise DocumentError(f"the {entry.role} file is missing or no plain file", where=str(file), hint="build it again")
    size_bytes = file.stat().st_size
    if size_bytes != entry.size_bytes or sha256_of(file) != entry.sha256:
        raise DocumentError(
            f"the {entry.role} file is not the one that was built ({size_bytes} bytes, other SHA-256)",
            where=str(file),
            allowed=f"{entry.size_bytes} bytes with sha256 {entry.sha256[:12]}",
            hint="damaged or tampered with: restore it, or build it again",
        )


def _verify_source(artifact: Artifact, model: Path) -> None:
    """The model and the files that hold its weights must be those of the build."""
    recorded = {model: artifact.model.get("sha256")}
    recorded.update({model.parent / name: digest for name, digest in artifact.model.get("external", {}).items()})
    for file, digest in recorded.items():
        if not file.is_file():
            raise DocumentError("no such file", where=str(file), hint="give the model that the artifact was built from")
        if sha256_of(file) != digest:
            raise DocumentError(
                f"stale: built from another version of {file.name} (sha256 {str(digest)[:12]})",
                where=str(artifact.folder),
                hint=f"build it again from {model}",
            )


def _verify_home(artifact: Artifact, on: Running) -> None:
    if artifact.simulated:
        return
    pairs = (
        ("module", artifact.platform.get("target"), on.target),
        ("TensorRT", artifact.software.get("tensorrt"), on.tensorrt),
        ("JetPack", artifact.software.get("jetpack"), on.jetpack),
    )
    for what, built, running in pairs:
        # A DLA loadable needs no TensorRT at run time, an engine needs exactly the one that built it.
        kinds = {stage.artifact.kind for stage in artifact.stages} or {artifact.kind}
        if what == "TensorRT" and kinds == {"standalone"}:
            continue
        if built is not None and running is not None and built != running:
            raise DocumentError(
                f"foreign: built for {what} {built}, this is {what} {running}",
                where=str(artifact.folder),
                hint="engines and loadables belong to one module and release: build it here",
            )
