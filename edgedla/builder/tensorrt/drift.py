"""Drift: where TensorRT's can_run_on_DLA differs from the rules, layer by layer, as a document for the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from edgedla.builder.plan.plan import BuildPlan
from edgedla.io.documents import header
from edgedla.text.printable import as_json
from edgedla.vocabulary import GPU

#: Layer name -> (LayerType name, can_run_on_DLA) of each layer of that name in the parsed network.
Answers = Mapping[str, Tuple[Tuple[str, bool], ...]]


@dataclass(frozen=True)
class Difference:
    """One layer judged differently. `rules`: dla, gpu or unknown; `tensorrt`: dla, gpu or absent."""

    layer: str
    type: str
    planned: str
    rules: str
    tensorrt: str


class RefusedNode(NamedTuple):
    """An ONNX node that TensorRT's parser refuses for the DLA (REPORT_CAPABILITY_DLA), and its first reason."""

    node: str
    operator: str
    reason: str


@dataclass(frozen=True)
class Drift:
    """All differences, and what follows for the plan.

    Attributes:
        asked: how many planned layers TensorRT was asked about.
        refused: planned DLA layers that TensorRT refuses on the DLA.
        missing: planned DLA layers that the network does not have under this name. Parser releases differ in what they
            fold and how they name it, so this says nothing about the DLA.
        unplanned: network layers that the plan does not know; constants and shape arithmetic are expected here.
        duplicated: names that several network layers have; such a name is on the DLA where all of them can be.
        nodes: ONNX nodes that the parser refuses for the DLA, where it was asked (from 10.15 on).
        changed: layers whose answer changed when precisions, ranges and calibrator were set.
    """

    differences: Tuple[Difference, ...] = ()
    asked: int = 0
    refused: Tuple[str, ...] = ()
    missing: Tuple[str, ...] = ()
    unplanned: Tuple[str, ...] = ()
    duplicated: Tuple[str, ...] = ()
    changed: Tuple[str, ...] = ()
    nodes: Tuple[RefusedNode, ...] = ()

    def to_dict(self, plan: BuildPlan) -> Dict[str, Any]:
        """The drift document: model, platform, precision, and one record a layer."""
        return {
            **header("edgedla.drift"),
            "model": dict(plan.model),
            "target": plan.platform["target"],
            "chip": plan.platform["chip"],
            "trt": plan.platform["trt"],
            "jetpack": plan.platform.get("jetpack"),
            "precision": plan.precision,
            "asked": self.asked,
            "layers": as_json(self.differences),
            "missing": list(self.missing),
            "unplanned": list(self.unplanned),
            "duplicated": list(self.duplicated),
            "changed_by_precision": list(self.changed),
            "refused_nodes": [node._asdict() for node in self.nodes],
        }


def compare(plan: BuildPlan, answers: Answers, before: Optional[Answers] = None) -> Drift:
    """The plan against TensorRT's answers.

    Args:
        answers: of all layers of the parsed network, with everything set that the plan says.
        before: the same without precisions, ranges and calibrator.
    """
    differences, refused, missing = [], [], []
    for planned in plan.layers:
        answer = answers.get(planned.name)
        on_dla = planned.device != GPU
        if answer is None:
            if on_dla:
                missing.append(planned.name)
            differences.append(Difference(planned.name, planned.type, planned.device, planned.capable, "absent"))
            continue
        verdict = "dla" if all(can_run for _, can_run in answer) else "gpu"
        if on_dla and verdict == "gpu":
            refused.append(planned.name)
        if verdict != planned.capable:
            differences.append(Difference(planned.name, planned.type, planned.device, planned.capable, verdict))
    planned_names = {planned.name for planned in plan.layers}
    return Drift(
        differences=tuple(differences),
        asked=sum(planned.name in answers for planned in plan.layers),
        refused=tuple(refused),
        missing=tuple(missing),
        unplanned=tuple(name for name in answers if name not in planned_names),
        duplicated=tuple(name for name, answer in answers.items() if len(answer) > 1),
        changed=tuple(name for name, answer in answers.items() if before is not None and before.get(name) != answer),
    )


def drift_yaml(plan: BuildPlan, drift: Drift) -> str:
    """The drift document as YAML, to be sent back or added to rules/evidence."""
    import yaml

    head = "# Where TensorRT's own check differs from edgedla's rules. Worth sending back: it corrects the rules.\n"
    return head + yaml.safe_dump(drift.to_dict(plan), sort_keys=False, allow_unicode=True, width=120)
