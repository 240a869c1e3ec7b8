"""BenchRequest: every option of `bench` in one value, for the command and for Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Mapping, Optional, Sequence, Tuple, Union

from edgedla.arguments import require_field_types
from edgedla.errors import UsageError
from edgedla.runtime.measure.timing import BenchOptions


@dataclass(frozen=True)
class BenchRequest:
    """Which devices to measure an artifact on, for how long, and whether to time its layers too.

    Attributes:
        devices: "GPU", "DLA0", "DLA1", or "DEVICE=ARTIFACT" for a device with a separate artifact; () takes the
            artifact's devices. A single string is taken as the command takes it: parts separated by commas.
        options: warm-up, duration, iterations, percentiles, streams.
        profile: after the measurement, run again with TensorRT's profiler to time every layer.
        onnx: the model that the artifact was built from; the layers' times then become a profile by signature, for `place`.
        shapes, batch: sizes for `onnx`, if its dims are open.
        power_mode: nvpmodel's name of the power mode, if edgedla cannot read it; only with `onnx`.

    Raises:
        UsageError: an option without the one that it requires, or a profile of several devices.
    """

    devices: Union[str, Sequence[str]] = ()
    options: BenchOptions = field(default_factory=BenchOptions)
    profile: bool = False
    onnx: Union[None, str, Path] = None
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    batch: Optional[int] = None
    power_mode: Optional[str] = None

    def __post_init__(self) -> None:
        require_field_types(self)
        names = self.devices.split(",") if isinstance(self.devices, str) else self.devices
        object.__setattr__(self, "devices", tuple(name.strip() for name in names if name.strip()))
        needs_onnx = {"--shapes": self.shapes, "--batch": self.batch, "--power-mode": self.power_mode}
        if not self.profile:
            self._refuse_unused({"--onnx": self.onnx, **needs_onnx}, "--export-profile", "with --export-profile FILE")
        elif self.onnx is None:
            self._refuse_unused(needs_onnx, "--onnx", "with --onnx MODEL")

    @staticmethod
    def _refuse_unused(values: Mapping[str, object], about: str, allowed: str) -> None:
        for name, value in values.items():
            if value is not None:
                raise UsageError(f"only {about} uses it", where=name, allowed=allowed)

    @property
    def device_names(self) -> Tuple[str, ...]:
        return tuple(self.devices)
