"""Which Jetson this is, what is installed on it, and which power mode it is in; None where it is no Jetson."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Container, Dict, Optional, Tuple

from edgedla.targets import releases
from edgedla.targets.device_files import read_board, read_text, root

#: Device-tree model names (lower case) by module; the memory size tells the variants apart.
MODELS: Tuple[Tuple[str, str], ...] = (
    ("agx thor", "agx-thor-t5000"),
    ("orin nano", "orin-nano"),
    ("orin nx", "orin-nx"),
    ("agx orin", "agx-orin"),
    ("xavier nx", "xavier-nx"),
    ("xavier", "agx-xavier"),
    # What JetPack 5 calls the AGX Xavier.
    ("jetson-agx", "agx-xavier"),
)
SIZES_GB = {
    "orin-nano": (4, 8),
    "orin-nx": (8, 16),
    "agx-orin": (32, 64),
    "xavier-nx": (8, 16),
    "agx-xavier": (32, 64),
}
_L4T = re.compile(r"R(\d+) \(release\), REVISION: (\d+)\.(\d+)")
#: nvpmodel's names of modes that differ only in how many CPU cores run: 30W_ALL, 30W_4CORE.
_CPU_CORES = re.compile(r"_(ALL|\d+CORE)\Z")
_MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)\s*>")


@dataclass(frozen=True)
class Board:
    """This machine as a Jetson.

    Attributes:
        model: the device tree's name. target: edgedla's name, None if it knows no such module.
        l4t: "36.4.3". jetpack: the release that this L4T belongs to, None if unknown.
        power_mode: nvpmodel's current mode. power_modes: all of them, in the order of their ids.
        container: runs inside one.
    """

    model: str
    target: Optional[str]
    l4t: Optional[str]
    jetpack: Optional[str]
    power_mode: Optional[str]
    power_modes: Tuple[str, ...]
    container: bool


def this_board(base: Optional[Path] = None) -> Optional[Board]:
    base = base or root()
    release = read_text(base / "etc/nv_tegra_release")
    model = read_text(base / "proc/device-tree/model") or read_text(base / "sys/firmware/devicetree/base/model")
    if release is None and (model is None or "jetson" not in model.lower()):
        return None
    match = _L4T.search(release or "")
    l4t = ".".join(match.groups()) if match else None
    modes = dict(_MODE.findall(read_text(base / "etc/nvpmodel.conf") or ""))
    current = re.search(r"pmode:0*(\d+)", read_text(base / "var/lib/nvpmodel/status") or "")
    return Board(
        model=model or "unknown Jetson",
        target=_target(model or "", base),
        l4t=l4t,
        jetpack=_jetpack(l4t),
        power_mode=modes.get(current.group(1)) if current else None,
        power_modes=tuple(modes[k] for k in sorted(modes, key=int)),
        container=(base / ".dockerenv").exists() or (base / "run/.containerenv").exists(),
    )


def board_facts(base: Optional[Path] = None) -> Optional[Dict[str, Any]]:
    """What belongs to a build or measurement on this Jetson: module, release, power mode, clocks; None elsewhere.

    `clocks_mhz` are those of this moment, by name; a clock that cannot be read is missing.
    """
    board = this_board(base)
    if board is None:
        return None
    clocks = read_board(base).clocks_hz
    return {
        "model": board.model,
        "target": board.target,
        "l4t": board.l4t,
        "jetpack": board.jetpack,
        "power_mode": board.power_mode,
        "clocks_mhz": {name: round(hz / 1e6, 1) for name, hz in sorted(clocks.items())},
    }


def known_mode(name: str, known: Container[str]) -> Optional[str]:
    """nvpmodel's name of a power mode as one of `known`: MODE_30W_ALL is 30W. None where none fits."""
    plain = name[5:] if name.startswith("MODE_") else name
    return next((n for n in (name, plain, _CPU_CORES.sub("", plain)) if n in known), None)


def _target(model: str, base: Path) -> Optional[str]:
    family = next((name for text, name in MODELS if text in model.lower()), None)
    if family is None or family not in SIZES_GB:
        return family
    kib = re.search(r"MemTotal:\s+(\d+)", read_text(base / "proc/meminfo") or "")
    if kib is None:
        return None
    # The kernel and carve-outs take up to a tenth: the size is the smallest one that holds what is left.
    gib = int(kib.group(1)) / (1 << 20)
    size = next((s for s in SIZES_GB[family] if gib <= s), SIZES_GB[family][-1])
    return f"{family}-{size}gb"


def _jetpack(l4t: Optional[str]) -> Optional[str]:
    if l4t is None:
        return None
    for row in releases().jetpack:
        if l4t in row.l4t or f"{l4t}.0" in row.l4t or l4t.rsplit(".", 1)[0] in row.l4t:
            return row.version
    return None
