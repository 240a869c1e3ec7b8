"""Where a real placement is compared with a prediction: the artifact's own one, a model's, or a saved check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.builder.artifact import Artifact
from edgedla.builder.compare import (
    Comparison,
    Predicted,
    compare,
    predicted_of_check,
    predicted_of_mapping,
    predicted_of_report,
)
from edgedla.builder.detect import detect
from edgedla.builder.real import Real, real_of_engine, real_of_log, real_of_mapping
from edgedla.errors import DocumentError, UsageError
from edgedla.importers.build_log import BuildLog
from edgedla.importers.build_log_reader import read_build_log
from edgedla.importers.engine_info import EngineInfo, read_engine_info


def own_comparison(artifact: Artifact, notes: List[str]) -> Optional[Comparison]:
    """What the artifact predicted against what its own log and inspector record tell, best source first."""
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


@dataclass(frozen=True)
class _Prediction:
    layers: Tuple[Predicted, ...]
    loadables: Tuple[str, ...]
    platform: Mapping[str, Any]
    precision: str

    def compared(self, real: Real) -> Comparison:
        return compare(self.layers, real, self.loadables, platform=self.platform, precision=self.precision)


def compare_against(
    real: Union[BuildLog, EngineInfo, Artifact],
    against: Path,
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    precision: str,
) -> Comparison:
    """A log, an engine's layers or an artifact against a model's prediction or a check document.

    Raises:
        DocumentError, ModelError, UsageError: `against` cannot be read, or is no prediction.
    """
    predicted = _predicted(real, against, target, jetpack, trt, precision)
    names = [p.name for p in predicted.layers]
    if isinstance(real, BuildLog):
        return predicted.compared(real_of_log(real, names))
    if isinstance(real, EngineInfo):
        return predicted.compared(real_of_engine(real, names))
    placed = _real_of_artifact(real, names)
    if placed is None:
        raise DocumentError("the artifact does not tell where its layers really run", where=str(real.folder))
    return predicted.compared(placed)


def _predicted(
    real: Union[BuildLog, EngineInfo, Artifact],
    against: Path,
    target: str,
    jetpack: Optional[str],
    trt: Optional[str],
    precision: str,
) -> _Prediction:
    found = detect(against)
    if found.kind == "check":
        document = found.document
        regions = document.get("regions", ())
        kept = tuple(str(r["name"]) for r in regions if isinstance(r, Mapping) and r.get("kept") and "name" in r)
        platform = document.get("platform")
        told = platform if isinstance(platform, Mapping) else {}
        return _Prediction(predicted_of_check(document), kept, told, str(document.get("precision", "")))
    if found.kind != "onnx":
        raise UsageError(
            f"a {found.kind} is no prediction", where="--against", allowed="an ONNX model, a check document"
        )
    from edgedla.regions import check

    if isinstance(real, BuildLog) and real.version and not (trt or jetpack):
        trt = ".".join(real.version.split(".")[:3])
    report = check(str(against), target=target, jetpack=jetpack, trt=trt, precision=precision)
    kept = tuple(r.name for r in report.regions if r.kept)
    return _Prediction(predicted_of_report(report), kept, report.platform.to_dict(), precision)
