"""Orders remedies: first the one that helps most, then the one that helps most on top of it, and so on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.regions.ranking.outcome import Outcome, Outcomes
from edgedla.regions.ranking.remedies import Needs, removing
from edgedla.regions.report import LayerReport
from edgedla.regions.values import LayerPrediction, RankedChange
from edgedla.rules.verdict import Verdict

#: Most changes to show: nobody makes more at a time.
MOST_CHANGES = 5
#: Each set of remedies costs one run of the grouping, so large networks try fewer: first those that concern most layers.
MOST_REMEDIES, FEWEST_REMEDIES, MOST_UNIT_VISITS = 8, 3, 12_000
#: A smaller change of the value counts as none.
NOTHING = 1e-9


def rank_changes(
    graph: LayerGraph,
    units: UnitGraph,
    verdicts: Sequence[Verdict],
    layers: Sequence[LayerPrediction],
    limit: int,
    precision: str,
) -> Tuple[RankedChange, ...]:
    """At most MOST_CHANGES remedies that help, each on top of those before it, so that the last one shows the sum.

    A remedy is one change of the model, whichever rules and layer kinds ask for it. Remedies that only help together
    are one entry (the average and the scale of a squeeze-and-excite block). Left out are remedies that gain nothing, that
    add loadables for little gain, or that leave the layer on the GPU.

    Args:
        verdicts, layers: one per live layer, in order.
        limit: loadables that one core takes.
    """
    outcomes = Outcomes(graph, units, verdicts, limit, precision)
    needs = outcomes.needs
    members: Dict[str, List[int]] = {}
    for need in (n for n in needs.values() if not n.slow):
        for remedy in need.remedies:
            members.setdefault(remedy, []).append(need.index)
    most = min(MOST_REMEDIES, max(FEWEST_REMEDIES, MOST_UNIT_VISITS // max(len(units.units), 1) // MOST_CHANGES))
    remedies = sorted(members, key=lambda r: (-len(members[r]), members[r], r))[:most]
    applied: FrozenSet[str] = frozenset()
    ranking: List[RankedChange] = []
    while len(ranking) < MOST_CHANGES:
        step = _best_step(outcomes, applied, remedies)
        if step is None:
            break
        before, after = outcomes.of(applied), outcomes.of(applied | step)
        indices = _addressed(needs, step, applied)
        alone = outcomes.of(step).value > outcomes.of(frozenset()).value + NOTHING
        ranking.append(_change(step, indices, layers, verdicts, before, after, alone))
        applied |= step
    return tuple(ranking)


def in_order(
    graph: LayerGraph, verdicts: Sequence[Verdict], changes: Sequence[RankedChange], limit: int, precision: str
) -> Tuple[RankedChange, ...]:
    """The changes in this order, with figures on top of the changes before; leaves out a change that then frees no layer.

    Args:
        changes: of `rank_changes` for this network, in any order and number. Other arguments as in `rank_changes`.
    """
    outcomes = Outcomes(graph, fuse(graph), verdicts, limit, precision)
    needs = outcomes.needs
    applied: FrozenSet[str] = frozenset()
    ordered: List[RankedChange] = []
    for change in changes:
        step = frozenset(change.fixes)
        indices = _addressed(needs, step, applied)
        if indices:
            ordered.append(replace(change, layers=indices, **_figures(outcomes.of(applied), outcomes.of(applied | step))))
            applied |= step
    return tuple(ordered)


def removals(
    graph: LayerGraph,
    verdicts: Sequence[Verdict],
    layers: Sequence[LayerReport],
    ranking: Sequence[RankedChange],
    limit: int,
    precision: str,
) -> Tuple[RankedChange, ...]:
    """The changes that take layers out of the network that the DLA runs slowly, without those that `ranking` has.

    They bring no layer to the DLA: only times show what they gain. Their figures are those of each by itself.
    """
    ranked = {fix for change in ranking for fix in change.fixes}
    remedies = [r for r in dict.fromkeys(f for v in verdicts for f in removing(v)) if r not in ranked]
    if not remedies:
        return ()
    outcomes = Outcomes(graph, fuse(graph), verdicts, limit, precision)
    changes: List[RankedChange] = []
    for remedy in remedies:
        step: FrozenSet[str] = frozenset((remedy,))
        none: FrozenSet[str] = frozenset()
        indices = _addressed(outcomes.needs, step, none)
        if indices:
            before, after = outcomes.of(none), outcomes.of(step)
            changes.append(_change(step, indices, layers, verdicts, before, after, alone=True))
    return tuple(changes)


def _best_step(outcomes: Outcomes, applied: FrozenSet[str], remedies: Sequence[str]) -> Optional[FrozenSet[str]]:
    """The remedy that raises the value most; if none helps by itself, the two that do."""
    now = outcomes.of(applied).value
    candidates = [r for r in remedies if r not in applied]
    for size in (1, 2):
        steps = [frozenset(step) for step in itertools.combinations(candidates, size)]
        gains = [(outcomes.of(applied | step).value - now, step) for step in steps]
        best = max(gains, key=lambda g: g[0], default=(0.0, frozenset()))
        if best[0] > NOTHING:
            return best[1]
    return None


def _addressed(needs: Mapping[int, Needs], step: FrozenSet[str], applied: FrozenSet[str]) -> Tuple[int, ...]:
    """The layers that the step frees, on top of what was taken before."""
    both = step | applied
    return tuple(i for i, need in sorted(needs.items()) if need.satisfied_by(both) and not need.satisfied_by(applied))


def _change(
    step: FrozenSet[str],
    indices: Tuple[int, ...],
    layers: Sequence[Union[LayerPrediction, LayerReport]],
    verdicts: Sequence[Verdict],
    before: Outcome,
    after: Outcome,
    alone: bool,
) -> RankedChange:
    first = indices[0]
    stops = [f for i in indices for f in (*verdicts[i].findings, *verdicts[i].validation) if set(f.fixes) & step]
    names = dict.fromkeys(f"{f.rule} {f.rule_name}" for f in stops)
    return RankedChange(
        layers=indices,
        label=", ".join(names),
        cause=layers[first].cause,
        message=next((f.message for f in stops), layers[first].reason),
        fixes=tuple(sorted(step)),
        **_figures(before, after),
        helps_alone=alone,
    )


def _figures(before: Outcome, after: Outcome) -> Dict[str, Any]:
    return {
        "regions_after": after.candidates,
        "regions_merged": before.candidates - after.candidates,
        "layers_gained": after.layers_dla - before.layers_dla,
        "macs_gained": after.macs_dla - before.macs_dla,
        "kept_after": after.kept,
        "layers_after": after.layers,
        "layers_dla_after": after.layers_dla,
        "macs_after": after.macs,
        "macs_dla_after": after.macs_dla,
    }
