"""Placement: where each layer of each model runs, what that is predicted to cost, and what is proven of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.costs.cost import Cost

#: Raised when a field changes its meaning or goes away; new fields do not raise it.
VERSION = 1
DOCUMENT = "edgedla.placement"

#: Why a layer stands where it stands.
WHY: Mapping[str, str] = {
    "forced": "no choice: no DLA verdict, or only one device may be used",
    "pinned": "asked for by a pin",
    "chosen": "cheaper here, or here it balances the engines or keeps a bound",
    "kept": "the other device would run it faster, but the transitions would cost more",
    "folded": "nothing of it is left at run time",
}


@dataclass(frozen=True)
class PlacedLayer:
    """One live layer. `costs` by device; of a fused operator the first layer bears the operator's cost."""

    index: int
    name: str
    type: str
    device: str
    region: Optional[int]
    why: str
    reason: str
    costs: Mapping[str, Cost]


@dataclass(frozen=True)
class PlacedRegion:
    """One loadable; `size` counts its layers as TensorRT does after its fusions."""

    id: int
    device: str
    layers: Tuple[int, ...]
    size: int
    cost: Cost


@dataclass(frozen=True)
class PlacedTransition:
    """A tensor handed over; network inputs come from the GPU side and outputs go there."""

    tensor: str
    source: str
    target: str
    size_bytes: int
    cost: Cost


@dataclass(frozen=True)
class PlacedModel:
    """One model. `latency` is that of one frame alone; `rate` its frames per period.

    `inputs` holds the dims of each network input that the costs are for; {} in documents that do not say.
    """

    name: str
    sha256: str
    rate: float
    layers: Tuple[PlacedLayer, ...]
    regions: Tuple[PlacedRegion, ...]
    transitions: Tuple[PlacedTransition, ...]
    latency: Cost
    inputs: Mapping[str, Tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """Predictions for one assignment of all models.

    Attributes:
        latency: one frame of every model, one after the other.
        period: time between two sets of frames with many in flight: the busiest engine, slowdown counted.
        energy: above idle, one frame of every model.
        makespan_us: one frame of every model, side by side; None where there is one model, or the assignment is illegal.
        loads: work per period by device, slowdown counted.
        regions: loadables by core.
    """

    latency: Cost
    period: Cost
    energy: Cost
    makespan_us: Optional[float]
    loads: Mapping[str, Cost]
    regions: Mapping[str, int]

    @property
    def throughput_fps(self) -> float:
        """Sets of frames a second."""
        return 1e6 / self.period.latency_us if self.period.latency_us > 0 else 0.0


@dataclass(frozen=True)
class Baseline:
    """What one gets without a placer. `broken` says which limits it does not keep; () for a legal one."""

    name: str
    title: str
    figures: Figures
    broken: Tuple[str, ...]


@dataclass(frozen=True)
class TimelineBar:
    """A stretch of work on one device. `frame` 0 is the newest frame; k entered k periods earlier."""

    device: str
    model: int
    segment: int
    start_us: float
    end_us: float
    frame: int
    layers: Tuple[int, ...]


@dataclass(frozen=True)
class Timeline:
    """`kind`: "frame" (one frame, models in turn), "schedule" (side by side) or "period" (one period of a stream)."""

    kind: str
    length_us: float
    bars: Tuple[TimelineBar, ...]


@dataclass(frozen=True)
class Proof:
    """What the solver shows: no legal placement is below `bound`; gap = (value - bound) / value."""

    solver: str
    value: float
    bound: float
    gap: float
    optimal: bool
    timed_out: bool


@dataclass(frozen=True)
class Placement:
    """The result of `place`, as a versioned document.

    Attributes:
        platform: as Platform.to_dict().
        objective: "latency", "throughput", "energy" or "makespan".
        latency_bound_us: bound on every model's frame; None without one.
        devices: devices that might be used.
        limits: as the fields of Limits.
        use_unknown: layers whose support no source states might go to the DLA.
        figures: predictions for the placement.
        frame_latency_us: for throughput, how long a frame of each model is on its way through the pipeline.
        solve_time_s, rounds: of the solver; they differ from run to run and are no part of the document.
    """

    platform: Mapping[str, Any]
    precision: str
    power_mode: str
    rules_version: str
    costs: Mapping[str, Any]
    objective: str
    latency_bound_us: Optional[float]
    devices: Tuple[str, ...]
    limits: Mapping[str, Optional[int]]
    use_unknown: bool
    models: Tuple[PlacedModel, ...]
    figures: Figures
    frame_latency_us: Tuple[float, ...]
    baselines: Tuple[Baseline, ...]
    timeline: Timeline
    proof: Proof
    notes: Tuple[str, ...] = ()
    solve_time_s: float = field(default=0.0, compare=False)
    rounds: int = field(default=0, compare=False)

    def to_dict(self) -> Dict[str, Any]:
        """The document, without what differs from run to run."""
        from edgedla.placement.result.document import to_dict

        return to_dict(self)

    def to_json(self) -> str:
        """The document as text: the same bytes for the same input."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
