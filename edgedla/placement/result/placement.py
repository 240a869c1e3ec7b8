"""Placement: where each layer of each model runs, its predicted costs, and what is proven about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from edgedla.costs.cost import Cost
from edgedla.io.documents import header
from edgedla.text.printable import as_json, json_text, rounded
from edgedla.text.shown import Report

#: Key -> why a layer is on its device.
WHY: Mapping[str, str] = {
    "forced": "no choice: no DLA verdict, or only one device may be used",
    "pinned": "asked for by a pin",
    "chosen": "cheaper here, or here it balances the engines or keeps a bound",
    "kept": "the other device would run it faster, but the transitions would cost more",
    "folded": "nothing of it is left at run time",
}


TIMELINE_KINDS = ("frame", "schedule", "period")


@dataclass(frozen=True)
class PlacedLayer:
    """One live layer. `costs`: by device; the first layer of a fused operator has the operator's cost."""

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
    """One loadable. `size`: number of layers after TensorRT's fusions."""

    id: int
    device: str
    layers: Tuple[int, ...]
    size: int
    cost: Cost


@dataclass(frozen=True)
class PlacedTransition:
    """A tensor that goes to another device. Network inputs come from the GPU side, and outputs go there."""

    tensor: str
    source: str
    target: str
    size_bytes: int
    cost: Cost


@dataclass(frozen=True)
class DeviceCost:
    """A cost that belongs to no layer, loadable or transition, and the device whose time it takes."""

    device: str
    cost: Cost


@dataclass(frozen=True)
class PlacedModel:
    """One model. `latency`: of one frame that runs alone. `rate`: frames per period.

    Attributes:
        inputs: dims of each network input that the costs are for; {} in documents of 0.1.
        call: cost of calling the engine, once per frame; None in documents of 0.1, and for a model without layers.
        torn: additional cost of operators that are split between devices, by device.
    """

    name: str
    sha256: str
    rate: float
    layers: Tuple[PlacedLayer, ...]
    regions: Tuple[PlacedRegion, ...]
    transitions: Tuple[PlacedTransition, ...]
    latency: Cost
    inputs: Mapping[str, Tuple[int, ...]] = field(default_factory=dict)
    call: Optional[DeviceCost] = None
    torn: Tuple[DeviceCost, ...] = ()

    @property
    def running(self) -> Tuple[PlacedLayer, ...]:
        """The layers that remain at run time; folded layers are on no device."""
        return tuple(layer for layer in self.layers if layer.why != "folded")


@dataclass(frozen=True)
class Figures:
    """Predictions for one assignment of all models.

    Attributes:
        latency: one frame of every model, one after the other.
        period: time between two sets of frames with many in flight: the busiest device's, with slowdown.
        energy: above idle, one frame of every model.
        makespan_us: one frame of every model, side by side; None for one model, or for an illegal assignment.
        loads: work per period by device, with slowdown.
        regions: loadables by core.
        busy_gpu_us: of the GPU, one frame of every model, without slowdown; None in documents of earlier releases.
    """

    latency: Cost
    period: Cost
    energy: Cost
    makespan_us: Optional[float]
    loads: Mapping[str, Cost]
    regions: Mapping[str, int]
    busy_gpu_us: Optional[float] = None

    @property
    def throughput_fps(self) -> float:
        """Sets of frames per second."""
        return 1e6 / self.period.latency_us if self.period.latency_us > 0 else 0.0


@dataclass(frozen=True)
class Baseline:
    """A placement without a search. `broken`: limits that it breaks; () for a legal one."""

    name: str
    title: str
    figures: Figures
    broken: Tuple[str, ...]


@dataclass(frozen=True)
class TimelineBar:
    """A stretch of work on one device. `frame`: 0 for the newest frame; frame k entered k periods earlier."""

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
    """What the solver proves. `bound`: lower bound of every legal placement; gap = (value - bound) / value.

    Attributes:
        one_core_per_model: whether `bound` holds only for placements in which no model uses both cores.
    """

    solver: str
    value: float
    bound: float
    gap: float
    optimal: bool
    timed_out: bool
    one_core_per_model: bool = False


@dataclass(frozen=True, repr=False)
class Placement(Report):
    """The result of `place`, as a versioned document.

    Attributes:
        platform: as Platform.to_dict().
        objective: "latency", "throughput", "energy", "gpu-time" or "makespan".
        latency_bound_us: maximum latency of a frame, one for all models or one per model; None: no bound.
        devices: the devices that the placement was allowed to use.
        limits: as the fields of Limits.
        use_unknown: whether layers with an unknown verdict were allowed on the DLA.
        figures: predictions for the placement.
        frame_latency_us: for throughput, the latency of a frame of each model through the pipeline, or with its waits if one
            frame is in flight.
        frames_per_second: of each model, for the energy or the GPU's time at given frame rates; else ().
        in_flight, one_process: as in PlacementRequest.
        against_gpu: what one model gains and costs against the GPU alone, in words; "" for several, or with nothing on the DLA.
        solve_time_s, rounds: of the solver. They differ from run to run and are not in the document.
    """

    platform: Mapping[str, Any]
    precision: str
    power_mode: str
    rules_version: str
    costs: Mapping[str, Any]
    objective: str
    latency_bound_us: Union[None, float, Tuple[float, ...]]
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
    frames_per_second: Tuple[float, ...] = ()
    in_flight: str = "many"
    one_process: bool = False
    against_gpu: str = ""
    solve_time_s: float = field(default=0.0, compare=False)
    rounds: int = field(default=0, compare=False)

    @property
    def latency_us(self) -> float:
        """Microseconds for one frame of every model, predicted."""
        return self.figures.latency.latency_us

    def to_dict(self) -> Dict[str, Any]:
        """The document, without what differs from run to run. Times in microseconds to 3 decimals, energies in millijoules to 6."""
        bound = self.latency_bound_us
        return {
            **header("edgedla.placement"),
            "rules_version": self.rules_version,
            "platform": dict(self.platform),
            "precision": self.precision,
            "power_mode": self.power_mode,
            "costs": dict(self.costs),
            "objective": self.objective,
            "latency_bound_us": list(bound) if isinstance(bound, tuple) else bound,
            "frames_per_second": list(self.frames_per_second),
            "in_flight": self.in_flight,
            "one_process": self.one_process,
            "devices": list(self.devices),
            "limits": dict(self.limits),
            "use_unknown": self.use_unknown,
            "models": [_model(m) for m in self.models],
            "predicted": _figures(self.figures),
            "against_gpu": self.against_gpu,
            "frame_latency_us": [_us(t) for t in self.frame_latency_us],
            "baselines": [
                {"name": b.name, "title": b.title, "legal": not b.broken, "broken": list(b.broken), **_figures(b.figures)}
                for b in self.baselines
            ],
            "timeline": {
                "kind": self.timeline.kind,
                "length_us": _us(self.timeline.length_us),
                "bars": [
                    {**vars(b), "start_us": _us(b.start_us), "end_us": _us(b.end_us), "layers": list(b.layers)}
                    for b in self.timeline.bars
                ],
            },
            "proof": {
                "solver": self.proof.solver,
                "value": rounded(self.proof.value, 6),
                "bound": rounded(self.proof.bound, 6),
                "gap": rounded(self.proof.gap, 6),
                "optimal": self.proof.optimal,
                "timed_out": self.proof.timed_out,
                "one_core_per_model": self.proof.one_core_per_model,
            },
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The document as text: the same bytes for the same input."""
        return json_text(self.to_dict())


def _us(value: float) -> float:
    return round(value, 3) + 0.0


def _model(model: PlacedModel) -> Dict[str, Any]:
    return {
        "name": model.name,
        "sha256": model.sha256,
        "rate": model.rate,
        "inputs": {name: list(dims) for name, dims in model.inputs.items()},
        "latency": model.latency.to_dict(),
        "layers": [{**vars(x), "costs": {k: c.to_dict() for k, c in sorted(x.costs.items())}} for x in model.layers],
        "regions": as_json(model.regions),
        "transitions": [
            {"tensor": t.tensor, "from": t.source, "to": t.target, "size_bytes": t.size_bytes, "cost": t.cost.to_dict()}
            for t in model.transitions
        ],
        **({} if model.call is None else {"call": as_json(model.call)}),
        **({"torn": as_json(model.torn)} if model.torn else {}),
    }


def _figures(figures: Figures) -> Dict[str, Any]:
    return {
        "latency": figures.latency.to_dict(),
        "period": figures.period.to_dict(),
        # From the rounded period, so that a document stays the same when it is read and written again.
        "throughput_fps": _us(1e6 / _us(figures.period.latency_us)) if figures.period.latency_us >= 0.001 else 0.0,
        "energy": figures.energy.to_dict(),
        "makespan_us": None if figures.makespan_us is None else _us(figures.makespan_us),
        "loads": {d: c.to_dict() for d, c in figures.loads.items()},
        "regions": dict(figures.regions),
        **({} if figures.busy_gpu_us is None else {"busy_gpu_us": _us(figures.busy_gpu_us)}),
    }
