"""Placements made by hand, for tests of chains: the document of a real placement with other devices in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.placement.result.placement import PlacedRegion, Placement

TARGET = "agx-orin-64gb"
#: Index of a layer and number of layers -> its device.
Devices = Callable[[int, int], str]


def runs(*devices: str) -> Devices:
    """Stretches of equal length, one after the other."""
    return lambda i, n: devices[min(i * len(devices) // n, len(devices) - 1)]


def on_one_core(devices: Devices) -> Devices:
    """The same with all DLA layers on DLA0, which is one engine."""
    return lambda i, n: "GPU" if devices(i, n) == "GPU" else "DLA0"


_KNOWN: dict = {}


def placement_of(path: Path, precision: str, trt: str) -> Placement:
    key = (str(path), precision, trt)
    if key not in _KNOWN:
        _KNOWN[key] = place(path, target=TARGET, trt=trt, precision=precision, time_limit_s=1.0)
    found: Placement = _KNOWN[key]
    return found


def placed(
    path: Path,
    to: Path,
    devices: Devices,
    *,
    precision: str = "fp16",
    trt: str = "10.3",
    regions: Sequence[Sequence[int]] = (),
    only_legal: bool = False,
) -> Path:
    """Writes the placement of a model with these devices.

    Args:
        only_legal: layers that the DLA refuses stay on the GPU.
    """
    document = placement_of(path, precision, trt)
    model = document.models[0]
    legal: Optional[List[bool]] = None
    if only_legal:
        from edgedla.regions import check_graph
        from edgedla.rules.verdict import Support
        from edgedla.targets import platform_for

        platform = platform_for(TARGET, trt=trt)
        report = check_graph(load_onnx(path, trt=platform.release.trt), platform, precision)
        legal = [layer.support is Support.DLA for layer in report.layers]
    n = len(model.layers)
    layers = []
    for x in model.layers:
        device = devices(x.index, n) if legal is None or legal[x.index] else "GPU"
        layers.append(replace(x, device=device, region=None))
    made = tuple(PlacedRegion(k, layers[r[0]].device, tuple(r), len(r), model.latency) for k, r in enumerate(regions))
    changed = replace(document, models=(replace(model, layers=tuple(layers), regions=made, transitions=()),))
    to.write_text(changed.to_json(), encoding="utf-8")
    return to
