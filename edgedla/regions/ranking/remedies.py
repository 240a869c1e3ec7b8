"""What each layer needs to run on the DLA, and the network after a set of remedies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from edgedla.graph import Layer, LayerGraph
from edgedla.rules.remedies import remedies as known_remedies
from edgedla.rules.verdict import Effect, Support, Verdict

STOPS = (Effect.REJECT, Effect.UNKNOWN)


@dataclass(frozen=True)
class Needs:
    """What keeps a layer off the DLA: one entry per finding, with the remedies of which any one will do.

    With an entry that has no remedy the layer stays where it is.

    Attributes:
        slow: the DLA runs the layer, slowly; the remedies take it out of the network.
    """

    index: int
    choices: Tuple[Tuple[str, ...], ...]
    slow: bool = False

    def satisfied_by(self, remedies: AbstractSet[str]) -> bool:
        return all(any(r in remedies for r in choice) for choice in self.choices)

    @property
    def remedies(self) -> FrozenSet[str]:
        """All remedies that help; empty if some finding has none."""
        if not all(self.choices):
            return frozenset()
        return frozenset(r for choice in self.choices for r in choice)


def needs_of(verdicts: Sequence[Verdict]) -> Dict[int, Needs]:
    """Layer index -> needs, for layers that the first check or the second look stops, and for slow ones that a remedy removes."""
    unusable = {remedy.id for remedy in known_remedies().values() if remedy.effect == "stays"}
    needs: Dict[int, Needs] = {}
    for verdict in verdicts:
        stops = [f for f in verdict.findings + verdict.validation if f.effect in STOPS]
        if verdict.support is Support.DLA and not verdict.validation:
            slow = removing(verdict)
            if slow:
                needs[verdict.index] = Needs(verdict.index, (slow,), slow=True)
            continue
        usable = [tuple(r for r in f.fixes if r not in unusable) for f in stops]
        # Without a finding it is not known what would help.
        needs[verdict.index] = Needs(verdict.index, tuple(usable) or ((),))
    return needs


def removes(remedy: str) -> bool:
    """Whether the remedy takes its layers out of the network."""
    entry = known_remedies().get(remedy)
    return entry is not None and entry.effect == "removes"


def removing(verdict: Verdict) -> Tuple[str, ...]:
    """The remedies that take a layer out of the network, of its findings that say that it is slow."""
    return tuple(f for x in verdict.findings if x.effect is Effect.SLOW for f in x.fixes if removes(f))


def effect_of(verdicts: Sequence[Verdict], remedies: AbstractSet[str], needs: Mapping[int, Needs]) -> Tuple[FrozenSet[int], ...]:
    """(layers whose needs the remedies meet, those of them that they remove): sets of equal effect make equal networks."""
    freed = frozenset(i for i, need in needs.items() if need.satisfied_by(remedies))
    return freed, frozenset(i for i in freed if any(f in remedies and removes(f) for x in verdicts[i].findings for f in x.fixes))


def changed(
    graph: LayerGraph, verdicts: Sequence[Verdict], remedies: AbstractSet[str], needs: Optional[Mapping[int, Needs]] = None
) -> Tuple[LayerGraph, Tuple[Verdict, ...]]:
    """The network as if the remedies were applied: layers whose needs they meet run on the DLA, or are removed.

    Nothing else changes: layers that a rewrite would add are left out, and verdicts of the other layers stay.

    Args:
        needs: `needs_of(verdicts)`, if the caller has it already.
    """
    needs = needs_of(verdicts) if needs is None else needs
    freed, removed = effect_of(verdicts, remedies, needs)
    remaining = [v for v in verdicts if v.index not in removed]
    if removed:
        graph = without(graph, removed)
    answers = []
    for new, verdict in enumerate(remaining):
        verdict = verdict if verdict.index not in freed else _fit(verdict)
        answers.append(verdict if verdict.index == new else replace(verdict, index=new))
    return graph, tuple(answers)


def _fit(verdict: Verdict) -> Verdict:
    rest = tuple(f for f in verdict.findings if f.effect not in STOPS)
    return replace(verdict, support=Support.DLA, findings=rest, validation=())


def without(graph: LayerGraph, removed: AbstractSet[int]) -> LayerGraph:
    """The graph without these layers of one input and one output: readers of the output read the input instead.

    A layer that writes a network output stays connected: its input becomes the output. The output of a layer that changes
    the dims stays, made by the layer in front of it, so that its readers do no more work than before. The graph is made once
    for each set of layers, so that what it caches serves every set of remedies.
    """
    made: Dict[FrozenSet[int], LayerGraph] = graph.once("without", lambda _: {})
    key = frozenset(removed)
    if key not in made:
        made[key] = _without(graph, key)
    return made[key]


def _without(graph: LayerGraph, removed: AbstractSet[int]) -> LayerGraph:
    source: Dict[str, str] = {}
    maker: Dict[str, int] = {}
    layers: List[Layer] = []
    for layer in graph.layers:
        inputs = tuple(source.get(t, t) for t in layer.inputs)
        if layer.index in removed:
            read = next((t for t in inputs if t and not graph.tensors[t].is_constant), inputs[0] if inputs else "")
            place = maker.get(read)
            for t in layer.outputs:
                if place is not None and graph.tensors[t].dims != graph.tensors[read].dims:
                    maker[t] = place
                    layers[place] = replace(layers[place], outputs=(*layers[place].outputs, t))
                else:
                    source[t] = read
            continue
        maker.update(dict.fromkeys(layer.outputs, len(layers)))
        layers.append(replace(layer, index=len(layers), inputs=inputs))
    outputs = tuple(source.get(t, t) for t in graph.outputs)
    return replace(graph, layers=tuple(layers), outputs=outputs, nodes=())
