"""PlacementRequest: everything that `place` can be asked, in one value that the command and Python share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Sequence, Tuple, Union

from edgedla.costs.profile import Profile
from edgedla.errors import UsageError
from edgedla.placement.problem.goal import GAP
from edgedla.placement.problem.problem import Limits
from edgedla.vocabulary import OBJECTIVES, PRECISIONS, one_of

SOLVERS = ("auto", "highs", "python")


@dataclass(frozen=True)
class PlacementRequest:
    """What is to be placed best, on what, and within which bounds.

    A single string for `devices` or `pins` is taken as the command takes it: parts separated by commas.

    Attributes:
        target, jetpack, trt: the platform, as `platform_for` takes it.
        objective: "latency" of one frame (several models: one after the other); "throughput" of a stream with many
            frames in flight; "energy" above idle of one frame; "makespan" of one frame of every model side by side.
        devices: of "GPU", "DLA0", "DLA1". Default: GPU and DLA0 for latency and energy, because one TensorRT engine
            uses one core; all of the module's for throughput and makespan.
        pins: as trtexec's --layerDeviceTypes, for example "conv1:DLA,*:GPU".
        limits: default: TensorRT's for this release.
        latency_bound_us: no model's frame, alone, takes longer.
        rates: for throughput, frames of each model per period; 1 each by default.
        profile: measured times that replace predictions: a profile that edgedla wrote, a file of trtexec's
            --exportProfile, or a Profile.
        layer_info: for trtexec's, the file of --exportLayerInfo: it tells which ForeignNodes run on the DLA.
        use_unknown: layers whose support no source states may go to the DLA.
        time_limit_s: from reading the models to the answer; after it the best found is returned with its bound.
        solver: "auto", "highs" or "python".
        clocks: in MHz by "dla", "gpu", "emc", over those of the power mode.

    Raises:
        UsageError: a value that is not allowed.
    """

    target: str
    jetpack: Optional[str] = None
    trt: Optional[str] = None
    precision: str = "fp16"
    objective: str = "latency"
    devices: Union[None, str, Sequence[str]] = None
    pins: Union[str, Sequence[str]] = ()
    limits: Optional[Limits] = None
    latency_bound_us: Optional[float] = None
    rates: Optional[Sequence[float]] = None
    power_mode: Optional[str] = None
    profile: Union[None, str, Path, Profile] = None
    layer_info: Union[None, str, Path] = None
    sparsity: bool = False
    use_unknown: bool = False
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    time_limit_s: float = 10.0
    solver: str = "auto"
    gap: float = GAP
    clocks: Optional[Mapping[str, float]] = None

    def __post_init__(self) -> None:
        def normal(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        normal("objective", one_of("objective", self.objective, OBJECTIVES))
        normal("precision", one_of("precision", self.precision, PRECISIONS))
        normal("devices", None if self.devices is None else _parts(self.devices))
        normal("pins", (self.pins,) if isinstance(self.pins, str) else tuple(self.pins))
        if self.solver not in SOLVERS:
            raise UsageError(f"unknown solver {self.solver!r}", where="solver", allowed=", ".join(SOLVERS))
        bound = self.latency_bound_us
        if bound is not None and not bound > 0:
            raise UsageError(f"a latency bound of {bound:g} us", where="latency bound", allowed="a number > 0")
        if not self.time_limit_s >= 0:
            raise UsageError(f"a time limit of {self.time_limit_s:g} s", where="time limit", allowed="a number >= 0")
        for n, rate in enumerate(self.rates or (), 1):
            if not 0 < rate < float("inf"):
                raise UsageError(f"rate {n} is {rate:g}", where="rates", allowed="a number > 0 for each model")


def _parts(devices: Union[str, Sequence[str]]) -> Tuple[str, ...]:
    names = devices.split(",") if isinstance(devices, str) else devices
    return tuple(name.strip() for name in names if name.strip())
