"""Change these layers first: what each root cause costs, found by predicting again as if it were fixed."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.regions.candidates import form_groups, split_groups, unit_devices
from edgedla.regions.fusions import UnitGraph
from edgedla.regions.values import Cause, LayerPrediction, RankedChange
from edgedla.regions.work import work_of
from edgedla.rules.verdict import Effect, Finding, Support, Verdict

#: Each entry costs one more run of the grouping: the causes with the most layers are tried, fewer in large networks.
MOST_CAUSES = 40
FEWEST_CAUSES = 6
MOST_UNIT_VISITS = 10_000


def rank_changes(
    graph: LayerGraph,
    units: UnitGraph,
    verdicts: Sequence[Verdict],
    supported: Sequence[bool],
    failing: Dict[int, str],
    layers: Sequence[LayerPrediction],
    limit: int,
    precision: str,
) -> Tuple[RankedChange, ...]:
    """Root causes by what fixing all their layers would bring: regions merged, then layers and MACs gained.

    Layers share an entry when they have the same type and the same first rule; a rule for every kind of layer has one
    entry, for what it asks (fixed dims, FP16 tensors, no dim above 8192) is one change of the model. An entry says what
    would follow if exactly these layers ran on the DLA and nothing else changed: candidates, second look and cap are
    worked out anew. Of a rule for every kind, layers that other rules refuse as well stay where they are.
    """
    causes: Dict[Tuple[str, str, Cause], List[int]] = {}
    deciding: Dict[int, Optional[Finding]] = {}
    for p in layers:
        if p.cause in (Cause.RULE, Cause.UNKNOWN, Cause.VALIDATION):
            finding = deciding[p.index] = _deciding(verdicts[p.index])
            rule = f"{finding.rule} {finding.rule_name}" if finding else "no rule"
            kind = "" if finding and _is_for_every_kind(finding.rule) else f"{_kind_label(graph, p.index)}: "
            causes.setdefault((kind, rule, p.cause), []).append(p.index)
    work = work_of(graph)

    def outcome(on_dla: Sequence[bool], thrown_out: Dict[int, str]) -> Tuple[int, int, int]:
        """Candidates before the cap; layers and MACs on the DLA after it."""
        groups = form_groups(units, unit_devices(units, on_dla), waits_for_batch=precision != "int8")
        groups = split_groups(groups, thrown_out)
        kept = sorted(range(len(groups)), key=lambda g: (-len(groups[g]), g))[:limit]
        members = [i for g in kept for u in groups[g] for i in units.units[u].layers]
        return len(groups), len(members), sum(work[i].macs for i in members)

    now = outcome(supported, failing)
    tried = min(MOST_CAUSES, max(FEWEST_CAUSES, MOST_UNIT_VISITS // max(len(units.units), 1)))
    ranked: List[RankedChange] = []
    for (kind, rule, cause), members in sorted(causes.items(), key=lambda item: (-len(item[1]), item[1]))[:tried]:
        fixed = list(supported)
        freed = members if kind else [i for i in members if not _others(verdicts[i], deciding[i])]
        for i in freed:
            fixed[i] = True
        mended = {units.unit_of[i] for i in freed if i in units.unit_of}
        after = outcome(fixed, {u: m for u, m in failing.items() if u not in mended})
        findings = [f for f in (deciding[i] for i in members) if f]
        ranked.append(
            RankedChange(
                layers=tuple(members),
                label=f"{kind}{rule}",
                cause=cause,
                message=layers[members[0]].reason,
                fixes=tuple(sorted({fix for f in findings for fix in f.fixes})),
                regions_after=after[0],
                regions_merged=now[0] - after[0],
                layers_gained=after[1] - now[1],
                macs_gained=after[2] - now[2],
            )
        )
    ranked.sort(key=lambda c: (-c.regions_merged, -c.layers_gained, -c.macs_gained, c.layers))
    return tuple(ranked)


def _deciding(verdict: Verdict) -> Optional[Finding]:
    if verdict.support is Support.DLA:
        return verdict.validation[0] if verdict.validation else None
    wanted = Effect.REJECT if verdict.support is Support.GPU else Effect.UNKNOWN
    for finding in verdict.findings:
        if finding.effect is wanted:
            return finding
    return None


def _is_for_every_kind(rule: str) -> bool:
    """Whether a rule of common.yaml stopped the layer, not the lack of a rule for its kind."""
    return rule.startswith("GEN") and rule != "GEN099"


def _others(verdict: Verdict, deciding: Optional[Finding]) -> bool:
    """Whether something else than `deciding` keeps the layer off the DLA."""
    stops = (Effect.REJECT, Effect.UNKNOWN)
    return any(f is not deciding and f.effect in stops for f in verdict.findings + verdict.validation)


def _kind_label(graph: LayerGraph, index: int) -> str:
    layer = graph.layers[index]
    operation = layer.params.get("op")
    return f"{layer.type} {operation}" if isinstance(operation, str) else layer.type
