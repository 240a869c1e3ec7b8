"""Reads the kernel's files about DLA cores, clocks, temperatures and power, below a root that tests can set."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

from edgedla.targets.jetson import read_text, root

#: Clocks below this share of their limit are not locked (jetson_clocks sets them to the limit).
LOCKED_SHARE = 0.99
#: Where JetPack 5, 6 and 7 put the cores.
CORE_PATTERNS = (
    "sys/devices/platform/*host1x*/*.nvdla{core}",
    "sys/devices/platform/*/*host1x*/*.nvdla{core}",
    "sys/devices/platform/*.nvdla{core}",
    "sys/devices/*host1x*/*.nvdla{core}",
)


def read_number(path: Path) -> Optional[float]:
    text = read_text(path)
    try:
        return float(text) if text else None
    except ValueError:
        return None


def core_folder(core: int, base: Optional[Path] = None) -> Optional[Path]:
    """The device folder of a DLA core; None if the kernel has none."""
    base = base or root()
    for pattern in CORE_PATTERNS:
        folders = sorted(glob.glob(str(base / pattern.format(core=core))))
        if folders:
            return Path(folders[0])
    return None


def clock_caps_hz(base: Optional[Path] = None) -> Dict[int, float]:
    """Maximum clock in the power mode, by DLA core. JetPack 6 has clk_cap in the core's folder, JetPack 5 below `acm`."""
    caps: Dict[int, float] = {}
    for core in range(4):
        folder = core_folder(core, base)
        for place in ("clk_cap", "acm/clk_cap"):
            value = None if folder is None else read_number(folder / place / f"dla{core}_core")
            if value is not None and value > 0:
                caps.setdefault(core, value)
    return caps


def core_active_ms(core: int, base: Optional[Path] = None) -> Optional[float]:
    """Milliseconds that a core was powered on since boot (runtime power management); None if unknown."""
    folder = core_folder(core, base)
    return None if folder is None else read_number(folder / "power" / "runtime_active_time")


@dataclass(frozen=True)
class Reading:
    """One reading of the board. None for a missing file.

    Attributes:
        core_active_ms, core_suspended_ms, core_status: by core number.
        clocks_hz: current clock by name (gpu, emc, dla0, ...). clocks_max_hz: their limits, of the power mode if known.
        unlocked: clocks that may change: (name, current or minimum clock, limit), in Hz.
        temperatures_c: by zone. power_mw: by rail.
        throttled_by: cooling devices that slow something down now. over_current_events: number since boot.
    """

    core_active_ms: Dict[int, Optional[float]]
    core_suspended_ms: Dict[int, Optional[float]]
    core_status: Dict[int, Optional[str]]
    clocks_hz: Dict[str, float]
    clocks_max_hz: Dict[str, float]
    temperatures_c: Dict[str, float]
    power_mw: Dict[str, float]
    unlocked: Tuple[Tuple[str, float, float], ...] = ()
    throttled_by: Tuple[str, ...] = ()
    over_current_events: float = 0.0


def read_board(base: Optional[Path] = None) -> Reading:
    base = base or root()
    cores = [c for c in range(4) if core_folder(c, base) is not None]
    power = {c: (core_folder(c, base) or base) / "power" for c in cores}
    clocks, highest = _clocks(base)
    return Reading(
        {c: read_number(power[c] / "runtime_active_time") for c in cores},
        {c: read_number(power[c] / "runtime_suspended_time") for c in cores},
        {c: read_text(power[c] / "runtime_status") for c in cores},
        clocks,
        highest,
        _temperatures(base),
        _power(base),
        tuple(_unlocked(base, clocks, highest)),
        tuple(_throttled_by(base)),
        sum(read_number(Path(p)) or 0.0 for p in glob.glob(str(base / "sys/class/hwmon/hwmon*/oc*_event_cnt"))),
    )


#: Clock files that root can read, in order: BPMP debugfs, kernel debugfs. Each maps our clock names to its own.
DEBUG_CLOCKS: Dict[str, Tuple[str, ...]] = {
    "emc": ("bpmp/debug/clk/emc/rate", "clk/emc/clk_rate"),
    "dla0": (
        "bpmp/debug/clk/nafll_dla0_core/rate",
        "bpmp/debug/clk/nafll_dla/rate",
        "bpmp/debug/clk/dla0_core/rate",
        "clk/dla0_core/clk_rate",
    ),
    "dla1": ("bpmp/debug/clk/nafll_dla1_core/rate", "bpmp/debug/clk/dla1_core/rate", "clk/dla1_core/clk_rate"),
}
#: Files with nvpmodel's cap of the memory clock: JetPack 6, then 5.
EMC_CAPS = ("sys/kernel/nvpmodel_clk_cap/emc", "sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
_GPU = ("gpu", "gv11b", "ga10b", "gb10b")


def _gpu_folder(base: Path) -> Optional[Path]:
    folders = sorted(glob.glob(str(base / "sys/class/devfreq/*")))
    return next((Path(f) for f in folders if any(k in os.path.basename(f) for k in _GPU)), None)


def _clocks(base: Path) -> Tuple[Dict[str, float], Dict[str, float]]:
    now: Dict[str, float] = {}
    most: Dict[str, float] = {}
    gpu = _gpu_folder(base)
    for folder in sorted(glob.glob(str(base / "sys/class/devfreq/*"))):
        name = "gpu" if gpu is not None and folder == str(gpu) else os.path.basename(folder)
        for file, table in (("cur_freq", now), ("max_freq", most)):
            value = read_number(Path(folder) / file)
            if value is not None:
                table.setdefault(name, value)
    for name, files in DEBUG_CLOCKS.items():
        for file in files:
            path = base / "sys/kernel/debug" / file
            value = read_number(path)
            if value is not None:
                now[name] = value
                limit = read_number(path.parent / "max_rate")
                if limit is not None:
                    most[name] = limit
                break
    # max_rate in the tree is the chip's limit, not the power mode's.
    for core, cap in clock_caps_hz(base).items():
        most[f"dla{core}"] = min(cap, most.get(f"dla{core}", cap))
    cap_emc = next((v for v in (read_number(base / path) for path in EMC_CAPS) if v), None)
    if cap_emc is not None and "emc" in now:
        most["emc"] = min(cap_emc, most.get("emc", cap_emc))
    return now, most


def _unlocked(base: Path, now: Dict[str, float], most: Dict[str, float]) -> Iterator[Tuple[str, float, float]]:
    """Unlocked clocks of those that jetson_clocks locks: GPU, CPU and memory. It leaves other engines' clocks alone."""
    gpu = _gpu_folder(base)
    if gpu is not None and "gpu" in now and "gpu" in most:
        least = read_number(gpu / "min_freq")
        lowest = now["gpu"] if least is None else min(least, now["gpu"])
        if lowest < LOCKED_SHARE * most["gpu"]:
            yield "gpu", lowest, most["gpu"]
    for folder in sorted(glob.glob(str(base / "sys/devices/system/cpu/cpufreq/policy*"))):
        least, limit = (read_number(Path(folder) / f"scaling_{edge}_freq") for edge in ("min", "max"))
        if least is not None and limit is not None and least < LOCKED_SHARE * limit:
            # cpufreq counts in kHz.
            yield "cpu", least * 1e3, limit * 1e3
            break
    if "emc" in now and now["emc"] < LOCKED_SHARE * most.get("emc", 0):
        yield "emc", now["emc"], most["emc"]


def _throttled_by(base: Path) -> Iterator[str]:
    """Types of the cooling devices that slow something down now. Fans are cooling devices too, but slow nothing down."""
    for state in sorted(glob.glob(str(base / "sys/class/thermal/cooling_device*/cur_state"))):
        kind = read_text(Path(state).parent / "type") or ""
        if any(word in kind.lower() for word in ("throttle", "cpufreq", "devfreq")) and (read_number(Path(state)) or 0) > 0:
            yield kind


def _temperatures(base: Path) -> Dict[str, float]:
    by_zone = {}
    for zone in sorted(glob.glob(str(base / "sys/class/thermal/thermal_zone*"))):
        name, value = read_text(Path(zone) / "type"), read_number(Path(zone) / "temp")
        # Zones that are switched off give an impossible value.
        if name and value is not None and -40000 < value < 150000:
            by_zone[name] = value / 1000.0
    return by_zone


def _power(base: Path) -> Dict[str, float]:
    """INA3221 rails: millivolts times milliamperes."""
    by_rail = {}
    for label in sorted(glob.glob(str(base / "sys/class/hwmon/hwmon*/in*_label"))):
        folder, number = Path(label).parent, os.path.basename(label)[2:-6]
        volts, amps = read_number(folder / f"in{number}_input"), read_number(folder / f"curr{number}_input")
        name = read_text(Path(label))
        if name and volts is not None and amps is not None:
            by_rail[name] = volts * amps / 1000.0
    return by_rail
