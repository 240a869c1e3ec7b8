"""Chooses the sites that pay by predicted cost: starts with all of them, then tries to do without each bundle.

In a squeeze-and-excite block no rewrite pays by itself: its layer moves, but the cut in the network stays. A search that
adds sites one by one would find nothing. So this one starts with all sites and removes those that do not lower the
objective: all sites of a rewrite, then those of a loadable, of a block, and single sites, as far as the trials last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

from edgedla.arguments import Progress
from edgedla.fixes.apply import Applied, Key, apply_rewrites
from edgedla.fixes.judge import Figures, Judge, leaves_dla, value_of
from edgedla.fixes.network.model_file import outline, remove_unused
from edgedla.fixes.network.network import Goal, Network
from edgedla.fixes.site import Rewrite

#: Each trial imports and checks the network again, so large networks get fewer. Networks of up to LAYERS_OF_TEN / 10 layers get
#: at least ten; for larger ones ten would take longer than the proofs.
LAYERS_TRIED, LAYERS_OF_TEN = 9_000, 16_000
FEWEST_TRIALS, MOST_TRIALS = 4, 120
#: A gain below this share of the value is rounding of the cost model.
NEGLIGIBLE = 1e-4
#: Sites with at most this many nodes between them belong to one block.
BLOCK_NODES = 5
#: After this many single sites in a row without a gain, the search keeps all remaining sites.
MOST_IN_VAIN = 8
#: Minimum gain for preferring another rewrite of the same place to the first one.
SWAP_GAIN = 0.02


@dataclass(frozen=True)
class Choice:
    """The result of the search.

    Attributes:
        dropped: sites that are not rewritten. before, after: predicted figures. bundles: what leaving each out would cost.
    """

    dropped: FrozenSet[Key]
    before: Figures
    after: Figures
    bundles: Tuple[Bundle, ...]
    trials: int


@dataclass(frozen=True)
class Bundle:
    """Sites that were evaluated together.

    Attributes:
        title: what they have in common. sites: their keys. kept: whether they are rewritten.
        with_it, without: the objective's value in both cases.
    """

    title: str
    sites: Tuple[Key, ...]
    kept: bool
    with_it: float
    without: float

    def to_dict(self) -> Dict[str, Any]:
        return {
            "title": self.title,
            "sites": [list(s) for s in self.sites],
            "kept": self.kept,
            "with": _number(self.with_it),
            "without": _number(self.without),
        }


def _number(value: float) -> Any:
    return None if value == float("inf") else round(value, 3)


def _most_trials(layers: int) -> int:
    return max(FEWEST_TRIALS, min(10, LAYERS_OF_TEN // layers), min(MOST_TRIALS, LAYERS_TRIED // layers))


class Chooser:
    """Searches over the sites of one folded model; the model stays as it is.

    Args:
        enough: (figures) -> whether the search can stop there; what it would find later is only better.
        progress: called after each trial; most searches end before the number of trials that it names.
    """

    def __init__(
        self,
        model: Any,
        goal: Goal,
        rewrites: Sequence[Rewrite],
        judge: Judge,
        objective: str,
        enough: Callable[[Figures], bool] = lambda after: False,
        progress: Optional[Progress] = None,
    ) -> None:
        self.model = model
        self._progress = progress
        self._enough = enough
        self._before = Figures()
        self.goal, self.rewrites, self.judge, self.objective = goal, tuple(rewrites), judge, objective
        self.sites: Tuple[Applied, ...] = ()
        self._most = MOST_TRIALS
        self._seen: Dict[FrozenSet[Key], Tuple[Figures, Tuple[Applied, ...]]] = {}
        self._loadables: Dict[FrozenSet[Key], Dict[Key, Optional[int]]] = {}

    @property
    def with_all(self) -> Tuple[Figures, Tuple[Applied, ...]]:
        """The network with every site rewritten, whether it pays or not, and the sites."""
        return self._trial(frozenset())

    def choose(self) -> Choice:
        after, sites = self._trial(frozenset())
        if self._enough(after):
            return Choice(frozenset(), after, after, (), len(self._seen))
        before = self._before = self.judge.figures(outline(self.model))
        self._most = _most_trials(max(before.layers, after.layers, 1))
        dropped: FrozenSet[Key] = frozenset()
        bundles: List[Bundle] = []
        for group in (self._by_rewrite, self._by_loadable, self._by_block, self._one_by_one):
            in_vain = 0
            for title, keys in group(dropped):
                if self._enough(self._trial(dropped)[0]):
                    break
                keys = keys - dropped
                if not keys or len(self._seen) >= self._most or (group == self._one_by_one and in_vain >= MOST_IN_VAIN):
                    continue
                kept_with, kept_sites = self._trial(dropped)
                without, fewer_sites = self._trial(dropped | keys)
                better = self._rank(without, len(fewer_sites)) < self._rank(kept_with, len(kept_sites))
                if better and self._swaps(keys, fewer_sites):
                    # Rewrites of one place are in order of exactness: a later one has to pay.
                    better = self._value(without) < self._value(kept_with) * (1.0 - SWAP_GAIN)
                bundles.append(Bundle(title, tuple(sorted(keys)), not better, self._value(kept_with), self._value(without)))
                in_vain = 0 if better else in_vain + 1
                if better:
                    dropped = dropped | keys
        after, sites = self._trial(dropped)
        if sites and not self._rank(after, len(sites)) < self._rank(before, 0):
            dropped = self._added(self._all_dropped(dropped), before, bundles)
            after, sites = self._trial(dropped)
        elif dropped:
            dropped = self._back(dropped, bundles)
            after, sites = self._trial(dropped)
        self.sites = sites
        return Choice(dropped, before, after, tuple(bundles), len(self._seen))

    @staticmethod
    def _swaps(keys: FrozenSet[Key], sites: Sequence[Applied]) -> bool:
        """Whether another rewrite takes the place of one of these sites."""
        outputs = {output for _, output in keys}
        return any(site.output in outputs for site in sites)

    def _added(self, dropped: FrozenSet[Key], before: Figures, bundles: List[Bundle]) -> FrozenSet[Key]:
        """If all sites together are worse than none: starts from none and adds blocks that pay, the last ones first.

        TensorRT's cap can make a network faster by leaving slow loadables on the GPU; a rewrite can bring these back.
        """
        best, count = before, 0
        for title, keys in [*self._by_block(frozenset()), *self._by_rewrite(frozenset())][::-1]:
            if self._enough(best):
                break
            if not keys & dropped:
                continue
            figures, sites = self._trial(dropped - keys)
            better = self._rank(figures, len(sites)) < self._rank(best, count)
            bundles.append(Bundle(title, tuple(sorted(keys)), better, self._value(figures), self._value(best)))
            if better:
                dropped, best, count = dropped - keys, figures, len(sites)
        return dropped

    def _back(self, dropped: FrozenSet[Key], bundles: List[Bundle]) -> FrozenSet[Key]:
        """Tries each dropped rewrite once more: without sites that were dropped after it, it may pay."""
        for title, keys in self._by_rewrite(frozenset()):
            figures, sites = self._trial(dropped)
            if self._enough(figures) or len(self._seen) >= self._most:
                break
            if not keys & dropped:
                continue
            more, more_sites = self._trial(dropped - keys)
            better = self._rank(more, len(more_sites)) < self._rank(figures, len(sites))
            if better:
                bundles.append(Bundle(title, tuple(sorted(keys)), True, self._value(more), self._value(figures)))
                dropped = dropped - keys
        return dropped

    def _all_dropped(self, dropped: FrozenSet[Key]) -> FrozenSet[Key]:
        """Drops all sites: without its first rewrite a place may get another one, which is dropped too."""
        while True:
            _, sites = self._trial(dropped)
            if not sites:
                return dropped
            dropped = dropped | {s.key for s in sites}

    def _trial(self, dropped: FrozenSet[Key]) -> Tuple[Figures, Tuple[Applied, ...]]:
        if dropped not in self._seen:
            model, applied = self._rewritten(dropped)
            self._seen[dropped] = (self.judge.figures(outline(model)), applied)
            self._loadables[dropped] = self._loadables_of(applied)
            if self._progress is not None:
                self._progress("choosing rewrites", len(self._seen), self._most)
        return self._seen[dropped]

    def _loadables_of(self, applied: Sequence[Applied]) -> Dict[Key, Optional[int]]:
        """Site -> DLA candidate of its new layers in the network that the judge saw last; {} if the parser refuses it."""
        if self.judge.last is None:
            return {}
        _, report = self.judge.last
        region_of = {n: layer.region for layer in report.layers for n in layer.onnx_nodes if layer.region is not None}
        return {s.key: next((region_of[n] for n in s.after if n in region_of), None) for s in applied}

    def _rewritten(self, dropped: FrozenSet[Key]) -> Tuple[Any, Tuple[Applied, ...]]:
        # A copy shares the weights with the model; the search never reads them.
        model = self.model.clone()
        changes = apply_rewrites(Network(model, self.goal), self.rewrites, lambda key: key not in dropped)
        remove_unused(model)
        return model, changes.applied

    def _value(self, figures: Figures) -> float:
        return value_of(figures, self.objective)

    def _rank(self, figures: Figures, sites: int) -> Tuple[float, ...]:
        """Sort key of a network: smaller is better. Among equals the network with fewer changes wins.

        A strict or standalone build first has to pass, or to have fewer layers in its way; in a hybrid one no work may leave the DLA.
        """
        value = self._value(figures)
        coarse = value if value == float("inf") else round(value / (1.0 + NEGLIGIBLE), 1)
        ways: Tuple[float, ...] = (leaves_dla(self._before, figures),)
        if self.judge.purpose != "hybrid":
            ways = (0 if figures.passes else 1, len(figures.offenders))
        return (1.0 if figures.refused else 0.0, *ways, coarse, float(figures.candidates), float(figures.transitions), sites)

    def _by_rewrite(self, dropped: FrozenSet[Key]) -> List[Tuple[str, FrozenSet[Key]]]:
        kinds: Dict[str, List[Key]] = {}
        for site in self._trial(dropped)[1]:
            kinds.setdefault(site.rewrite, []).append(site.key)
        return [(f"every {kind}", frozenset(keys)) for kind, keys in kinds.items()]

    def _by_loadable(self, dropped: FrozenSet[Key]) -> List[Tuple[str, FrozenSet[Key]]]:
        """Sites by the DLA candidate of their new layers."""
        self._trial(dropped)
        groups: Dict[str, List[Key]] = {}
        for key, region in self._loadables[dropped].items():
            title = "in no loadable" if region is None else f"in loadable {region}"
            groups.setdefault(title, []).append(key)
        return [(title, frozenset(keys)) for title, keys in groups.items()] if len(groups) > 1 else []

    def _by_block(self, dropped: FrozenSet[Key]) -> List[Tuple[str, FrozenSet[Key]]]:
        """Groups of sites with few nodes between them: the average and the gate of one squeeze-and-excite block."""
        sites = {site.output: site for site in self._trial(dropped)[1]}
        block = {output: output for output in sites}
        readers = {v.name: [n for use in v.uses() for n in use.node.outputs] for n in self.model.graph for v in n.outputs}
        for start in sites:
            nearby = {start}
            for _ in range(BLOCK_NODES):
                nearby |= {v.name for name in nearby for v in readers.get(name, ())}
            together = {block[output] for output in nearby if output in block}
            block = {output: start if first in together else first for output, first in block.items()}
        groups: Dict[str, List[Key]] = {}
        for output, first in block.items():
            groups.setdefault(first, []).append(sites[output].key)
        several = [(f"around {first}", frozenset(keys)) for first, keys in groups.items() if len(keys) > 1]
        return several if len(groups) > 1 else []

    def _one_by_one(self, dropped: FrozenSet[Key]) -> List[Tuple[str, FrozenSet[Key]]]:
        """Single sites, taking one of each rewrite in turn."""
        turns: Dict[str, int] = {}
        order: List[Tuple[int, int, Applied]] = []
        for place, site in enumerate(self._trial(dropped)[1]):
            turns[site.rewrite] = turns.get(site.rewrite, 0) + 1
            order.append((turns[site.rewrite], place, site))
        ordered = sorted(order, key=lambda entry: entry[:2])
        return [(f"{site.rewrite} at {site.output}", frozenset([site.key])) for _, _, site in ordered]
