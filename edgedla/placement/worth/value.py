"""Every way to run one network on one platform, with its predicted figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from edgedla.costs.cost import Cost
from edgedla.placement.prediction.breakdown import Breakdown

#: Names of ways, in the order of documents.
WAYS: Mapping[str, str] = {
    "gpu": "on the GPU alone",
    "tensorrt": "as TensorRT places it",
    "latency": "best for time",
    "throughput": "best for frames/s",
    "energy": "best for energy",
}

#: The objectives for which the best splits are found.
BEST_FOR = ("latency", "throughput", "energy")


class Spreads(NamedTuple):
    """Relative standard deviations of a way's ratios to the GPU alone. What both sides share cancels: the same GPU layers.

    `early` is that of time towards shorter ones: INT8 engines of several parts were longer than predicted, not shorter.
    """

    time: float = 0.0
    energy: float = 0.0
    gpu: float = 0.0
    frames: float = 0.0
    early: float = 0.0


#: Of the GPU alone: both sides are the same.
ALIKE = Spreads()


@dataclass(frozen=True)
class Way:
    """One way to run the network, with its predicted figures; with a profile they use measured times.

    Attributes:
        name: a key of WAYS. "tensorrt": one core, the rest on the GPU; "latency" and "energy" use one core too, "throughput" all
            engines of the module.
        precision: "fp16" or "int8".
        cost: of one frame that runs alone; energy is above idle.
        period: time between frames with many in flight.
        parts: gpu_us, dla_us and moving_us, whose sum is the latency.
        work: share of the MACs that run on the DLA, of the layers in a network without MACs.
        memory_bytes: weights and activations of the engine.
        spreads: of the ratios to the GPU alone.
        gap: share by which the optimum may be better than this way; 0: proven, or no search was needed.
    """

    name: str
    precision: str
    cost: Cost
    period: Cost
    parts: Breakdown
    work: float = 0.0
    memory_bytes: int = 0
    spreads: Spreads = ALIKE
    gap: float = 0.0

    @property
    def title(self) -> str:
        return WAYS[self.name]

    @property
    def fps(self) -> float:
        """Frames per second with many in flight."""
        return 1e6 / self.period.latency_us if self.period.latency_us > 0 else 0.0

    @property
    def proven(self) -> bool:
        """Whether it is the proven optimum under the cost model."""
        return self.name in BEST_FOR and self.gap == 0

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "precision": self.precision,
            "latency_us": round(self.cost.latency_us, 1),
            "throughput_fps": round(self.fps, 3),
            "energy_mj": round(self.cost.energy_mj, 3),
            "spread": round(self.cost.spread, 3),
            "energy_spread": round(self.cost.energy_spread, 3),
            "throughput_spread": round(self.period.spread, 3),
            "ratio_spreads": {name: round(value, 3) for name, value in self.spreads._asdict().items()},
            "basis": self.cost.basis,
            "gpu_us": round(self.parts.gpu_us, 1),
            "dla_us": round(self.parts.dla_us, 1),
            "moving_us": round(self.parts.moving_us, 1),
            "busy_gpu_us": round(self.parts.busy_gpu_us, 1),
            "share_work_dla": round(self.work, 6),
            "memory_bytes": self.memory_bytes,
            "proven": self.proven,
            "gap": round(self.gap, 4),
        }


class SlowLayer(NamedTuple):
    """A layer that TensorRT puts on the DLA, with its times there and on the GPU."""

    name: str
    dla_us: float
    gpu_us: float


class Baseline(NamedTuple):
    """The user's own model on the GPU alone, where the checked one is made from it: figures of one frame."""

    precision: str
    latency_us: float
    energy_mj: float


@dataclass(frozen=True)
class Ways:
    """All ways to run one network: the figures that decide whether the DLA is worth it.

    Attributes:
        precision: the one that the headline is of. Of another `ways` may hold the GPU and TensorRT's placement alone: its best
            splits, frames/s among them, are searched where it is asked for, and on Xavier.
        power_mode: the assumed nvpmodel mode.
        parts: the breakdown of the way "tensorrt" at the precision; None without a DLA.
        batch: of one frame.
        slow: layers that take a good part of that way's time and far less on the GPU; `pinned`: the way "tensorrt" with these on
            the GPU, None without any.
        baselines: by precision; () where the checked model is the user's own.
        idle_w: of the board, all engines waiting.
        energy_known: whether figures tell which engine takes more energy; not of Xavier.
        mode_text: of the mode, as `CostModel.mode_text`. budget_w: what it allows the board; None where nothing says.
        unknown: whether there is a layer of which no source says if the DLA takes it.
    """

    precision: str
    ways: Tuple[Way, ...]
    power_mode: Optional[str]
    notes: Tuple[str, ...]
    parts: Optional[Breakdown]
    batch: int = 1
    slow: Tuple[SlowLayer, ...] = ()
    pinned: Optional[Way] = None
    baselines: Tuple[Baseline, ...] = ()
    idle_w: float = 0.0
    energy_known: bool = True
    mode_text: str = ""
    budget_w: Optional[float] = None
    unknown: bool = False

    def way(self, name: str, precision: str = "") -> Optional[Way]:
        """One way, at the headline's precision or another; None if it is not known."""
        asked = precision or self.precision
        return next((w for w in self.ways if w.name == name and w.precision == asked), None)

    def baseline(self, precision: str = "") -> Optional[Baseline]:
        """The user's own model on the GPU alone; None where the GPU's way is just that."""
        asked = precision or self.precision
        return next((b for b in self.baselines if b.precision == asked), None)

    @property
    def precisions(self) -> Tuple[str, ...]:
        """The precisions with all ways, so that they have a headline; the first is that of the report."""
        return tuple(dict.fromkeys((self.precision, *(w.precision for w in self.ways if w.name == "throughput"))))
