"""Prediction: what a given assignment costs, as a value and as a versioned document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple

from edgedla.costs.cost import Cost, total, weakest
from edgedla.io.documents import header
from edgedla.placement.prediction.breakdown import Breakdown
from edgedla.text.printable import Fields, json_text
from edgedla.text.shown import Report


@dataclass(frozen=True)
class LoadableMemory:
    """Predicted memory of one DLA loadable in bytes; what the DLA compiler really allocates is not published.

    Attributes:
        weight_bytes: in the pool `dlaGlobalDRAM`.
        intermediate_bytes: peak of the tensors between its layers, in `dlaLocalDRAM` and, up to `sram_bytes`, in
            `dlaManagedSRAM`.
        io_bytes: its input and output tensors in the DLA's own format.
        sram_bytes: size of the managed SRAM.
        spread: relative standard deviation of the first two.
        over: pools that the prediction exceeds, by TensorRT's names.
    """

    weight_bytes: int
    intermediate_bytes: int
    io_bytes: int
    sram_bytes: int
    basis: str
    spread: float
    over: Tuple[str, ...] = ()

    def to_dict(self) -> Dict[str, Any]:
        return {**vars(self), "spread": round(self.spread, 3), "over": list(self.over)}


@dataclass(frozen=True)
class PredictedLoadable(Fields):
    """One DLA loadable: its layers (indices in the graph), its time alone with submit and wait, its memory."""

    core: str
    layers: Tuple[int, ...]
    cost: Cost
    memory: LoadableMemory


@dataclass(frozen=True)
class PredictedStream:
    """One model on its devices.

    Attributes:
        devices: the assignment in words: "GPU", "DLA0", "tensorrt", "placement".
        latency: one frame with nothing else running; its energy is above the board's idle power.
        together: one frame while the other streams run; equals `latency` if the streams do not run together.
        beside_us: shortest and longest frame while the other streams run: figures do not tell whether processes take turns on the
            GPU by frames or by kernels (`together` is by frames). Twice the same where both say nearly the same.
        throughput_fps: frames per second with one frame in flight, while the other streams run.
        busy: share of the time that the stream keeps each device busy.
        gpu_visits: how many times per frame the stream goes to the GPU.
        layers: live layers by device.
        transitions: tensors that cross to another device, once per device, including the network's inputs and outputs.
        weight_bytes: weights of the engine on all devices.
        activation_bytes: peak of the engine's tensors.
        parts: where the time of `latency` goes.
        broken: limits of the platform that the assignment breaks.
        against_gpu: what it gains and costs against the GPU alone, in words; "" for several models, or with nothing on the DLA.
    """

    name: str
    devices: str
    latency: Cost
    together: Cost
    throughput_fps: float
    busy: Mapping[str, float]
    gpu_visits: int
    layers: Mapping[str, int]
    loadables: Tuple[PredictedLoadable, ...]
    transitions: int
    weight_bytes: int
    activation_bytes: int
    parts: Breakdown
    broken: Tuple[str, ...] = ()
    beside_us: Tuple[float, float] = (0.0, 0.0)
    against_gpu: str = ""

    @property
    def open_turns(self) -> bool:
        """Whether `beside_us` is a range."""
        return self.beside_us[0] < self.beside_us[1]

    @property
    def energy_mj(self) -> float:
        """Millijoules per frame above idle."""
        return self.latency.energy_mj

    def to_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "devices": self.devices,
            "latency": self.latency.to_dict(),
            "together": self.together.to_dict(),
            "beside_us": [round(us, 3) for us in self.beside_us],
            "throughput_fps": round(self.throughput_fps, 3),
            "throughput_spread": round(self.together.spread, 3),
            "busy": {d: round(share, 4) for d, share in self.busy.items()},
            "gpu_visits": self.gpu_visits,
            "layers": dict(self.layers),
            "loadables": [x.to_dict() for x in self.loadables],
            "transitions": self.transitions,
            "weight_bytes": self.weight_bytes,
            "activation_bytes": self.activation_bytes,
            "parts": self.parts.by_place(),
            "broken": list(self.broken),
            "against_gpu": self.against_gpu,
        }


@dataclass(frozen=True, repr=False)
class Prediction(Report):
    """Time, energy and memory of an assignment. Every number is predicted unless `basis` says measured.

    Attributes:
        platform: as Platform.to_dict().
        concurrent: whether the streams run at the same time, each with one frame in flight; else one after the other.
        costs: as CostModel.to_dict(): clocks, power mode, idle power.
        period: time between two sets of frames, one of each model, with many in flight; the busiest device sets it.
        module_memory_bytes: DRAM of the module, which CPU, GPU and DLA share.
        memory_spread: relative standard deviation of `memory_bytes`: an estimate, as no figures are published.
        notes: what limits the numbers, and which measurement would settle that.
    """

    platform: Mapping[str, Any]
    precision: str
    concurrent: bool
    costs: Mapping[str, Any]
    streams: Tuple[PredictedStream, ...]
    period: Cost
    module_memory_bytes: int
    memory_spread: float
    notes: Tuple[str, ...] = ()

    @property
    def latency(self) -> Cost:
        """One frame of every model, one after the other, with nothing else running."""
        return total(stream.latency for stream in self.streams)

    @property
    def latency_us(self) -> float:
        return self.latency.latency_us

    @property
    def energy_mj(self) -> float:
        """Millijoules above idle for one frame of every model."""
        return self.latency.energy_mj

    @property
    def throughput_fps(self) -> float:
        """Frames per second of all streams together, with one frame in flight; without `concurrent` the streams share the time."""
        if self.concurrent or len(self.streams) == 1:
            return sum(s.throughput_fps for s in self.streams)
        return len(self.streams) * 1e6 / self.latency_us if self.latency_us > 0 else 0.0

    @property
    def pipeline_fps(self) -> float:
        """Frames per second of each model with many frames in flight, as in `place --objective throughput`."""
        return 1e6 / self.period.latency_us if self.period.latency_us > 0 else 0.0

    @property
    def spread(self) -> float:
        """Relative standard deviation of the latency."""
        return self.latency.spread

    @property
    def basis(self) -> str:
        return weakest(s.together.basis for s in self.streams)

    @property
    def memory_bytes(self) -> int:
        """Weights and activations of all engines, without the memory of CUDA and TensorRT themselves."""
        return sum(s.weight_bytes + s.activation_bytes for s in self.streams)

    @property
    def exceeds_module(self) -> bool:
        """Whether all engines together exceed the module's memory, even with nothing else in it."""
        return self.memory_bytes > self.module_memory_bytes

    def to_dict(self) -> Dict[str, Any]:
        return {
            **header("edgedla.prediction"),
            "platform": dict(self.platform),
            "precision": self.precision,
            "concurrent": self.concurrent,
            "costs": dict(self.costs),
            "latency": self.latency.to_dict(),
            "throughput_fps": round(self.throughput_fps, 3),
            "period": self.period.to_dict(),
            "pipeline_fps": round(self.pipeline_fps, 3),
            "basis": self.basis,
            "memory_bytes": self.memory_bytes,
            "memory_basis": "guessed",
            "memory_spread": round(self.memory_spread, 3),
            "module_memory_bytes": self.module_memory_bytes,
            "streams": [s.to_dict() for s in self.streams],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The document as text: the same bytes for the same input."""
        return json_text(self.to_dict())
