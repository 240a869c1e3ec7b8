"""Where each layer ends and why, once regions and cap are known."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence, Set, Tuple

from edgedla.graph import LayerGraph
from edgedla.graph.open_sizes import open_sizes_text
from edgedla.regions.fusions import UnitGraph
from edgedla.regions.values import Cause, LayerPrediction, Placed, Region
from edgedla.rules.verdict import Effect, Support, Verdict
from edgedla.targets import Platform

#: The rule that refuses a layer whose dims are not known when the engine is built.
OPEN_SIZES_RULE = "GEN001"
#: (where a layer ends, why, why as a sentence, for knock-ons the layers that cause it).
Outcome = Tuple[Placed, Cause, str, Tuple[int, ...]]


class LayerOutcomes:
    """Works out where every layer ends, and why.

    Args:
        verdicts: one per layer, in order.
        failing: unit index -> message, for units that the second look removes.
        regions: all candidates, with `kept` set.
        limit: how many of them one DLA core takes. fallback: whether the GPU may run layers.
    """

    def __init__(
        self,
        graph: LayerGraph,
        verdicts: Sequence[Verdict],
        platform: Platform,
        units: UnitGraph,
        failing: Mapping[int, str],
        regions: Sequence[Region],
        limit: int,
        fallback: bool,
    ) -> None:
        self.graph = graph
        self.verdicts = verdicts
        self.platform = platform
        self.units = units
        self.failing = failing
        self.region_of: Dict[int, Region] = {i: r for r in regions for i in r.layers}
        self.erased = frozenset(units.erased)
        self.roots = [_root_cause(v, platform) for v in verdicts]
        if platform.has_dla:
            self._merge_open_sizes()
        if fallback and platform.has_dla and platform.release.strongly_typed:
            self._excuse_border_casts()
        self.dropped: Dict[int, Outcome] = {r.id: self._dropped(r, len(regions), limit) for r in regions if not r.kept}

    def all(self) -> Tuple[LayerPrediction, ...]:
        answers = self.platform.has_dla or self.platform.dla_unknown
        result = []
        for verdict in self.verdicts:
            region = self.region_of.get(verdict.index)
            placed, cause, reason, because_of = self._of(verdict, region)
            support = verdict.support if answers else Support.GPU
            result.append(
                LayerPrediction(verdict.index, support, placed, region.id if region else None, cause, reason, because_of)
            )
        return tuple(result)

    def _merge_open_sizes(self) -> None:
        """Reports open sizes of a network input once, at the first layer that they reach, not for every layer after it."""
        text = open_sizes_text(self.graph)
        if not text:
            return
        first: Optional[int] = None
        for verdict in self.verdicts:
            rejects = {f.rule for f in verdict.findings if f.effect is Effect.REJECT}
            if rejects != {OPEN_SIZES_RULE} or verdict.index in self.graph.unread:
                continue
            if first is None:
                first = verdict.index
                self.roots[first] = (Placed.GPU, Cause.RULE, text, ())
                continue
            reason = f"its sizes are open, as those of {self.graph.layers[first].name}"
            self.roots[verdict.index] = (Placed.GPU, Cause.OPEN_SIZES, reason, (first,))

    def _excuse_border_casts(self) -> None:
        """A Cast to or from FLOAT that the GPU or the network's ends have is no refusal of its own.

        Releases without strong types reformat there by themselves, and no layer shows it.
        """
        graph = self.graph
        for layer in graph.layers:
            if layer.type != "CAST" or self.roots[layer.index] is None:
                continue
            types = graph.tensors[layer.inputs[0]].dtype, graph.tensors[layer.outputs[0]].dtype
            enters = types == ("FLOAT", "HALF")
            others = graph.predecessors(layer.index) if enters else graph.successors(layer.index)
            end = "input" if enters else "output"
            if (enters or types == ("HALF", "FLOAT")) and all(self.roots[i] is not None for i in others):
                of = ", ".join(graph.layers[i].name for i in others[:3]) or f"the network's {end}"
                reason = f"turns types at the border of {of}, in FLOAT: work of the GPU in any build"
                self.roots[layer.index] = (Placed.GPU, Cause.TYPE_BORDER, reason, others)

    def _of(self, verdict: Verdict, region: Optional[Region]) -> Outcome:
        if region is not None:
            return _ON_DLA if region.kept else self.dropped[region.id]
        if verdict.index in self.erased:
            return _UNREAD if verdict.index in self.graph.unread else _ERASED
        root = self.roots[verdict.index]
        if root is not None:
            return root
        if verdict.validation and self.units.unit_of[verdict.index] in self.failing:
            finding = verdict.validation[0]
            cause = Cause.VALIDATION if finding.effect is Effect.REJECT else Cause.UNKNOWN
            return Placed.GPU, cause, finding.message, ()
        because_of = self._causing_layers(verdict.index)
        names = ", ".join(self.graph.layers[j].name for j in because_of[:3])
        unit = self.units.units[self.units.unit_of[verdict.index]]
        what = f"merged into one layer with {names}" if because_of[0] in unit.layers else f"merged into the reshape of {names}"
        return Placed.GPU, Cause.FUSED, f"{what}, which the GPU runs", because_of

    def _causing_layers(self, layer: int) -> Tuple[int, ...]:
        """The layers that keep `layer`'s unit on the GPU, or whose transform added the reshape that the layer is merged into."""
        unit = self.units.units[self.units.unit_of[layer]]
        others = tuple(j for j in unit.layers if j != layer and (self.roots[j] or self.verdicts[j].validation))
        return others or unit.reshape_of

    def _dropped(self, region: Region, candidates: int, limit: int) -> Outcome:
        """The outcome of all layers of a region that the cap dropped, caused by the layers that cut it off."""
        because_of: Set[int] = set()
        for cut in region.cuts:
            i = cut.layer
            fused = (
                i not in self.region_of
                and i not in self.erased
                and self.roots[i] is None
                and self.units.unit_of[i] not in self.failing
            )
            because_of.update(self._causing_layers(i) if fused else (i,))
        reason = (
            f"dropped: a core keeps the {limit} largest of {candidates} groups; "
            f"this group has {region.size} layer{'s' * (region.size != 1)}"
        )
        return Placed.GPU, Cause.SUBGRAPH_LIMIT, reason, tuple(sorted(because_of))


_ON_DLA: Outcome = (Placed.DLA, Cause.ON_DLA, "runs on the DLA", ())
_ERASED: Outcome = (Placed.FOLDED, Cause.FOLDED, "TensorRT merges it with the shuffles around it", ())

_UNREAD: Outcome = (Placed.FOLDED, Cause.FOLDED, "no output of the network depends on it, so TensorRT removes it", ())


def _root_cause(verdict: Verdict, platform: Platform) -> Optional[Outcome]:
    if not platform.has_dla:
        cause = Cause.UNKNOWN if platform.dla_unknown else Cause.NO_DLA
        return Placed.GPU, cause, platform.no_dla or "no DLA", ()
    if verdict.support is Support.DLA:
        return None
    refused = verdict.support is Support.GPU
    decisive = Effect.REJECT if refused else Effect.UNKNOWN
    message = next((f.message for f in verdict.findings if f.effect is decisive), "no rule says that the DLA runs it")
    return Placed.GPU, Cause.RULE if refused else Cause.UNKNOWN, message, ()
