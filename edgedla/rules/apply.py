"""Applies rules to one layer: the findings for rules that it does not meet, and the verdict."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

from edgedla.graph.kinds.base import Kind
from edgedla.rules.rule import Case, Rule
from edgedla.rules.verdict import Effect, Finding, Support, Verdict
from edgedla.targets import Platform

#: Order of findings: rejections, unknowns, warnings, slow forms.
ORDER = {Effect.REJECT: 0, Effect.UNKNOWN: 1, Effect.WARN: 2, Effect.SLOW: 3}


class Active(NamedTuple):
    """A rule with its case for one platform."""

    rule: Rule
    case: Case
    effect: Effect


class RuleFinding(NamedTuple):
    """A finding; whether it rests on logs only; whether TensorRT finds it only in its second look."""

    finding: Finding
    observed: bool = False
    second: bool = False


class ActiveRules(NamedTuple):
    """The rules for one layer kind on one platform. `known`: a rule file was written for this kind and platform."""

    known: bool
    rules: Tuple[Active, ...]


def findings_of(kind: Kind, name: str, active: Sequence[Active], element_bytes: int) -> List[RuleFinding]:
    """A finding for each rule that the layer does not meet."""
    findings: List[RuleFinding] = []
    for rule, case, effect in active:
        failure = rule.failure(kind, case, element_bytes)
        if failure is None:
            continue
        message, facts = rule.render(kind, case, failure)
        finding = Finding(
            rule=rule.id,
            rule_name=rule.name,
            layer=name,
            effect=effect,
            message=message,
            facts={k: list(v) if isinstance(v, tuple) else v for k, v in facts.items()},
            sources=case.sources,
            fixes=rule.fixes_for(kind),
        )
        second = rule.stage == "subgraph" and effect in (Effect.REJECT, Effect.UNKNOWN)
        findings.append(RuleFinding(finding, case.status == "observed", second))
    return findings


def verdict_of(index: int, name: str, findings: Sequence[RuleFinding], stage: str) -> Verdict:
    if not findings:
        return Verdict(index, name, Support.DLA)
    ordered = sorted(findings, key=lambda f: ORDER[f.finding.effect])
    counted = ordered if stage == "subgraph" else [f for f in ordered if not f.second]
    support, basis = Support.DLA, "rules"
    for effect, answer in ((Effect.REJECT, Support.GPU), (Effect.UNKNOWN, Support.UNKNOWN)):
        deciding = [f.observed for f in counted if f.finding.effect is effect]
        if deciding:
            support, basis = answer, "observed" if all(deciding) else "rules"
            break
    if support is Support.GPU:
        # Warnings are about the DLA: for a layer on the GPU they would only hide the reason.
        ordered = [f for f in ordered if f.finding.effect in (Effect.REJECT, Effect.UNKNOWN)]
    first = tuple(f.finding for f in ordered if not f.second)
    return Verdict(index, name, support, first, basis, tuple(f.finding for f in ordered if f.second))


def without_dla(index: int, name: str, reason: str) -> Verdict:
    finding = Finding("GEN000", "no-dla", name, Effect.REJECT, reason)
    return Verdict(index, name, Support.GPU, (finding,))


def unwritten(name: str, kind: str, platform: Platform, unknown: str = "", fixes: Tuple[str, ...] = ()) -> Finding:
    """The finding for a layer kind without rules on this platform.

    Args:
        unknown: why it is not known which layers the parser makes of the layer's ONNX node.
        fixes: ids of the remedies after which it is known.
    """
    message = unknown or f"no rule is written for layer kind {kind} on {platform.chip} with TensorRT {platform.release.trt_text}"
    return Finding("GEN099", "no-rule-written", name, Effect.UNKNOWN, message, {"kind": kind}, fixes=fixes)


def element_bytes_of(kind: Kind, platform: Platform, precision: str) -> int:
    """Bytes of one element on the DLA: by the tensor's type in strongly typed releases, else by the chosen precision."""
    if platform.release.strongly_typed:
        return 1 if kind.in_dtype == "INT8" else 2
    return 1 if precision == "int8" else 2
