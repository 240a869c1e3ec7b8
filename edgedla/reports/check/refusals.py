"""Layers off the DLA by what would bring them there: one group per remedy, the largest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Sequence, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Cause, Placed
from edgedla.reports import layer_groups
from edgedla.rules.remedies import remedies
from edgedla.rules.verdict import Effect, Finding

_STOPS = (Effect.REJECT, Effect.UNKNOWN)


class Refusals(NamedTuple):
    """Layers with one remedy. `remedy` is "" where none is known; `tone` is "bad" for refused, "unknown" for unknown."""

    remedy: str
    title: str
    tone: str
    rules: Tuple[str, ...]
    message: str
    layers: Tuple[LayerReport, ...]


@dataclass
class _Group:
    remedy: str
    tone: str
    rules: Dict[str, None] = field(default_factory=dict)
    messages: List[str] = field(default_factory=list)
    layers: List[LayerReport] = field(default_factory=list)


def by_remedy(report: CheckReport) -> Tuple[Refusals, ...]:
    """Layers that the DLA refuses, or of which nobody knows, by remedy; layers that others pull along are not here."""
    groups: Dict[Tuple[str, str], _Group] = {}
    ranked = tuple(fix for change in report.ranking for fix in change.fixes)
    for layer in report.layers:
        if layer.placed is not Placed.GPU or not layer.cause.is_root or layer.cause is Cause.NO_DLA:
            continue
        findings = _hopeless_first(layer.findings) if layer.cause is Cause.RULE else layer_groups.decisive(layer)
        tone = "unknown" if layer_groups.is_unknown(layer) else "bad"
        remedy = _remedy(findings, ranked)
        # Without a remedy the rule is what layers have in common.
        key = (remedy, tone) if remedy else (f"\0{findings[0].rule if findings else layer.cause}", tone)
        group = groups.setdefault(key, _Group(remedy, tone))
        group.rules.update(dict.fromkeys(f"{f.rule}" for f in findings))
        group.messages.append(findings[0].message if findings else layer.reason)
        group.layers.append(layer)
    known = remedies()
    answers = [
        Refusals(
            g.remedy,
            known[g.remedy].title if g.remedy in known else "No remedy is known",
            g.tone,
            tuple(g.rules),
            g.messages[0],
            tuple(g.layers),
        )
        for g in groups.values()
    ]
    return tuple(sorted(answers, key=lambda r: (-len(r.layers), r.layers[0].index)))


def _hopeless_first(findings: Sequence[Finding]) -> List[Finding]:
    """What no remedy moves to the DLA decides: that others could be mended helps nobody. Of refusals before what nobody knows."""
    stops = [finding for finding in findings if finding.effect in _STOPS]
    return sorted(stops, key=lambda finding: (bool(_usable(finding)), finding.effect is not Effect.REJECT))


def _remedy(findings: Sequence[Finding], ranked: Sequence[str]) -> str:
    """The remedy that the ranking took, else the first that somebody can apply. Of a layer that could be mended in part, what is
    done in place of it."""
    usable = [fix for finding in findings for fix in _usable(finding)]
    if usable and not _usable(findings[0]):
        return next(iter(findings[0].fixes), "")
    return next((fix for fix in usable if fix in ranked), usable[0] if usable else "")


def _usable(finding: Finding) -> List[str]:
    known = remedies()
    return [fix for fix in finding.fixes if fix not in known or known[fix].effect != "stays"]


class Pulled(NamedTuple):
    """Layers that the DLA could run, on the GPU for one reason that lies with others."""

    text: str
    layers: Tuple[LayerReport, ...]


def pulled_along(report: CheckReport) -> Tuple[Pulled, ...]:
    """The knock-ons by cause, the largest first."""
    groups: Dict[Cause, List[LayerReport]] = {}
    for layer in report.layers:
        if layer.placed is Placed.GPU and not layer.cause.is_root:
            groups.setdefault(layer.cause, []).append(layer)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(Pulled(layer_groups.CAUSES[cause], tuple(layers)) for cause, layers in ordered)
