"""Module, Release and Platform: a verdict holds for a platform."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple


@dataclass(frozen=True)
class PowerMode:
    """One nvpmodel mode. Clocks are caps in MHz; None if no source states them.

    `dla_mhz` has one entry per core: in low modes the cores of one module can differ by a factor of five.
    """

    name: str
    dla_mhz: Tuple[Optional[float], ...]
    gpu_mhz: Optional[float] = None
    emc_mhz: Optional[float] = None
    sources: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Module:
    """A Jetson module.

    Attributes:
        id: edgedla's name, for example agx-orin-64gb.
        title: NVIDIA's name.
        chip: "xavier", "orin" or "thor".
        dla_version: 1 (Xavier), 2 (Orin), 0 (no DLA).
        dla_cores: number of DLA cores.
        sram_bytes: SRAM that one core can use (Orin), or that all engines share (Xavier).
        sram_shared: True where the SRAM is shared by several engines.
        dram_gb_s: peak DRAM bandwidth.
        memory_bytes: DRAM that CPU, GPU and DLA share, including what Linux and the carve-outs take.
        power_modes: by name, the fastest first.
        family: modules of one family run the same JetPack releases, for example "orin-nx".
        aliases: other names for it.
        default_jetpack: the JetPack if the user names no release.
    """

    id: str
    title: str
    chip: str
    dla_version: int
    dla_cores: int
    sram_bytes: int
    sram_shared: bool
    dram_gb_s: float
    memory_bytes: int
    power_modes: Mapping[str, PowerMode]
    sources: Tuple[str, ...] = ()
    family: str = ""
    aliases: Tuple[str, ...] = ()
    default_jetpack: str = ""

    @property
    def default_power_mode(self) -> Optional[str]:
        """The first listed mode: MAXN where the module has it. None for modules without DLA."""
        return next(iter(self.power_modes), None)

    def uses_sparsity(self, precision: str) -> bool:
        """Whether the DLA computes faster with 2:4 sparse weights: Orin's at "int8" (TensorRT Developer Guide 8.5)."""
        return self.dla_version == 2 and precision == "int8"


@dataclass(frozen=True)
class Release:
    """A software release. `trt`: the version tuple that rules are matched with.

    `jetpack` is None if the user named only TensorRT and several JetPacks carry it. `note` says which listed release answers for
    one that is not on record.
    """

    trt: Tuple[int, ...]
    jetpack: Optional[str] = None
    l4t: Tuple[str, ...] = ()
    dla_software: Optional[str] = None
    sources: Tuple[str, ...] = ()
    note: str = field(default="", compare=False)

    @property
    def trt_text(self) -> str:
        return ".".join(str(n) for n in self.trt)

    @property
    def strongly_typed(self) -> bool:
        """From 11.0 tensor types decide the precision; the FP16 and INT8 builder flags are gone."""
        return self.trt >= (11,)


@dataclass(frozen=True)
class Platform:
    """A module with a release.

    Attributes:
        no_dla: why there is no DLA, or none can be counted on; None if there is one.
        dla_unknown: whether `no_dla` says unknown rather than no.
    """

    module: Module
    release: Release
    no_dla: Optional[str] = None
    dla_unknown: bool = False

    @property
    def precision(self) -> str:
        """What to answer first: INT8, which Orin's DLA is made for; on Xavier, and where a model's own types decide, FP16."""
        return "fp16" if self.module.dla_version == 1 or self.release.strongly_typed else "int8"

    @property
    def has_dla(self) -> bool:
        return self.no_dla is None

    @property
    def dla_status(self) -> str:
        """ "yes", "no" or "unknown"."""
        if self.has_dla:
            return "yes"
        return "unknown" if self.dla_unknown else "no"

    @property
    def notes(self) -> Tuple[str, ...]:
        """Why there is no DLA, and what answers for a release that is not on record."""
        return tuple(note for note in (self.no_dla, self.release.note) if note)

    @property
    def chip(self) -> str:
        return self.module.chip

    def to_dict(self) -> Dict[str, Any]:
        return {
            "target": self.module.id,
            "title": self.module.title,
            "chip": self.module.chip,
            "dla_version": self.module.dla_version,
            "dla_cores": self.module.dla_cores,
            "has_dla": self.has_dla,
            "dla_status": self.dla_status,
            "no_dla_reason": self.no_dla,
            "trt": self.release.trt_text,
            "jetpack": self.release.jetpack,
            "dla_software": self.release.dla_software,
        }
