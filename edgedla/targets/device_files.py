"""The kernel's files about DLA cores, clocks, temperatures and power, below a root that tests can set."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Tuple

#: Set EDGEDLA_ROOT to read another tree than "/".
ROOT_VARIABLE = "EDGEDLA_ROOT"
#: Where JetPack 5, 6 and 7 put the cores.
CORE_PATTERNS = (
    "sys/devices/platform/*host1x*/*.nvdla{core}",
    "sys/devices/platform/*/*host1x*/*.nvdla{core}",
    "sys/devices/platform/*.nvdla{core}",
    "sys/devices/*host1x*/*.nvdla{core}",
)


def root() -> Path:
    return Path(os.environ.get(ROOT_VARIABLE, "/"))


def read_text(path: Path) -> Optional[str]:
    """The file's text without trailing white space and NULs; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\x00 \n")
    except OSError:
        return None


def read_number(path: Path) -> Optional[float]:
    text = read_text(path)
    try:
        return float(text) if text else None
    except ValueError:
        return None


def core_folder(core: int, base: Optional[Path] = None) -> Optional[Path]:
    """The device folder of a DLA core; None where the kernel shows none."""
    base = base or root()
    for pattern in CORE_PATTERNS:
        found = sorted(glob.glob(str(base / pattern.format(core=core))))
        if found:
            return Path(found[0])
    return None


def core_active_ms(core: int, base: Optional[Path] = None) -> Optional[float]:
    """Milliseconds that a core was powered on since boot (runtime power management); None where it is not known."""
    folder = core_folder(core, base)
    return None if folder is None else read_number(folder / "power" / "runtime_active_time")


@dataclass(frozen=True)
class Reading:
    """One look at the board. None where a file is missing.

    Attributes:
        core_active_ms, core_suspended_ms, core_status: by core number.
        clocks_hz: current clock by name (gpu, emc, dla0, ...). clocks_max_hz: their limits.
        temperatures_c: by zone. power_mw: by rail.
    """

    core_active_ms: Dict[int, Optional[float]]
    core_suspended_ms: Dict[int, Optional[float]]
    core_status: Dict[int, Optional[str]]
    clocks_hz: Dict[str, float]
    clocks_max_hz: Dict[str, float]
    temperatures_c: Dict[str, float]
    power_mw: Dict[str, float]


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
    )


#: Clock names of the BPMP's debug tree (readable by root) by our name.
BPMP_CLOCKS: Dict[str, Tuple[str, ...]] = {
    "emc": ("emc",),
    "dla0": ("nafll_dla0_core", "nafll_dla", "dla0_core"),
    "dla1": ("nafll_dla1_core", "dla1_core"),
}


def _clocks(base: Path) -> Tuple[Dict[str, float], Dict[str, float]]:
    now: Dict[str, float] = {}
    most: Dict[str, float] = {}
    for folder in sorted(glob.glob(str(base / "sys/class/devfreq/*"))):
        name = os.path.basename(folder)
        short = "gpu" if any(k in name for k in ("gpu", "gv11b", "ga10b", "gv11")) else name
        for file, table in (("cur_freq", now), ("max_freq", most)):
            value = read_number(Path(folder) / file)
            if value is not None:
                table.setdefault(short, value)
    for short, names in BPMP_CLOCKS.items():
        for name in names:
            folder_path = base / "sys/kernel/debug/bpmp/debug/clk" / name
            value = read_number(folder_path / "rate")
            if value is not None:
                now[short] = value
                limit = read_number(folder_path / "max_rate")
                if limit is not None:
                    most[short] = limit
                break
    return now, most


def _temperatures(base: Path) -> Dict[str, float]:
    found = {}
    for zone in sorted(glob.glob(str(base / "sys/class/thermal/thermal_zone*"))):
        name, value = read_text(Path(zone) / "type"), read_number(Path(zone) / "temp")
        # Zones that are switched off read an impossible value.
        if name and value is not None and -40000 < value < 150000:
            found[name] = value / 1000.0
    return found


def _power(base: Path) -> Dict[str, float]:
    """INA3221 rails: millivolts times milliamperes."""
    found = {}
    for label in sorted(glob.glob(str(base / "sys/class/hwmon/hwmon*/in*_label"))):
        folder, number = Path(label).parent, os.path.basename(label)[2:-6]
        volts, amps = read_number(folder / f"in{number}_input"), read_number(folder / f"curr{number}_input")
        name = read_text(Path(label))
        if name and volts is not None and amps is not None:
            found[name] = volts * amps / 1000.0
    return found
