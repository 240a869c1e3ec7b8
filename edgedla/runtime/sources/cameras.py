"""Cameras of this machine, each as a source of a pipeline file."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Tuple, Union

from edgedla.targets.jetson import read_text

#: A pixel format, a size, or a rate in what `v4l2-ctl --list-formats-ext` prints.
_PART = re.compile(r"'(.{4})'|Size: \w+ (\d+)x(\d+)|\(([\d.]+) fps\)")
#: Formats of raw sensors, CSI cameras: a Jetson's image processor makes pictures of them.
_BAYER = re.compile(r"(RG|BG|GB|GR|BA|pR|pB|pG|pg)\w\w")
#: Longest time that a camera may take to list its formats.
LIMIT_S = 10.0


@dataclass(frozen=True)
class Camera:
    """A camera that was found.

    Attributes:
        name: as it calls itself. address: its device, or where it answers on the network.
        source: the keys of its source in a pipeline file.
        formats: pixel format -> largest width and height in pixels, highest rate in frames per second.
        remark: why there are no formats, and what to do.
    """

    name: str
    address: str
    source: Mapping[str, Union[str, float]]
    formats: Mapping[str, Tuple[int, int, float]] = field(default_factory=dict)
    remark: str = ""

    @property
    def line(self) -> str:
        """The source as a line of YAML."""
        parts = []
        for key, v in self.source.items():
            # An address has characters that YAML takes for its own.
            text = json.dumps(v) if key == "uri" else v if isinstance(v, str) else f"{v:g}"
            parts.append(f"{key}: {text}")
        return "{" + ", ".join(parts) + "}"

    @property
    def told(self) -> str:
        """Its name with its formats, or with the remark."""
        return f"{self.name}: {self.remark or ', '.join(f'{kind} {w}x{h} {rate:g}/s' for kind, (w, h, rate) in self.formats.items())}"

    def to_dict(self) -> Dict[str, Any]:
        sizes = [{"format": kind, "width": w, "height": h, "rate": rate} for kind, (w, h, rate) in self.formats.items()]
        return {**vars(self), "source": dict(self.source), "formats": sizes, "line": self.line}


def cameras(base: Path) -> Iterator[Camera]:
    """Each camera under `base`; formats by v4l2-ctl."""
    sensors = 0
    for node in sorted((base / "dev").glob("video[0-9]*"), key=lambda node: int(node.name[5:])):
        name = read_text(base / "sys/class/video4linux" / node.name / "name") or "camera"
        told, remark = _listed(node)
        formats = _largest(told)
        source: Dict[str, Union[str, float]] = {"uri": f"v4l2:///dev/{node.name}"}
        if formats:
            kind, (w, h, rate) = max(formats.items(), key=lambda item: item[1])
            if _BAYER.fullmatch(kind):
                source["uri"] = f"csi://{sensors}"
                sensors += 1
            source.update({"codec": "mjpeg"} if kind == "MJPG" else {}, width=w, height=h, rate=rate)
        # A camera has a node for metadata too, which gives no frames.
        if formats or remark:
            yield Camera(name, f"/dev/{node.name}", source, formats, remark)


def _listed(node: Path) -> Tuple[str, str]:
    """What v4l2-ctl prints of a device; else why there is nothing."""
    if shutil.which("v4l2-ctl") is None:
        return "", "apt install v4l-utils tells its formats"
    command = ["v4l2-ctl", "-d", str(node), "--list-formats-ext"]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        told, error = asked.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        # Not waited for: inside a driver that hangs, the program does not end either.
        asked.kill()
        return "", f"it did not tell its formats within {LIMIT_S:g} s; plug it in again, or see dmesg"
    return told, f"v4l2-ctl: {' '.join(error.split()) or f'exit code {asked.returncode}'}" if asked.returncode else ""


def _largest(told: str) -> Dict[str, Tuple[int, int, float]]:
    """Of each format the largest size, and its highest rate."""
    found: Dict[str, Tuple[int, int, float]] = {}
    kind, size = "", (0, 0)
    for name, w, h, rate in _PART.findall(told):
        kind, size = name or kind, (int(w), int(h)) if w else size
        if rate:
            found[kind] = max(found.get(kind, (0, 0, 0.0)), (*size, float(rate)))
    return found
