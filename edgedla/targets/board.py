"""Detects which Jetson this machine is, what is installed on it, and its power mode; None if it is no Jetson."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from edgedla.errors import UsageError
from edgedla.targets.device_files import clock_caps_hz, read_board
from edgedla.targets.jetson import file_text, in_container, on_jetson, read_text, root
from edgedla.targets.platform import Module, PowerMode
from edgedla.targets.releases import jetpack_of, releases
from edgedla.targets.versions import parse_version

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
#: Part numbers of modules in the device tree's `compatible`, which do not depend on the carrier board's name.
#: Source: NVIDIA's flash configurations (jetson-agx-orin-devkit.conf, jetson-orin-nano-devkit.conf, jetson-xavier*.conf).
PARTS: Mapping[str, str] = {
    "p3767-0000": "orin-nx-16gb",
    "p3767-0001": "orin-nx-8gb",
    "p3767-0003": "orin-nano-8gb",
    "p3767-0004": "orin-nano-4gb",
    "p3767-0005": "orin-nano-8gb",
    # The first developer kit: 32 GB of memory, but the cores, clocks and power modes of the 64 GB module.
    "p3701-0000": "agx-orin-64gb",
    "p3701-0004": "agx-orin-32gb",
    "p3701-0005": "agx-orin-64gb",
    "p3668-0000": "xavier-nx-8gb",
    "p3668-0001": "xavier-nx-8gb",
    "p3668-0003": "xavier-nx-16gb",
    "p2888": "agx-xavier",
    "p3834-0008": "agx-thor-t5000",
}
SIZES_GB = {"orin-nano": (4, 8), "orin-nx": (8, 16), "agx-orin": (32, 64), "xavier-nx": (8, 16), "agx-xavier": (32, 64)}
#: Clock caps are set in steps of the clock's table; two that differ by less than this share count as equal.
SAME_CLOCK = 0.01
_L4T = r"R(\d+) \(release\), REVISION: (\d+)\.(\d+)"
#: nvpmodel's names of modes that differ only in how many CPU cores run: 30W_ALL, 30W_4CORE.
_CPU_CORES = r"_(ALL|\d+CORE)\Z"
_MODE = r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+)\s*>([^<]*)"
#: "DLA0_CORE MAX_FREQ 614400000" (Orin), "NAFLL_DLA MAX_FREQ ..." (Xavier, both cores); -1 is the chip's own limit.
_DLA_CAP = r"(?m)^\s*(?:DLA(\d)_CORE|NAFLL_DLA)\s+MAX_FREQ\s+(-?\d+)\s*$"


@dataclass(frozen=True)
class Board:
    """This machine as a Jetson.

    Attributes:
        model: the device tree's name. target: edgedla's name, None if it knows no such module.
        l4t: "36.4.3". jetpack: the release that this L4T belongs to, None if unknown.
        jetpack_nearest: whether the L4T is in no table, and `jetpack` is that of its neighbour, see `jetpack_of`.
        power_mode: nvpmodel's name of the current mode. power_modes: names by nvpmodel's id.
        dla_caps_mhz: maximum clock by core, from the kernel, else from the mode's section of nvpmodel.conf; a core is missing
            if neither states it, or if only the chip's own limit holds.
        container: whether this runs inside a container.
    """

    model: str
    target: Optional[str]
    l4t: Optional[str]
    jetpack: Optional[str]
    power_mode: Optional[str]
    power_modes: Mapping[int, str]
    container: bool
    jetpack_nearest: bool = False
    dla_caps_mhz: Mapping[int, float] = field(default_factory=dict)

    def known_target(self) -> str:
        """edgedla's name of the module; UsageError if it knows no such module."""
        if self.target is None:
            hint = "Name it. In a container `edgedla doctor` says which files to pass in."
            raise UsageError("this is a Jetson, but edgedla cannot tell which module", where="target", hint=hint)
        return self.target

    def release(self, installed: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
        """(JetPack, TensorRT) as arguments of `platform_for`, led by the installed TensorRT, which need not be JetPack's own.

        JetPack is None where it does not carry that TensorRT, TensorRT where it is JetPack's own. An L4T that is not listed
        stands for its neighbour, so that every answer says so.
        """
        jetpack = f"R{self.l4t}" if self.jetpack_nearest else self.jetpack
        if installed is None:
            return jetpack, None
        row = next((row for row in releases().jetpack if row.version == self.jetpack), None)
        version = parse_version(".".join(installed.split(".")[:3]))
        if version is None or row is None or not row.carries(version):
            return None, installed
        return jetpack, None if row.trt == version else installed

    def mode_of(self, module: Module) -> Optional[PowerMode]:
        """The mode of `module` that this board is in, found by its clock caps: nvpmodel's names are only labels.

        An Orin NX with the super image calls "15W" a mode with other caps than the plain image's. If no known mode has these
        caps, the result is a mode made of them; None if there are neither caps nor a known name.
        """
        named = known_mode(self.power_mode, module.power_modes) if self.power_mode else None
        capped = len(self.dla_caps_mhz) == module.dla_cores > 0
        if not capped:
            return module.power_modes[named] if named else None
        caps = tuple(self.dla_caps_mhz[core] for core in sorted(self.dla_caps_mhz))
        fitting = [m for m in module.power_modes.values() if _same(m.dla_mhz, caps)]
        chosen = [m for m in fitting if m.name == named] or (fitting if len(fitting) == 1 else [])
        if chosen:
            return chosen[0]
        return PowerMode(f"{self.power_mode or 'capped'} of this board", caps, sources=("the kernel's clock caps",))


def this_board(base: Optional[Path] = None) -> Optional[Board]:
    base = base or root()
    if not on_jetson(base):
        return None
    release, model = file_text(base, "nv_tegra_release"), file_text(base, "model")
    match = re.search(_L4T, release or "")
    l4t = ".".join(match.groups()) if match else None
    jetpack, exact = jetpack_of(l4t)
    config = read_text(base / "etc/nvpmodel.conf") or ""
    modes = {int(number): (name, body) for number, name, body in re.findall(_MODE, config)}
    current = re.search(r"pmode:0*(\d+)", read_text(base / "var/lib/nvpmodel/status") or "")
    mode = modes.get(int(current.group(1))) if current else None
    caps = {core: hz / 1e6 for core, hz in clock_caps_hz(base).items()}
    return Board(
        model=model or "unknown Jetson",
        target=_target(model or "", file_text(base, "compatible") or "", base),
        l4t=l4t,
        jetpack=jetpack,
        power_mode=mode[0] if mode else None,
        power_modes={number: name for number, (name, _) in sorted(modes.items())},
        container=in_container(base),
        jetpack_nearest=jetpack is not None and not exact,
        dla_caps_mhz=caps or _configured_caps(mode[1] if mode else ""),
    )


def board_target(base: Optional[Path] = None) -> Optional[str]:
    """This board's module as `--target` names it, without reading the table of releases; None if unknown."""
    base = base or root()
    return _target(file_text(base, "model") or "", file_text(base, "compatible") or "", base)


def board_facts(base: Optional[Path] = None) -> Optional[Dict[str, Any]]:
    """Facts to record with a build or measurement on this Jetson: module, release, power mode, clocks; None elsewhere.

    `clocks_mhz`: current clocks by name; a clock that cannot be read is missing.
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


def known_mode(name: str, modes: Mapping[str, object]) -> Optional[str]:
    """The name in `modes` for nvpmodel's name of a power mode: MODE_30W_ALL is 30W. None if there is none."""
    plain = name[5:] if name.startswith("MODE_") else name
    return next((n for n in (name, plain, re.sub(_CPU_CORES, "", plain)) if n in modes), None)


def _same(theirs: Tuple[Optional[float], ...], ours: Tuple[float, ...]) -> bool:
    return len(theirs) == len(ours) and all(a is not None and abs(a - b) <= SAME_CLOCK * b for a, b in zip(theirs, ours))


def _configured_caps(section: str) -> Mapping[int, float]:
    caps = {}
    for core, hz in re.findall(_DLA_CAP, section):
        if int(hz) > 0:
            caps.update({int(core): int(hz) / 1e6} if core else {0: int(hz) / 1e6, 1: int(hz) / 1e6})
    return caps


def _target(model: str, compatible: str, base: Path) -> Optional[str]:
    parts = re.findall(r"p\d{4}-\d{4}", compatible)
    family = next((PARTS[p] for p in parts if p in PARTS), None)
    family = family or next((PARTS[p[:5]] for p in parts if p[:5] in PARTS), None)
    family = family or next((name for text, name in MODELS if text in model.lower()), None)
    if family is None or family not in SIZES_GB:
        return family
    kib = re.search(r"MemTotal:\s+(\d+)", read_text(base / "proc/meminfo") or "")
    if kib is None:
        return None
    # The kernel and carve-outs take up to a tenth of the memory: the module's size is the smallest that holds the rest.
    gib = int(kib.group(1)) / (1 << 20)
    size = next((s for s in SIZES_GB[family] if gib <= s), SIZES_GB[family][-1])
    return f"{family}-{size}gb"
