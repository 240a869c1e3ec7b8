"""The answers of rules about a layer: Support, Finding, Verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Tuple

from edgedla.text.pages import page_of
from edgedla.text.printable import Fields, Word


class Support(Word):
    """Where a layer can run by its own rules. There is no default: unknown stays unknown."""

    DLA = "dla"
    GPU = "gpu"
    UNKNOWN = "unknown"


class Effect(Word):
    """What it means that a layer does not meet a rule: not on the DLA; unknown; legal with a warning; legal but slow."""

    REJECT = "reject"
    UNKNOWN = "unknown"
    WARN = "warn"
    SLOW = "slow"


@dataclass(frozen=True)
class Finding(Fields):
    """One rule that a layer does not meet.

    Attributes:
        rule: the rule's id, for example CONV009.
        rule_name: its short name, for example conv-buffer-overflow.
        layer: the TensorRT layer's name.
        effect: what follows from it.
        message: one sentence with the actual value and the limit.
        facts: the numbers behind the message.
        sources: ids of rules/sources.yaml.
        fixes: ids of known remedies.
    """

    rule: str
    rule_name: str
    layer: str
    effect: Effect
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    sources: Tuple[str, ...] = ()
    fixes: Tuple[str, ...] = ()

    def of_layer(self, layer: str) -> Finding:
        """The same finding about another layer."""
        return Finding(self.rule, self.rule_name, layer, self.effect, self.message, self.facts, self.sources, self.fixes)

    def to_dict(self) -> Dict[str, Any]:
        return {**super().to_dict(), "page": page_of("rule", self.rule)}


@dataclass(frozen=True)
class Verdict:
    """A layer's verdict for one platform and precision.

    Attributes:
        index: the layer's index in its graph.
        layer: its name.
        support: the verdict of the per-layer rules (TensorRT's first per-layer check).
        findings: every rule it does not meet, rejections first.
        basis: "rules" (documented limits) or "observed" (rests on logs only).
        validation: rules of TensorRT's second look that it does not meet. They do not change `support`: the layer passes the
            first check and is removed later, when its candidate subgraph is validated (8.5.2 logs: dims above 8192,
            reshape beside Slice or Concat, operands of different dims).
    """

    index: int
    layer: str
    support: Support
    findings: Tuple[Finding, ...] = ()
    basis: str = "rules"
    validation: Tuple[Finding, ...] = ()

    def of_layer(self, index: int, layer: str) -> Verdict:
        """The same verdict on another layer."""
        findings = tuple(f.of_layer(layer) for f in self.findings)
        validation = tuple(f.of_layer(layer) for f in self.validation)
        return Verdict(index, layer, self.support, findings, self.basis, validation)

    def to_dict(self) -> Dict[str, Any]:
        return {
            "index": self.index,
            "layer": self.layer,
            "support": str(self.support),
            "basis": self.basis,
            "findings": [f.to_dict() for f in self.findings],
            "validation": [f.to_dict() for f in self.validation],
        }
