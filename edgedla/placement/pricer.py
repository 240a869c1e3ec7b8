"""The predicted time of a network as it is and after sets of remedies: priced once, then only what a set changes."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Sequence, Tuple

from edgedla.costs.model import CostModel
from edgedla.graph import LayerGraph
from edgedla.placement.problem.baselines import as_tensorrt_places
from edgedla.placement.problem.evaluate import Evaluation, evaluate
from edgedla.placement.problem.inputs import problem_on
from edgedla.placement.problem.model import Model
from edgedla.placement.problem.problem import Problem
from edgedla.regions.ranking import changed
from edgedla.regions.ranking.remedies import effect_of, needs_of
from edgedla.rules.verdict import Verdict
from edgedla.targets import Platform


class Pricer:
    """Prices of one network on the GPU and the first DLA core, as TensorRT places it, by set of applied remedies.

    A set that only frees layers shares every cost with the network as it is; one that takes layers out shares them with every set
    that takes out the same. Each value is that of a new network with the set applied, to the last digit. Equal ones are priced once.

    Args:
        verdicts: of the unchanged network, one per live layer.
        costs: with a profile only the network as it is has measured times: price changes by `replace(costs, profile=None)`.

    Raises:
        UsageError, ModelError: sizes are open (`priced.require_sizes`).
    """

    def __init__(self, graph: LayerGraph, verdicts: Sequence[Verdict], platform: Platform, costs: CostModel) -> None:
        self.graph, self.verdicts, self.platform, self.costs = graph, tuple(verdicts), platform, costs
        self._needs = needs_of(verdicts)
        self._known: Dict[Tuple[FrozenSet[int], ...], float] = {}

    def latency_us(self, remedies: AbstractSet[str] = frozenset()) -> float:
        """Microseconds of one frame after these remedies (ids of rules/fixes.yaml)."""
        key = effect_of(self.verdicts, remedies, self._needs)
        if key not in self._known:
            self._known[key] = self.evaluation(remedies).latency(0).latency_us
        return self._known[key]

    def evaluation(self, remedies: AbstractSet[str] = frozenset()) -> Evaluation:
        """All costs of one frame after these remedies."""
        problem = self.problem(remedies)
        return evaluate(problem, as_tensorrt_places(problem))

    def problem(self, remedies: AbstractSet[str] = frozenset()) -> Problem:
        """The placement problem of the network after these remedies, where TensorRT itself chooses each core's layers."""
        graph, verdicts = changed(self.graph, self.verdicts, remedies, self._needs)
        models = (Model(graph, verdicts, {}, 1.0),)
        return problem_on(models, self.costs, self.platform, most_cores=1).by_default()
