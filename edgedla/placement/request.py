"""PlacementRequest: all options of `place` in one value, for the command line and Python."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import require_field_types
from edgedla.costs.profile import Profile
from edgedla.errors import UsageError
from edgedla.placement.problem.problem import Limits
from edgedla.vocabulary import IN_FLIGHT, OBJECTIVES, PRECISIONS, one_of


@dataclass(frozen=True)
class PlacementRequest:
    """What to optimise, on which platform and devices, and within which bounds.

    A single string for `devices` or `pins` is split at its commas, as on the command line.

    Attributes:
        target, jetpack, trt: the platform, as for `platform_for`. precision: by default as in `edgedla check`.
        objective: "latency" of one frame (several models: one after the other); "throughput" of a stream with many
            frames in flight; "energy" above idle of one frame; "gpu-time", the GPU's time for one frame, which the DLA
            takes over; "makespan" of one frame of every model side by side.
        devices: of "GPU", "DLA0", "DLA1". Default: GPU and DLA0 for latency, energy and gpu-time, because one TensorRT
            engine uses one core; all of the module's for throughput and makespan.
        pins: as trtexec's --layerDeviceTypes, for example "conv1:DLA,*:GPU".
        limits: default: TensorRT's for this release.
        latency_bound_us: maximum latency of a frame that runs alone; one for all models or one per model.
        rates: for throughput, frames of each model per period; 1 each by default.
        frames_per_second: for energy and gpu-time, of each model. Minimises the power, or the GPU's time, at these rates; no
            device may fall behind.
        in_flight: for throughput, "many" frames of each model (a pipeline: the busiest device sets the period), or
            "one" (one execution context per model: a frame queues for the GPU each time that it needs it).
        one_process: with one frame in flight, all models run in one process, and their kernels take turns on the GPU. Else
            each model has its own process, and whole frames take turns, on Xavier kernels.
        profile: measured times that replace predictions: a profile that edgedla wrote, a file of trtexec's
            --exportProfile, or a Profile.
        layer_info: for a profile of trtexec, its --exportLayerInfo file, which says which ForeignNodes run on the DLA.
        use_unknown: allow layers with an unknown verdict on the DLA.
        gap: the search ends within this share of the optimum; by default 0.001 for throughput, 0.01 for a makespan, else 0.0001.
        time_limit_s: seconds from reading the models to the answer. At its end the best placement found is returned with its bound.
        clocks: in MHz by "dla", "gpu", "emc"; they replace the power mode's.
        clocks_locked: by `sudo jetson_clocks`; None: as far as a power mode or clocks are given. It matters for Orin NX and Nano.

    Raises:
        UsageError: a value that is not allowed.
    """

    target: Optional[str] = None
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    precision: Optional[str] = None
    objective: str = "latency"
    devices: Union[None, str, Sequence[str]] = None
    pins: Union[str, Sequence[str]] = ()
    limits: Optional[Limits] = None
    latency_bound_us: Union[None, float, Sequence[float]] = None
    rates: Optional[Sequence[float]] = None
    power_mode: Optional[str] = None
    profile: Union[None, str, Path, Profile] = None
    layer_info: Union[None, str, Path] = None
    sparsity: bool = False
    use_unknown: bool = False
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    time_limit_s: float = 10.0
    gap: Optional[float] = None
    clocks: Optional[Mapping[str, float]] = None
    frames_per_second: Optional[Sequence[float]] = None
    in_flight: str = "many"
    one_process: bool = False
    clocks_locked: Optional[bool] = None

    def __post_init__(self) -> None:
        require_field_types(self)

        def normal(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        normal("objective", one_of("objective", self.objective, OBJECTIVES))
        normal("precision", None if self.precision is None else one_of("precision", self.precision, PRECISIONS))
        normal("devices", None if self.devices is None else _parts(self.devices))
        normal("pins", (self.pins,) if isinstance(self.pins, str) else tuple(self.pins))
        normal("latency_bound_us", _bounds(self.latency_bound_us))
        fps = self.frames_per_second
        normal("frames_per_second", None if fps is None else tuple(float(f) for f in fps))
        self._check_pace()
        if not self.time_limit_s >= 0:
            raise UsageError(f"a time limit of {self.time_limit_s} s", where="time_limit_s", allowed="a number >= 0")
        if self.gap is not None and not 0 <= self.gap < 1:
            raise UsageError(f"a gap of {self.gap:g}", where="gap", allowed="0 to below 1, a share of the value")
        for n, rate in enumerate(self.rates or (), 1):
            if not 0 < rate < float("inf"):
                raise UsageError(f"rate {n} is {rate:g}", where="rates", allowed="a number > 0 for each model")

    def _check_pace(self) -> None:
        """Raises UsageError if frame rates or frames in flight are invalid, or do not go with the objective."""
        for n, fps in enumerate(self.frames_per_second or (), 1):
            if not 0 < fps < float("inf"):
                allowed = "a number > 0 for each model"
                raise UsageError(f"{fps:g} frames/s of model {n}", where="frames_per_second", allowed=allowed)
        if self.frames_per_second is not None and self.objective not in ("energy", "gpu-time"):
            raise UsageError(
                f"frame rates do not go with the objective {self.objective}",
                where="frames_per_second",
                allowed="the objective energy or gpu-time; with the objective throughput, rates",
            )
        if self.in_flight not in IN_FLIGHT:
            raise UsageError(f"{self.in_flight!r} frames in flight", where="in_flight", allowed=", ".join(IN_FLIGHT))
        if self.in_flight == "one" and self.objective != "throughput":
            raise UsageError(
                f"one frame in flight does not go with the objective {self.objective}",
                where="in_flight",
                allowed="the objective throughput",
            )

    def check_objectives(self, *objectives: str) -> None:
        """Raises UsageError for what a search with these objectives would ignore."""
        if self.rates is not None and "throughput" not in objectives:
            raise UsageError(
                f"the objective {objectives[0]} counts one frame of each model",
                where="rates",
                allowed="with the objective throughput, or a front of latency,throughput",
            )
        if self.one_process and self.in_flight != "one":
            raise UsageError(
                "it changes nothing with many frames in flight",
                where="one_process",
                allowed="with the objective throughput and one frame in flight, or in a prediction (--evaluate)",
            )

    def check_models(self, count: int) -> None:
        """Raises UsageError if the number of bounds or frame rates is not the number of models."""
        bound = self.latency_bound_us
        for where, what, given in (
            ("latency_bound_us", "latency bound", bound),
            ("frames_per_second", "frame rate", self.frames_per_second),
        ):
            if isinstance(given, tuple) and len(given) != count:
                text = f"{len(given)} {what}{'s' * (len(given) > 1)} for {count} model{'s' * (count > 1)}"
                raise UsageError(text, where=where)


def _bounds(bound: Union[None, float, Sequence[float]]) -> Union[None, float, Tuple[float, ...]]:
    """A single bound unchanged, several as a tuple.

    Raises:
        UsageError: a bound that is not above 0, or infinite.
    """
    each = () if bound is None else (bound,) if isinstance(bound, (int, float)) else tuple(bound)
    for us in each:
        if not 0 < us < float("inf"):
            raise UsageError(f"a latency bound of {us:g} us", where="latency_bound_us", allowed="a number > 0")
    return bound if bound is None or isinstance(bound, (int, float)) else tuple(float(us) for us in bound)


def _parts(devices: Union[str, Sequence[str]]) -> Tuple[str, ...]:
    names = devices.split(",") if isinstance(devices, str) else devices
    return tuple(name.strip() for name in names if name.strip())
