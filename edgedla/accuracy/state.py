"""The working state of `quantize`: model, plan and held-out samples, and the score of each change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from edgedla.accuracy.channels.measure import ChannelGroup
from edgedla.accuracy.metrics import Metric
from edgedla.accuracy.reference import Reference
from edgedla.accuracy.scores.finite import require_finite, require_score
from edgedla.accuracy.simulation import Simulation
from edgedla.builder.plan.make_plan import make_plan
from edgedla.builder.plan.plan import BuildPlan, Calibration
from edgedla.builder.request import PlanOptions
from edgedla.graph import LayerGraph
from edgedla.quantization.samples import Samples
from edgedla.quantization.unify import dla_scales, equal_groups
from edgedla.regions import CheckReport
from edgedla.vocabulary import GPU

#: Smallest gain on held-out samples that counts as more than chance.
GAIN_DB = 0.05


@dataclass(frozen=True)
class Step:
    """One change that was tried. `kept`: the held-out error fell, so the change stays.

    Attributes:
        name: the change. detail: the change in numbers. sqnr_db: SQNR of the outputs on held-out samples with the
            change, simulated. before_db: the same without the change. extra_us: its predicted extra time.
    """

    name: str
    detail: str
    before_db: float
    sqnr_db: float
    kept: bool
    extra_us: float = 0.0


@dataclass
class State:
    """Mutable: `quantize` changes ranges, precisions and the model, and measures each change with `simulation()`.

    `reference` runs the original model. `judged` samples decide on steps; the result is measured on `holdout`, which
    may be the same samples. `revived`: groups of channels that `split-shared-scale` gave back, with their figures before it.
    """

    model: Any
    reference: Reference
    graph: LayerGraph
    report: CheckReport
    judged: Samples
    holdout: Samples
    absmax: Dict[str, float]
    source: str
    detail: str
    everywhere: bool = False
    precisions: Dict[str, str] = field(default_factory=dict)
    devices: Dict[str, str] = field(default_factory=dict)
    steps: List[Step] = field(default_factory=list)
    revived: Tuple[ChannelGroup, ...] = ()

    def plan(self, absmax: Optional[Mapping[str, float]] = None) -> BuildPlan:
        """The plan that a build would make of these ranges and precisions."""
        calibration = Calibration(self.source, dict(self.absmax if absmax is None else absmax), self.detail)
        typed = self.report.platform.release.strongly_typed
        options = PlanOptions(precisions={} if typed else dict(self.precisions), devices=dict(self.devices))
        plan = make_plan(self.graph, self.report, calibration=calibration, options=options)
        if not self.everywhere:
            return plan
        # The plan of a strongly typed release holds no scales (they are Q/DQ in the model), that of others those of the DLA alone.
        scales = dla_scales(self.graph, calibration.absmax, self.report.platform)
        plan = replace(plan, calibration=replace(calibration, absmax=scales.absmax))
        layers = (replace(x, device="DLA0", precision=self.precisions.get(x.name)) for x in plan.layers)
        return replace(plan, layers=tuple(layers))

    def simulation(self, absmax: Optional[Mapping[str, float]] = None, model: Any = None, parts: int = 1) -> Simulation:
        return Simulation(self.model if model is None else model, self.plan(absmax), self.reference, parts)

    def tied(self, tensors: Collection[str]) -> List[Tuple[str, ...]]:
        """Groups of these tensors that share one scale because DLA layers require it."""
        groups = equal_groups(self.graph, tensors, self.report.platform, self.needs_equal_scales())
        return [tuple(group) for group in groups]

    def needs_equal_scales(self) -> Callable[[int], bool]:
        """Layer index -> True if the plan runs the layer on the DLA in INT8."""
        int8 = [x.device != GPU and x.precision in (None, "int8") for x in self.plan().layers]
        return lambda index: int8[index]

    def on_dla(self) -> Tuple[str, ...]:
        """Names of the layers that the plan runs on the DLA."""
        return tuple(x.name for x in self.plan().layers if x.device != GPU)


def metric_values(simulation: Simulation, samples: Samples, metric: Metric) -> Tuple[List[Any], List[Any]]:
    """The metric's value of every sample: (FP32, simulated).

    Raises:
        DataError: an output or value of the network in FP32 is NaN or infinite. RunError: one of the simulated network is.
    """
    feeds: Sequence[Any] = samples.feeds
    exact: List[Any] = []
    simulated: List[Any] = []
    for i, (reference, feed) in enumerate(zip(simulation.reference_given(feeds), feeds)):
        label = samples.labels[i] if samples.labels is not None else None
        rounded = simulation.run_given(feed)
        for name, basis, outputs, values in (("FP32", "fp32", reference, exact), ("INT8", "simulated", rounded, simulated)):
            require_finite(outputs, name, basis, i, feed, simulation.first_fault if basis == "simulated" else None)
            values.append(metric.of_sample(outputs, label, reference))
            require_score(values[-1], metric.name, name, basis, i)
    return exact, simulated
