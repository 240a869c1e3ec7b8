"""Compares a real placement with a prediction: the artifact's own, a model's, or a saved check."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import DocumentError, UsageError
from edgedla.inspection.comparison import Comparison, Predicted, compare, predicted_of_check, predicted_of_mapping
from edgedla.inspection.file_kind import detect
from edgedla.records.build_log import BuildLog
from edgedla.records.build_log_reader import read_build_log
from edgedla.records.engine_info import EngineInfo, read_engine_info
from edgedla.records.real_placement import Real, real_of_engine, real_of_log, real_of_mapping
from edgedla.targets import Platform


def own_comparison(artifact: Artifact, notes: List[str]) -> Optional[Comparison]:
    """The artifact's prediction against its own log and inspector record, best source first."""
    predicted = predicted_of_mapping(artifact.placement_predicted)
    if artifact.simulated:
        notes.append("simulated on a host: nothing of it ran on a DLA, so there is no real placement")
        return None
    real = _real_of_artifact(artifact, [p.name for p in predicted])
    if real is None:
        return None
    return compare(predicted, real, platform=artifact.platform, precision=artifact.precision)


def _real_of_artifact(artifact: Artifact, names: Sequence[str]) -> Optional[Real]:
    if artifact.has("layers"):
        real = real_of_engine(read_engine_info(artifact.file("layers")), names)
        if real.devices:
            return real
    if artifact.has("log"):
        real = real_of_log(read_build_log(artifact.file("log")), names)
        if real.devices:
            return real
    if artifact.placement_real is not None:
        return real_of_mapping(artifact.placement_real, "artifact")
    return None


_Real = Union[BuildLog, EngineInfo, Artifact]


class _Prediction(NamedTuple):
    layers: Tuple[Predicted, ...]
    loadables: Tuple[str, ...]
    platform: Mapping[str, Any]
    precision: str
    notes: Sequence[str] = ()


def compare_against(
    real: _Real, against: Path, target: str, jetpack: Optional[str], trt: Optional[str], precision: Optional[str]
) -> Comparison:
    """A log, an engine's layers or an artifact against a model's prediction or a check document.

    Raises:
        DocumentError, ModelError, UsageError: `against` cannot be read, or is not a prediction.
    """
    predicted = _predicted(real, against, target, jetpack, trt, precision)
    names = [p.name for p in predicted.layers]
    if isinstance(real, Artifact):
        placed = _real_of_artifact(real, names)
        if placed is None:
            raise DocumentError("the artifact does not say where its layers really run", where=str(real.folder))
    else:
        placed = real_of_log(real, names) if isinstance(real, BuildLog) else real_of_engine(real, names)
    layers, loadables, platform, precision, notes = predicted
    comparison = compare(layers, placed, loadables, platform=platform, precision=precision)
    return replace(comparison, notes=(*notes, *comparison.notes))


def _predicted(
    real: _Real, against: Path, target: str, jetpack: Optional[str], trt: Optional[str], precision: Optional[str]
) -> _Prediction:
    file = detect(against)
    notes: List[str] = []
    if file.kind == "onnx":
        from edgedla.placement.check_cost import check

        if isinstance(real, BuildLog) and real.version and not (trt or jetpack):
            trt = _release_of(real, target, notes)
        own = precision or _precision_of(real)
        report = check(str(against), target=target, jetpack=jetpack, trt=trt, precision=own)
        if isinstance(real, BuildLog):
            notes += _mismatches(real, report.platform, report.precision)
        document: Any = report.to_dict()
    elif file.kind == "check":
        document = file.document
    else:
        raise UsageError(f"a {file.kind} is not a prediction", where="--against", allowed="an ONNX model, a check document")
    regions = document.get("regions", ())
    kept = tuple(str(r["name"]) for r in regions if isinstance(r, Mapping) and r.get("kept") and "name" in r)
    platform = document.get("platform")
    of_platform = platform if isinstance(platform, Mapping) else {}
    return _Prediction(predicted_of_check(document), kept, of_platform, str(document.get("precision", "")), notes)


def _precision_of(real: _Real) -> Optional[str]:
    """What it was built in; None where it does not say."""
    if isinstance(real, EngineInfo):
        stated = " ".join(t.dtype for layer in real.layers for t in (*layer.inputs, *layer.outputs))
    else:
        stated = real.precision
    return None if not stated.strip() else "int8" if "INT8" in stated.upper() else "fp16"


def _release_of(log: BuildLog, target: str, notes: List[str]) -> Optional[str]:
    """The log's release; None for the module's default."""
    from edgedla.targets import platform_for

    logged = ".".join(log.version.split(".")[:3])
    try:
        platform = platform_for(target, trt=logged)
    except UsageError:
        notes.append(f"TensorRT {log.version} of the log is not in the table of releases; predicted for the module's default")
        return None
    if platform.release.note:
        notes.append(f"{platform.release.note} in the prediction")
    return logged


def _mismatches(log: BuildLog, platform: Platform, precision: str) -> List[str]:
    """Differences in chip or precision between the log and the prediction, as far as the log states them."""
    mismatches = []
    named = [chip for chip in ("xavier", "orin", "thor") if chip in log.device.lower()]
    if named and platform.chip not in named:
        mismatches.append(f"the log is of {log.device}, the prediction of {platform.module.id}: --target says for which")
    if log.precision and ("INT8" in log.precision) != (precision == "int8"):
        mismatches.append(f"the log's build has precision {log.precision}, the prediction {precision}: --precision says which")
    return mismatches
