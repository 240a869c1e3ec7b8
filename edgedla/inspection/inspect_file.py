"""`inspect`: the content of a file, compared with a prediction; `diff`: the differences of two files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from edgedla.arguments import typed
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.builder.tensorrt.bindings import installed_version, why_no_builder
from edgedla.costs.profile import TRTEXEC_11
from edgedla.errors import DocumentError, UsageError
from edgedla.graph.document import from_document
from edgedla.importers import load_onnx
from edgedla.inspection.bundle_file import bundle_bytes, is_bundle
from edgedla.inspection.compare_with import compare_against, own_comparison
from edgedla.inspection.comparison import Comparison
from edgedla.inspection.facts.artifact import of_chain
from edgedla.inspection.facts.build_log import of_log
from edgedla.inspection.facts.document import of_document
from edgedla.inspection.facts.engine import of_cache, of_engine, of_plan_header
from edgedla.inspection.facts.fact import Fact
from edgedla.inspection.facts.graph import of_graph
from edgedla.inspection.facts.loadable import of_loadable
from edgedla.inspection.facts.verdict import of_check
from edgedla.inspection.file_kind import DetectedFile, detect
from edgedla.io.documents import header
from edgedla.io.files import sha256_of
from edgedla.quantization.calibration_cache import read_cache
from edgedla.records.build_log import BuildLog
from edgedla.records.build_log_reader import last_build, read_build_logs
from edgedla.records.engine_info import EngineInfo, parse_engine_info
from edgedla.records.loadable import LoadableFile, read_loadable
from edgedla.records.plan_header import plan_header
from edgedla.regions.report import CheckReport
from edgedla.targets import platform_for
from edgedla.text.printable import Fields

_ENGINE_HINT = (
    "a TensorRT engine is not opened here: deserialising it runs code of whoever built it. On a device where you trust "
    "it, trtexec --loadEngine=FILE --exportLayerInfo=layers.json --skipInference writes what it holds; inspect that file"
)
BUNDLE_NOTE = (
    "its own files are those that were bundled; artifacts are verified when they are loaded, and by `python3 BUNDLE --verify`"
)


@dataclass(frozen=True)
class Inspection:
    """The content of a file.

    Attributes:
        file: its name as given. kind: see edgedla.inspection.file_kind.
        sha256: of the file; "" for a folder.
        facts: the content as rows.
        content: the parsed value as plain data.
        comparison: prediction against reality, if both are known.
        notes: notes for the reader.
    """

    file: str
    kind: str
    size_bytes: int
    sha256: str
    facts: Tuple[Fact, ...]
    content: Mapping[str, Any]
    comparison: Optional[Comparison] = None
    notes: Tuple[str, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.inspect"),
            "file": self.file,
            "kind": self.kind,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "notes": list(self.notes),
            "comparison": self.comparison.to_dict() if self.comparison else None,
            "facts": [f.to_dict() for f in self.facts],
            "content": dict(self.content),
        }


@dataclass(frozen=True)
class Difference(Fields):
    """A row that differs; "" for a row that a file lacks (`only` says which file has it)."""

    section: str
    key: str
    first: str
    second: str
    only: str = ""


@dataclass(frozen=True)
class Diff:
    """Two inspected files of one kind."""

    first: Inspection
    second: Inspection
    differences: Tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        return not self.differences

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.inspect-diff"),
            "kind": self.first.kind,
            "files": [self.first.file, self.second.file],
            "equal": self.equal,
            "differences": [d.to_dict() for d in self.differences],
        }


@typed
def inspect(
    path: Union[str, Path],
    *,
    against: Optional[Union[str, Path]] = None,
    target: str = "agx-orin-64gb",
    jetpack: Optional[str] = None,
    trt: Optional[str] = None,
    precision: Optional[str] = None,
) -> Inspection:
    """Reads the content of a file: ONNX, DLA loadable, engine inspector JSON, build log, artifact, engine, INT8 calibration
    cache, bundle, edgedla document.

    Args:
        against: an ONNX model or a check document to compare a log, an engine's layers or an artifact with.
        target, jetpack, trt, precision: the platform to lower a model for, or to predict for if `against` is a model. Without jetpack
            and trt, the version in the log; without precision that of the log or artifact, else as `check` picks it.

    Raises:
        DocumentError: unreadable, damaged, or of no known kind.
        ModelError: an ONNX file that cannot be read or that TensorRT's parser refuses.
        UsageError: `against` given for a file without a placement.
    """
    path = Path(path)
    detected = detect(path)
    comparison: Optional[Comparison] = None
    notes: List[str] = []
    real: Optional[Union[BuildLog, EngineInfo, Artifact]] = None
    if detected.kind == "onnx":
        graph = load_onnx(path, trt=platform_for(target, jetpack, trt).release.trt)
        rows, content = of_graph(graph), _graph_content(graph)
        notes += graph.notes
    elif detected.kind == "layers":
        graph = from_document(detected.document)
        rows, content = of_graph(graph), _graph_content(graph)
    elif detected.kind == "loadable":
        loadable = _read_loadable(path)
        rows, content = of_loadable(loadable), loadable.to_dict()
        notes += loadable.notes
    elif detected.kind == "engine-info":
        real = parse_engine_info(detected.document, str(path))
        rows, content = of_engine(real), real.to_dict()
    elif detected.kind == "build-log":
        builds = read_build_logs(path)
        real = last_build(builds)
        rows, content = of_log(real), real.to_dict()
        if len(builds) > 1:
            notes.append(f"the file holds {len(builds)} builds; this is the last one that speaks of the DLA")
        if real.truncated:
            notes.append("the log is cut off, or longer than edgedla reads")
    elif detected.kind == "artifact":
        real = load_artifact(path)
        rows, content = of_chain(real), real.to_dict()
        notes += real.notes
        rows += _own_loadable(real, notes)
        comparison = own_comparison(real, notes)
    elif detected.kind == "calibration-cache":
        cache = read_cache(path)
        rows, content = of_cache(cache.absmax), {"absmax": dict(cache.absmax)}
        notes += cache.notes
    elif detected.kind == "tensorrt-engine" and (plan := plan_header(path)) is not None:
        rows, content = of_plan_header(plan), {"version": plan.version, "offset": plan.offset}
        why = why_no_builder() if (version := installed_version()) else ""
        notes += [_ENGINE_HINT, *([f"TensorRT {version} here imports, cannot make a builder: {why}"] if why else [])]
    else:
        rows, content = of_document(detected.document, detected.kind), {"document": detected.document}
        if detected.kind == "bundle" and is_bundle(path):
            notes.append(BUNDLE_NOTE)
        if detected.kind == "profile":
            notes.append(f"the file does not state its release: {TRTEXEC_11}")
    if against is not None:
        if real is None:
            raise UsageError(
                f"a file of kind {detected.kind} has no placement to compare",
                where="--against",
                allowed="a build log, an engine's layers, an artifact",
            )
        comparison = compare_against(real, Path(against), target, jetpack, trt, precision)
    if comparison is not None:
        notes += [n for n in comparison.notes if n not in notes]
    digest = sha256_of(path) if path.is_file() else ""
    return Inspection(str(path), detected.kind, _bytes(path, detected, real), digest, rows, content, comparison, tuple(notes))


def _read_loadable(path: Path) -> LoadableFile:
    """The loadable; files of no other kind are tried as loadables, so an error lists the other kinds."""
    try:
        return read_loadable(path)
    except DocumentError as e:
        raise DocumentError(
            f"none of the files that edgedla reads; as a DLA loadable it is damaged: {e.what}",
            where=e.where or str(path),
            allowed="ONNX, a DLA loadable, an engine, its inspector JSON, a build log, an artifact, a calibration cache, a bundle, "
            "a document of edgedla",
            hint=e.hint,
        ) from e


def _bytes(path: Path, detected: DetectedFile, real: Optional[Union[BuildLog, EngineInfo, Artifact]]) -> int:
    """Size in bytes; in a folder, only files that belong to it count."""
    if path.is_file():
        return path.stat().st_size
    if detected.kind == "bundle":
        return bundle_bytes(path, detected.document)
    parts = [real, *(s.artifact for s in real.stages)] if isinstance(real, Artifact) else []
    return sum(f.size_bytes for part in parts for f in part.files)


def diff(first: Inspection, second: Inspection) -> Diff:
    """The differences of two files of one kind, row by row, in the order of the first.

    Raises:
        UsageError: the files are of different kinds.
    """
    if first.kind != second.kind:
        raise UsageError(f"a {first.kind} and a {second.kind} cannot be compared row by row", allowed="files of one kind")
    a = {(f.section, f.key): f.value for f in first.facts}
    b = {(f.section, f.key): f.value for f in second.facts}
    differences = []
    for section, key in [*a, *(k for k in b if k not in a)]:
        one, other = a.get((section, key)), b.get((section, key))
        if one != other:
            only = "second" if one is None else "first" if other is None else ""
            differences.append(Difference(section, key, one or "", other or "", only))
    return Diff(first, second, tuple(differences))


def with_verdicts(inspection: Inspection, report: CheckReport) -> Inspection:
    """The inspection of a model with the rows of its check: verdict and reason of each layer."""
    return replace(inspection, facts=(*inspection.facts, *of_check(report)))


def _graph_content(graph: Any) -> Dict[str, Any]:
    return {
        "name": graph.name,
        "sha256": graph.sha256,
        "opset": graph.opset,
        "lowering": graph.lowering,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "layers": [{"name": x.name, "type": x.type, "onnx_node": x.onnx_node} for x in graph.layers],
    }


def _own_loadable(artifact: Artifact, notes: List[str]) -> Tuple[Fact, ...]:
    """The content of a standalone artifact's loadable, if it follows the open schema."""
    if not artifact.has("loadable"):
        return ()
    try:
        loadable = read_loadable(artifact.file("loadable"))
    except DocumentError as e:
        notes.append(f"the loadable does not follow the open NVDLA schema: {e.what}")
        return ()
    notes += [f"loadable: {note}" for note in loadable.notes]
    return tuple(Fact(f"Loadable: {f.section}", f.key, f.value) for f in of_loadable(loadable))
