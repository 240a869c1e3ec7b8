"""Whether this machine is a Jetson: the files and devices that say so, below a root that tests can set.

Every command that takes a module calls this, mostly on laptops; `board` then says which Jetson it is. In a container the
release file and the device tree are hidden (Docker masks /sys/firmware; NVIDIA's runtime passes neither), but the devices
are visible. EDGEDLA_BOARD_DIR names a folder with copies of `nv_tegra_release`, `model` and `compatible`.
"""

from __future__ import annotations

import glob
import os
import platform
from pathlib import Path
from typing import Optional

#: Set EDGEDLA_ROOT to read another tree than "/".
ROOT_VARIABLE = "EDGEDLA_ROOT"
#: A folder with copies of what a container hides.
BOARD_VARIABLE = "EDGEDLA_BOARD_DIR"
#: Paths of each file below the root, in the order to try; the last ones are copies that are commonly mounted in containers.
FILES = {
    "nv_tegra_release": ("etc/nv_tegra_release",),
    "model": ("proc/device-tree/model", "sys/firmware/devicetree/base/model", "tmp/nv_jetson_model"),
    "compatible": ("proc/device-tree/compatible", "sys/firmware/devicetree/base/compatible"),
}
#: Devices that only a Jetson has. JetPack 5 and 6 have nvhost devices; 7 has nvmap and nvgpu.
DEVICES = ("dev/nvmap", "dev/nvhost-*", "dev/nvgpu", "sys/devices/platform/*/*.nvdla0", "sys/devices/platform/*/*/*.nvdla0")


def root() -> Path:
    return Path(os.environ.get(ROOT_VARIABLE, "/"))


def read_text(path: Path) -> Optional[str]:
    """The file's text without trailing white space and NULs; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").rstrip("\x00 \n")
    except OSError:
        return None


def on_jetson(base: Optional[Path] = None) -> bool:
    """Whether this is a Jetson, even one whose module edgedla does not know."""
    base = base or root()
    if base == Path("/") and BOARD_VARIABLE not in os.environ and platform.machine() != "aarch64":
        # Searching /sys takes longer than the rest of a small check.
        return False
    named = "jetson" in (file_text(base, "model") or "").lower()
    return named or file_text(base, "nv_tegra_release") is not None or any(glob.glob(str(base / pattern)) for pattern in DEVICES)


def in_container(base: Path) -> bool:
    return (base / ".dockerenv").exists() or (base / "run/.containerenv").exists()


def file_text(base: Path, name: str) -> Optional[str]:
    """The text of one of FILES; None if neither the file nor a copy exists."""
    copies = os.environ.get(BOARD_VARIABLE)
    places = [Path(copies) / name] if copies else []
    places += [base / place for place in FILES[name]]
    return next((text for text in map(read_text, places) if text), None)
