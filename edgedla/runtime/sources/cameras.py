"""Cameras of this machine, each as a source of a pipeline file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Iterator, Tuple

from edgedla.targets.jetson import read_text

#: A pixel format, a size, or a rate in what `v4l2-ctl --list-formats-ext` prints.
_PART = re.compile(r"'(.{4})'|Size: \w+ (\d+)x(\d+)|\(([\d.]+) fps\)")
#: Formats of raw sensors, CSI cameras: a Jetson's image processor makes pictures of them.
_BAYER = re.compile(r"(RG|BG|GB|GR|BA|pR|pB|pG|pg)\w\w")


def cameras(base: Path) -> Iterator[str]:
    """A source for a pipeline file, and name and formats, of each camera under `base`; formats by v4l2-ctl."""
    sensors = 0
    for node in sorted((base / "dev").glob("video[0-9]*"), key=lambda node: int(node.name[5:])):
        name = read_text(base / "sys/class/video4linux" / node.name / "name") or "camera"
        if shutil.which("v4l2-ctl") is None:
            yield f'{{uri: "v4l2:///dev/{node.name}"}} is {name}; apt install v4l-utils tells its formats'
            continue
        told = subprocess.run(["v4l2-ctl", "-d", str(node), "--list-formats-ext"], capture_output=True, text=True)
        formats = _largest(told.stdout)
        # A camera has a node for metadata too, which gives no frames.
        if formats:
            kind, (w, h, rate) = max(formats.items(), key=lambda item: item[1])
            is_sensor = bool(_BAYER.fullmatch(kind))
            uri = f"csi://{sensors}" if is_sensor else f"v4l2:///dev/{node.name}"
            sensors += is_sensor
            codec = ", codec: mjpeg" if kind == "MJPG" else ""
            text = ", ".join(f"{kind} {w}x{h} {rate:g}/s" for kind, (w, h, rate) in formats.items())
            yield f'{{uri: "{uri}"{codec}, width: {w}, height: {h}, rate: {rate:g}}} is {name}: {text}'


def _largest(told: str) -> Dict[str, Tuple[int, int, float]]:
    """Of each format the largest size, and its highest rate."""
    found: Dict[str, Tuple[int, int, float]] = {}
    kind, size = "", (0, 0)
    for name, w, h, rate in _PART.findall(told):
        kind, size = name or kind, (int(w), int(h)) if w else size
        if rate:
            found[kind] = max(found.get(kind, (0, 0, 0.0)), (*size, float(rate)))
    return found
