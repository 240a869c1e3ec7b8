"""What the engines of a module could do at best: multiply-accumulates per clock, clocks, memory. Published figures, no fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from edgedla.errors import RuleError, UsageError
from edgedla.io import strict_yaml
from edgedla.io.data import rules_dir
from edgedla.targets.platform import Module, PowerMode
from edgedla.vocabulary import PRECISIONS, did_you_mean

#: Bytes of one activation or weight element, by precision.
PRECISION_BYTES: Mapping[str, int] = MappingProxyType({"fp16": 2, "int8": 1})


class DlaEngine(NamedTuple):
    """One DLA core at one precision.

    Attributes:
        version: 1 (Xavier) or 2 (Orin).
        mac_per_clock: multiply-accumulates per clock.
        align: input channels, output channels and output columns are rounded up to multiples of these.
        convolution_buffer_bytes: on-chip buffer for the input and the weights of a convolution.
    """

    version: int
    precision: str
    mac_per_clock: int
    align: Tuple[int, int, int]
    convolution_buffer_bytes: int


class GpuEngine(NamedTuple):
    """The module's GPU: multiply-accumulates per clock of all streaming multiprocessors that are switched on."""

    chip: str
    precision: str
    mac_per_clock: int


@dataclass(frozen=True)
class Clocks:
    """Clocks in MHz and the DRAM's peak at that memory clock.

    `assumed` names the clocks that no source states for the mode. They are the lowest that a source states for a higher
    mode, so that no mode comes out faster than the next one for want of a figure, or else the module's highest.
    """

    dla_mhz: float
    gpu_mhz: float
    emc_mhz: float
    dram_gb_s: float
    assumed: Tuple[str, ...] = ()


class _ModuleEngines(NamedTuple):
    sm: int
    gpu_mhz: float
    emc_mhz: float
    sm_by_mode: Mapping[str, int]
    most_w: Mapping[str, float]


class _Engines(NamedTuple):
    dla: Mapping[Tuple[int, str], DlaEngine]
    gpu_mac_per_sm: Mapping[Tuple[str, str], int]
    modules: Mapping[str, _ModuleEngines]


@lru_cache(maxsize=None)
def _engines() -> _Engines:
    table = strict_yaml.load(rules_dir() / "evidence" / "engines.yaml").only(("dla", "gpu", "modules"))
    dla: Dict[Tuple[int, str], DlaEngine] = {}
    for row in table.tables("dla"):
        row.only(("version", "precision", "mac_per_clock", "align", "convolution_buffer_kib", "sources"))
        in_channels, out_channels, columns = (int(n) for n in row["align"])
        engine = DlaEngine(
            version=row.integer("version"),
            precision=row.text("precision"),
            mac_per_clock=row.integer("mac_per_clock"),
            align=(in_channels, out_channels, columns),
            convolution_buffer_bytes=row.integer("convolution_buffer_kib") * 1024,
        )
        dla[engine.version, engine.precision] = engine
    gpu: Dict[Tuple[str, str], int] = {}
    for row in table.tables("gpu"):
        row.only(("chip", *PRECISIONS, "sources"))
        gpu.update({(row.text("chip"), p): row.integer(p) for p in PRECISIONS})
    modules: Dict[str, _ModuleEngines] = {}
    for row in table.tables("modules"):
        row.only(("id", "sm", "gpu_mhz", "emc_mhz", "sm_by_mode", "most_w", "sources"))
        modes: Any = row.table("sm_by_mode")
        watts: Any = row.table("most_w")
        modules[row.text("id")] = _ModuleEngines(
            row.integer("sm"),
            row.number("gpu_mhz"),
            row.number("emc_mhz"),
            {m: modes.integer(m) for m in modes},
            {m: watts.number(m) for m in watts},
        )
    return _Engines(dla, gpu, modules)


def dla_engine(version: int, precision: str) -> Optional[DlaEngine]:
    """One core of that DLA version; None for version 0 (no DLA)."""
    return _engines().dla.get((version, precision))


def gpu_engine(module: Module, precision: str, power_mode: Optional[str] = None) -> GpuEngine:
    """The module's GPU in a power mode (low modes switch multiprocessors off)."""
    per_sm = _engines().gpu_mac_per_sm.get((module.chip, precision))
    if per_sm is None:
        raise RuleError(
            f"no GPU of the chip {module.chip} is on record", where="rules/evidence/engines.yaml: gpu", hint="Add a row."
        )
    return GpuEngine(module.chip, precision, multiprocessors(module, power_mode) * per_sm)


def multiprocessors(module: Module, power_mode: Optional[str] = None) -> int:
    """Streaming multiprocessors that a power mode leaves switched on; all of them without a mode."""
    engines = _of(module)
    return engines.sm_by_mode.get(power_mode or "", engines.sm)


def most_w(module: Module) -> Mapping[str, float]:
    """Most watts of the power modes whose name states none, by mode."""
    return _of(module).most_w


def highest_clocks(module: Module) -> Clocks:
    """The module's highest clocks; a module without DLA has a DLA clock of 0."""
    engines = _of(module)
    dla = max((c or 0.0 for mode in module.power_modes.values() for c in mode.dla_mhz), default=0.0)
    return Clocks(dla, engines.gpu_mhz, engines.emc_mhz, module.dram_gb_s)


def clocks_for(
    module: Module, power_mode: Optional[str], overrides: Optional[Mapping[str, float]] = None, core: int = 0
) -> Clocks:
    """Clocks of a power mode, with `overrides` in MHz by "dla", "gpu", "emc" over them.

    Raises:
        UsageError: no such power mode, or a wrong override.
    """
    top = highest_clocks(module)
    if power_mode is not None and power_mode not in module.power_modes:
        raise UsageError(
            f"unknown power mode {power_mode!r} of {module.title}",
            where="power_mode",
            allowed=", ".join(module.power_modes) or "none: the module has no modes on record",
            hint=did_you_mean(power_mode, module.power_modes),
        )
    clocks_mhz: Dict[str, Optional[float]] = {"dla": None, "gpu": None, "emc": None}
    if power_mode is not None:
        clocks_mhz = _stated(module.power_modes[power_mode], core)
    for name, mhz in (overrides or {}).items():
        if name not in clocks_mhz:
            near = did_you_mean(name, clocks_mhz)
            raise UsageError(f"unknown clock {name!r}", where="clocks", allowed=", ".join(clocks_mhz), hint=near)
        if isinstance(mhz, bool) or not isinstance(mhz, (int, float)) or not 0 < mhz < 1e5:
            raise UsageError(f"the {name} clock {mhz!r} is not a number of MHz", where="clocks", allowed="above 0, below 100000")
        clocks_mhz[name] = float(mhz)
    assumed = tuple(n for n, mhz in clocks_mhz.items() if mhz is None and not (n == "dla" and not module.dla_cores))
    most = _most_of_higher_modes(module, power_mode, top, core)
    clocks = replace(
        top,
        dla_mhz=clocks_mhz["dla"] or most["dla"],
        gpu_mhz=clocks_mhz["gpu"] or most["gpu"],
        emc_mhz=clocks_mhz["emc"] or most["emc"],
        assumed=assumed,
    )
    return replace(clocks, dram_gb_s=module.dram_gb_s * clocks.emc_mhz / top.emc_mhz)


def _most_of_higher_modes(module: Module, power_mode: Optional[str], top: Clocks, core: int) -> Dict[str, float]:
    """The lowest stated clock of the modes above, by "dla", "gpu", "emc"; modes are listed the fastest first.

    The modes of a SUPER flash configuration are a list of their own.
    """
    most = {"dla": top.dla_mhz, "gpu": top.gpu_mhz, "emc": top.emc_mhz}
    for name, mode in module.power_modes.items():
        if name == power_mode or power_mode is None:
            break
        if name.endswith("_SUPER") != power_mode.endswith("_SUPER"):
            continue
        stated = _stated(mode, core)
        most = {k: min(v, stated[k] or v) for k, v in most.items()}
    return most


def _stated(mode: PowerMode, core: int) -> Dict[str, Optional[float]]:
    """What the sources say of a mode, by "dla", "gpu", "emc"; a module without DLA has no core to ask for."""
    return {"dla": mode.dla_mhz[core] if mode.dla_mhz else None, "gpu": mode.gpu_mhz, "emc": mode.emc_mhz}


def _of(module: Module) -> _ModuleEngines:
    engines = _engines().modules.get(module.id)
    if engines is None:
        raise RuleError(
            f"no engines of the target {module.id} are on record, so nothing it runs has a cost",
            where="rules/evidence/engines.yaml: modules",
            allowed=", ".join(sorted(_engines().modules)),
            hint=f"Add a row: {{id: {module.id}, sm: ..., gpu_mhz: ..., emc_mhz: ..., sm_by_mode: {{}}, most_w: {{}}, sources: [...]}}.",
        )
    return engines
