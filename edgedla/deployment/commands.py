"""The commands that repeat a deployment step by step."""

from __future__ import annotations

import shlex
from typing import List, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.request import DeployRequest


def commands_of(request: DeployRequest, best: Candidate) -> Tuple[str, ...]:
    """What to type, in order. MODEL and DATA stand for the user's own."""
    platform = _platform(request)
    fixed = "model.onnx" if best.rewrites else "MODEL"
    found: List[str] = []
    if best.rewrites:
        approximate = f" --approximate {request.approximate:g}" if best.level >= 3 else ""
        found.append(
            f"edgedla fix MODEL -o model.onnx {platform} --precision {best.precision}{approximate} "
            f"--only {','.join(best.rewrites)}"
        )
    if best.quantization is not None:
        decode = f" --decode {request.decode}" if request.decode else ""
        found.append(
            f"edgedla quantize {fixed} --data DATA {platform} --metric {request.metric}{decode} "
            f"--max-drop {request.max_drop:g} -o quantization"
        )
    placement = ""
    if best.placement is not None:
        bound = f" --max-latency {request.max_latency_us:g}" if request.max_latency_us else ""
        found.append(
            f"edgedla place {fixed} {platform} --precision {best.precision} --objective {request.objective}{bound} "
            "-o placement.json"
        )
        placement = " --placement placement.json"
    calib = " --calib quantization" if best.quantization is not None else ""
    found.append(f"edgedla build {fixed} {platform} --precision {best.precision}{calib}{placement} -o artifact")
    found.append(
        "edgedla evaluate artifact --data DATA --metric " + shlex.quote(str(request.metric)) + " --against MODEL"
    )
    return tuple(found)


def _platform(request: DeployRequest) -> str:
    parts = [f"--target {request.target}"]
    parts += [f"--jetpack {request.jetpack}"] if request.jetpack else []
    parts += [f"--trt {request.trt}"] if request.trt else []
    for name, dims in (request.shapes or {}).items():
        parts.append(f"--shapes {shlex.quote(name + ':' if name else '')}{'x'.join(map(str, dims))}")
    return " ".join(parts)
