"""Details of a test report: layers by device, the timeline, errors by tensor, proofs, versions."""

from __future__ import annotations

import json
import platform
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.builder.artifact.artifact import Artifact
from edgedla.conversion.cached import conversion_line
from edgedla.deployment.candidate import Candidate
from edgedla.deployment.data import Parts
from edgedla.deployment.source import Facts
from edgedla.deployment.steps import LAYERS, PLACEMENT
from edgedla.identity import identity, libraries
from edgedla.text.printable import short
from edgedla.vocabulary import GPU

#: Most tensors whose error the document names.
MOST_ERRORS = 20


def details_of(first: Candidate, best: Candidate) -> Dict[str, Any]:
    """Layers before and after, proofs by site, and, for INT8, errors by tensor."""
    return {
        "power_mode": json.loads((best.placed / PLACEMENT).read_text(encoding="utf-8"))["power_mode"],
        "layers_before": _layers(first),
        "layers_after": _layers(best),
        "proofs": _proofs(best),
        "errors": _errors(best),
        "mixed_precision": dict(quantization_of(best).get("precisions", {})),
    }


def _layers(candidate: Candidate) -> List[Dict[str, Any]]:
    """The layers of the build, as they are placed."""
    layers: List[Dict[str, Any]] = json.loads((candidate.placed / LAYERS).read_text(encoding="utf-8"))
    return layers


def _proofs(candidate: Candidate) -> List[Dict[str, Any]]:
    path = candidate.model.with_name("fixes.json")
    if not candidate.rewrites or not path.is_file():
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    return [
        {"rewrite": s["rewrite"], "output": s["output"], **{k: s["proof"][k] for k in ("status", "equality", "rel_l2")}}
        for s in document["applied"]
    ]


def quantization_of(candidate: Candidate) -> Mapping[str, Any]:
    """The report of `quantize`; {} in FP16."""
    if candidate.quantization is None:
        return {}
    document: Mapping[str, Any] = json.loads((candidate.quantization / "quantization.json").read_text(encoding="utf-8"))
    return document


def _errors(candidate: Candidate) -> List[Dict[str, Any]]:
    """Tensors in INT8 by their share of the error at the outputs, the largest first."""
    errors = quantization_of(candidate).get("errors", [])
    ranked = sorted(errors, key=lambda e: (-(e["output_share"] or 0.0), e["tensor"]))
    return [{k: e[k] for k in ("tensor", "alone_db", "accumulated_db", "output_share")} for e in ranked[:MOST_ERRORS]]


def bound_kept(best: Candidate, measured: Mapping[str, Any]) -> bool:
    """True if the latency per frame is within the bound: measured on this device if possible, otherwise predicted."""
    bound = best.predicted["bound_us"]
    if measured and bound is not None:
        return bool(measured["after"]["latency_us"] <= bound)
    return best.bound_kept


def bound_notes(best: Candidate, measured: Mapping[str, Any]) -> List[str]:
    """Notes on effects that may break a bound which the prediction keeps."""
    bound, spread = best.predicted["bound_us"], best.predicted["build"]["spread"]
    latency = best.value("latency")
    if bound is None or measured or not best.bound_kept:
        return []
    text = f"the bound of {bound:g} us is kept as predicted ({short(latency, 4)} us ±{spread:.0%})"
    if latency * (1 + spread) > bound:
        return [f"{text}: within its spread a frame may take {short(latency * (1 + spread), 4)} us; measure it on the board"]
    return [f"{text}, with its whole spread; no board measured it"]


def notes_of(
    best: Candidate,
    artifact: Artifact,
    parts: Parts,
    conversion: Facts,
    layers: Sequence[Mapping[str, Any]],
    measured: Mapping[str, Any],
) -> Tuple[str, ...]:
    """Notes that a reader needs before trusting a figure.

    Args:
        layers: the build's layers as placed. measured: times on this device, before and after; {} without a device.
    """
    notes: List[str] = []
    if conversion is not None:
        notes += [conversion_line(conversion), *conversion["notes"]]
        if conversion["within"] is False:
            notes.append("the converted model is not the same network: its outputs differ by more than rounding")
    if parts.search.synthetic:
        notes.append("the samples are random numbers: the steps work, and no accuracy here means anything")
    on_gpu = sum(layer["device"] == GPU for layer in layers)
    if artifact.simulated and best.precision == "int8" and on_gpu:
        notes.append(
            f"{on_gpu} of {sum(bool(layer['device']) for layer in layers)} layers run on the GPU, which the simulation "
            "computes in FP32: only the DLA's rounding is in the accuracy; `edgedla evaluate` on the board has all of it"
        )
    moved = list(quantization_of(best).get("devices", {}))
    if moved:
        notes.append(
            f"{len(moved)} layer{'s' * (len(moved) != 1)} moved to the GPU by accuracy: {', '.join(moved[:6])}{', ...' * (len(moved) > 6)}"
        )
    notes += bound_notes(best, measured)
    if measured and measured["after"]["latency_us"] > 1.02 * measured["before"]["latency_us"]:
        notes.append(
            "measured, a frame takes longer than before, against the prediction: `edgedla costs fit` makes a cost "
            "model from this board, and --level 0 keeps the model as it is"
        )
    if not best.predicted["optimal"]:
        notes.append("the search for the placement was cut short: a longer one may find a better placement")
    return tuple(notes)


def versions_of(artifact: Artifact) -> Dict[str, Optional[str]]:
    """Versions of the software that took part; None for software that is not installed."""
    versions: Dict[str, Optional[str]] = {"edgedla": identity().version, "python": platform.python_version()}
    versions.update(libraries())
    return {**versions, **{k: v for k, v in artifact.software.items() if k not in versions}}
