"""Layers off the DLA, grouped by the remedy that would bring them there, largest group first."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

from edgedla.regions.report import CheckReport, LayerReport
from edgedla.regions.values import Cause, Placed
from edgedla.reports import layer_groups
from edgedla.rules.remedies import remedies
from edgedla.rules.verdict import Effect, Finding

_STOPS = (Effect.REJECT, Effect.UNKNOWN)


class Refusals(NamedTuple):
    """Layers with one remedy. `remedy` is "" if none is known; `tone` is "bad" for refused, "unknown" for unknown layers."""

    remedy: str
    title: str
    tone: str
    rules: Tuple[str, ...]
    message: str
    layers: Tuple[LayerReport, ...]


def by_remedy(report: CheckReport) -> Tuple[Refusals, ...]:
    """Refused and unknown layers by remedy; without layers that are on the GPU because of others."""
    groups: Dict[Tuple[str, str], List[Tuple[LayerReport, Sequence[Finding]]]] = {}
    ranked = tuple(fix for change in report.ranking for fix in change.fixes)
    for layer in report.layers:
        if layer.placed is not Placed.GPU or not layer.cause.is_root or layer.cause is Cause.NO_DLA:
            continue
        findings = _hopeless_first(layer.findings) if layer.cause is Cause.RULE else layer_groups.decisive(layer)
        tone = "unknown" if layer_groups.is_unknown(layer) else "bad"
        # Layers without a remedy are grouped by rule.
        remedy = _remedy(findings, ranked) or f"\0{findings[0].rule if findings else layer.cause}"
        groups.setdefault((remedy, tone), []).append((layer, findings))
    answers = []
    for (remedy, tone), members in groups.items():
        (first, why), named = members[0], remedies().get(remedy)
        answers.append(
            Refusals(
                "" if remedy.startswith("\0") else remedy,
                "No remedy is known" if named is None else named.title,
                tone,
                tuple(dict.fromkeys(f.rule for _, findings in members for f in findings)),
                why[0].message if why else first.reason,
                tuple(layer for layer, _ in members),
            )
        )
    return tuple(sorted(answers, key=lambda r: (-len(r.layers), r.layers[0].index)))


def _hopeless_first(findings: Sequence[Finding]) -> List[Finding]:
    """Refusals before unknowns, which decide nothing beside one; of each first what no remedy moves: others do not help then."""
    stops = [finding for finding in findings if finding.effect in _STOPS]
    return sorted(stops, key=lambda finding: (finding.effect is not Effect.REJECT, bool(_usable(finding))))


def _remedy(findings: Sequence[Finding], ranked: Sequence[str]) -> str:
    """The remedy that the ranking uses, else the first usable one.

    If the deciding finding has no usable remedy, its own first one: what to do instead.
    """
    usable = [fix for finding in findings for fix in _usable(finding)]
    if findings and not _usable(findings[0]):
        return next(iter(findings[0].fixes), "")
    return next((fix for fix in usable if fix in ranked), usable[0] if usable else "")


def _usable(finding: Finding) -> List[str]:
    all_remedies = remedies()
    return [fix for fix in finding.fixes if fix not in all_remedies or all_remedies[fix].effect != "stays"]


class Pulled(NamedTuple):
    """Layers that the DLA could run, but that are on the GPU for one reason in other layers."""

    text: str
    layers: Tuple[LayerReport, ...]


def pulled_along(report: CheckReport) -> Tuple[Pulled, ...]:
    """Layers on the GPU because of others, by cause; the largest group first."""
    groups: Dict[Cause, List[LayerReport]] = {}
    for layer in report.layers:
        if layer.placed is Placed.GPU and not layer.cause.is_root:
            groups.setdefault(layer.cause, []).append(layer)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(Pulled(layer_groups.CAUSES[cause], tuple(layers)) for cause, layers in ordered)
