"""A prediction against TensorRT's result: their differences layer by layer, and which of them are evidence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.errors import DocumentError
from edgedla.records.real_placement import DLA, GPU, Real
from edgedla.text.printable import Fields


@dataclass(frozen=True)
class Predicted:
    """The prediction for one layer. `support`: the rules' own verdict: dla, gpu, unknown, or "" if there is none."""

    name: str
    type: str
    placed: str
    support: str = ""
    reason: str = ""


@dataclass(frozen=True)
class LayerDifference(Fields):
    """One layer where prediction and TensorRT differ.

    Attributes:
        what: "placement" (another device), "check" (TensorRT's first look differs from the rules).
        predicted, real: "dla" or "gpu".
        predicted_reason, real_reason: reasons, as far as known.
    """

    layer: str
    type: str
    what: str
    predicted: str
    real: str
    predicted_reason: str = ""
    real_reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """Prediction and reality of one build.

    Attributes:
        agree: number of layers on their expected device.
        untold: number of predicted layers whose device the source does not tell (including folded ones).
        check_agree: number of layers where the rules and TensorRT's first look agree; None if the source does not show it.
        check_unknown: number of layers that the rules do not decide.
        loadables_predicted, loadables_real: names of the DLA nodes on each side.
        platform, precision: those of the prediction, as in Platform.to_dict(); empty if unknown.
    """

    source: str
    layers: int
    agree: int
    untold: int
    differences: Tuple[LayerDifference, ...]
    check_agree: Optional[int] = None
    check_unknown: int = 0
    loadables_predicted: Tuple[str, ...] = ()
    loadables_real: Tuple[str, ...] = ()
    notes: Tuple[str, ...] = ()
    platform: Mapping[str, Any] = field(default_factory=dict)
    precision: str = ""

    @property
    def drift(self) -> Tuple[Dict[str, Any], ...]:
        """Differences as records for the evidence: one per layer whose first look or device the rules predicted wrongly."""
        return tuple(
            {
                "layer": d.layer,
                "type": d.type,
                "what": d.what,
                "predicted": d.predicted,
                "tensorrt": d.real,
                "message": d.real_reason,
                "target": self.platform.get("target"),
                "trt": self.platform.get("trt"),
                "precision": self.precision,
                "source": self.source,
            }
            for d in self.differences
        )

    @property
    def placement_differences(self) -> Tuple[LayerDifference, ...]:
        return tuple(d for d in self.differences if d.what == "placement")

    @property
    def check_differences(self) -> Tuple[LayerDifference, ...]:
        return tuple(d for d in self.differences if d.what == "check")

    def to_dict(self) -> Dict[str, Any]:
        plain = "source layers agree untold check_agree check_unknown".split()
        return {
            **{name: getattr(self, name) for name in plain},
            "loadables_predicted": list(self.loadables_predicted),
            "loadables_real": list(self.loadables_real),
            "notes": list(self.notes),
            "differences": [d.to_dict() for d in self.differences],
            "drift": [dict(record) for record in self.drift] if self.platform else [],
        }


def predicted_of_check(document: Mapping[str, Any]) -> Tuple[Predicted, ...]:
    """The layers of an `edgedla check --format json` document.

    Raises:
        DocumentError: not such a document.
    """
    try:
        if document["document"] != "edgedla.check":
            raise DocumentError(f"not a check document: {document['document']!r}", allowed="edgedla.check")
        return tuple(
            Predicted(
                str(entry["name"]), str(entry["type"]), str(entry["placed"]), str(entry["support"]), str(entry.get("reason", ""))
            )
            for entry in document["layers"]
        )
    except (KeyError, TypeError) as e:
        raise DocumentError(f"not a check document: {e!r}") from e


def predicted_of_mapping(devices: Mapping[str, str]) -> Tuple[Predicted, ...]:
    """From layer name -> GPU, DLA0 or DLA1, as in plans and artifacts."""
    return tuple(Predicted(name, "", DLA if str(device).upper().startswith("DLA") else GPU) for name, device in devices.items())


def compare(
    predicted: Sequence[Predicted],
    real: Real,
    loadables: Sequence[str] = (),
    *,
    platform: Optional[Mapping[str, Any]] = None,
    precision: str = "",
) -> Comparison:
    """Every layer's expected device against its real one, and the rules against TensorRT's first look.

    Args:
        loadables: names of the expected DLA nodes.
        platform, precision: those of the prediction.
    """
    differences: List[LayerDifference] = []
    agree = untold = check_agree = check_unknown = 0
    for layer in predicted:
        device = real.devices.get(layer.name)
        why = real.validation.get(layer.name) or real.refused.get(layer.name) or ""
        if device is None:
            untold += 1
        elif device == layer.placed or (layer.placed == "folded" and layer.name in real.inferred):
            agree += 1
        else:
            differences.append(LayerDifference(layer.name, layer.type, "placement", layer.placed, device, layer.reason, why))
        if real.checked and layer.support:
            answer = GPU if layer.name in real.refused else DLA
            if layer.support not in (DLA, GPU):
                check_unknown += 1
            elif answer == layer.support:
                check_agree += 1
            else:
                differences.append(
                    LayerDifference(
                        layer.name, layer.type, "check", layer.support, answer, layer.reason, real.refused.get(layer.name, "")
                    )
                )
    notes = list(real.notes)
    if predicted and not any(p.name in real.devices or p.name in real.refused for p in predicted):
        notes.append(f"the {real.source} names no layer of this model; it seems to come from another model")
    return Comparison(
        source=real.source,
        layers=len(predicted),
        agree=agree,
        untold=untold,
        differences=tuple(differences),
        check_agree=check_agree if real.checked else None,
        check_unknown=check_unknown,
        loadables_predicted=tuple(loadables),
        loadables_real=real.loadables,
        notes=tuple(notes),
        platform=dict(platform or {}),
        precision=precision,
    )
