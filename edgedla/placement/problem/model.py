"""One network to place, and which of its units the DLA may run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Sequence, Tuple

from edgedla.graph import LayerGraph
from edgedla.graph.batch import batch_of, frame_text
from edgedla.placement.problem.loops import loops_of
from edgedla.regions.candidates import failing_units, unit_devices
from edgedla.regions.fusions import Unit, UnitGraph
from edgedla.rules.verdict import Effect, Support, Verdict
from edgedla.vocabulary import GPU


@dataclass(frozen=True)
class Model:
    """One network to place.

    Attributes:
        graph: the network as TensorRT's parser makes it.
        verdicts: one per live layer, in order.
        pins: device by layer index: "GPU", "DLA" (any core), "DLA0" or "DLA1".
        rate: frames per period, for the throughput of several models.
    """

    graph: LayerGraph
    verdicts: Tuple[Verdict, ...]
    pins: Mapping[int, str] = field(default_factory=dict)
    rate: float = 1.0


def import_notes(models: Sequence[Model]) -> List[str]:
    """Notes of the import of each model, and what a frame of it is; with the model's name if there are several."""
    several = len(models) > 1
    notes = [(m, note) for m in models for note in (frame_text(batch_of(m.graph)), *m.graph.notes) if note]
    return [f"{m.graph.name}: {note}" if several else note for m, note in notes]


def legal_units(model: Model, units: UnitGraph, use_unknown: bool) -> List[bool]:
    """For each unit whether the DLA may run it: all its layers pass both looks, and no reshape is merged into it.

    A loop is one piece: with one unit that the DLA may not run, it runs none.
    """
    accepted = {Support.DLA, Support.UNKNOWN} if use_unknown else {Support.DLA}
    legal = unit_devices(units, [v.support in accepted and not v.validation for v in model.verdicts])
    for loop in loops_of(model.graph, units):
        if not all(legal[u] for u in loop):
            for u in loop:
                legal[u] = False
    return legal


def thrown_out(model: Model, units: UnitGraph, use_unknown: bool) -> Dict[int, str]:
    """Unit -> message, for units that TensorRT would put on the DLA and its second look removes."""
    accepted = {Support.DLA, Support.UNKNOWN} if use_unknown else {Support.DLA}
    devices = unit_devices(units, [v.support in accepted and model.pins.get(i) != GPU for i, v in enumerate(model.verdicts)])
    return failing_units(units, devices, {v.index: v.validation[0].message for v in model.verdicts if v.validation})


def why_not(model: Model, unit: Unit, use_unknown: bool = False) -> str:
    """Why the DLA may not run a unit: the rule and its message."""
    for i in unit.layers:
        verdict = model.verdicts[i]
        decisive = {Support.GPU: Effect.REJECT, Support.UNKNOWN: Effect.UNKNOWN}.get(verdict.support)
        if verdict.support is Support.UNKNOWN and use_unknown:
            decisive = None
        if decisive is not None:
            reason = next((f for f in verdict.findings if f.effect is decisive), None)
            return f"{reason.rule}: {reason.message}" if reason else "no rule says that the DLA runs it"
        if verdict.validation:
            return f"{verdict.validation[0].rule}: {verdict.validation[0].message}"
    return "merged into a reshape that the GPU runs"
