"""Predicts the network after a set of remedies: candidates, cap, layers and MACs on the DLA."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, NamedTuple, Sequence

from edgedla.graph import LayerGraph
from edgedla.regions.candidates import failing_units, form_groups, split_groups, unit_devices
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.regions.ranking.remedies import changed, needs_of
from edgedla.regions.work import skipped_macs, work_of
from edgedla.rules.verdict import Support, Verdict

#: Minimum gain for one more loadable, as a share of all layers plus a share of all MACs: its start and its two transitions
#: cost about as much as 1 to 2 % of a network on the DLA.
LOADABLE_WEIGHT = 0.015


class Outcome(NamedTuple):
    """`candidates`: before the cap. Layers and MACs on the DLA: after the cap. `layers`: all that do work."""

    candidates: int
    kept: int
    layers: int
    layers_dla: int
    macs: int
    macs_dla: int

    @property
    def value(self) -> float:
        """The value to compare sets of remedies by: shares of layers and MACs on the DLA, minus the cost of loadables."""
        shares = self.layers_dla / max(self.layers, 1) + self.macs_dla / max(self.macs, 1)
        return shares - LOADABLE_WEIGHT * self.candidates


class Outcomes:
    """Outcomes of one network by set of remedies, computed once per set.

    Args:
        limit: loadables that one core takes.
        units: the units of the unchanged network.
    """

    def __init__(self, graph: LayerGraph, units: UnitGraph, verdicts: Sequence[Verdict], limit: int, precision: str) -> None:
        self.graph, self.units, self.verdicts = graph, units, verdicts
        self.needs = needs_of(verdicts)
        self.limit, self.precision = limit, precision
        self.tried: Dict[FrozenSet[str], Outcome] = {}

    def of(self, remedies: AbstractSet[str]) -> Outcome:
        key = frozenset(remedies)
        if key not in self.tried:
            self.tried[key] = self._outcome(key)
        return self.tried[key]

    def _outcome(self, remedies: FrozenSet[str]) -> Outcome:
        graph, verdicts = changed(self.graph, self.verdicts, remedies, self.needs)
        units = self.units if graph is self.graph else fuse(graph)
        devices = unit_devices(units, [v.support is Support.DLA for v in verdicts])
        failing = failing_units(units, devices, {v.index: v.validation[0].message for v in verdicts if v.validation})
        groups = split_groups(form_groups(units, devices, self.precision), failing)
        largest = sorted(range(len(groups)), key=lambda g: (-len(groups[g]), g))[: self.limit]
        members = [i for g in largest for u in groups[g] for i in units.units[u].layers]
        work = work_of(graph)
        skipped = skipped_macs(graph, work)
        return Outcome(
            candidates=len(groups),
            kept=len(largest),
            layers=len(graph.layers) - len(units.erased),
            layers_dla=len(members),
            macs=sum(w.macs for i, w in enumerate(work) if i not in skipped),
            macs_dla=sum(work[i].macs for i in members if i not in skipped),
        )
