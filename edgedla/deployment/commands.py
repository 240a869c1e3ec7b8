"""The commands that repeat a deployment: the call itself, and its steps by hand."""

from __future__ import annotations

import shlex
from typing import List, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.request import APPROXIMATE, DeployRequest
from edgedla.graph.open_sizes import GivenSizes


def commands_of(request: DeployRequest, best: Candidate, turned: bool = False) -> Tuple[str, ...]:
    """The commands in order: the whole call, which gives the same result, then the kept steps one by one.

    MODEL and DATA are placeholders for the user's files. `quantize` by itself calibrates on more of DATA than a
    deployment, because it holds back no samples for the final check.

    Args:
        turned: True if the model's types were converted to FLOAT first.
    """
    platform = _platform(request)
    only = [*(["float32-types"] if turned else []), *best.rewrites]
    fixed = "model.onnx" if only else "MODEL"
    commands: List[str] = [_whole(request, platform)]
    if only:
        approximate = f" --approximate {request.approximate:g}" if best.level >= APPROXIMATE else ""
        commands.append(
            f"edgedla fix MODEL -o model.onnx {platform} --precision {best.precision}{approximate} "
            f"--only {','.join(only)}"
        )
    if best.quantization is not None:
        goal = f"{_metric(request)} --max-drop {request.max_drop:g}"
        commands.append(f"edgedla quantize {fixed} --data DATA {platform}{goal} -o quantization")
    placement = ""
    if best.placement is not None:
        bound = f" --max-latency {request.max_latency_us:g}" if request.max_latency_us else ""
        commands.append(
            f"edgedla place {fixed} {platform} --precision {best.precision} --objective {request.objective}{bound} "
            "-o placement.json"
        )
        placement = " --placement placement.json"
    calib = " --calib quantization" if best.quantization is not None else ""
    commands.append(f"edgedla build {fixed} {platform} --precision {best.precision}{calib}{placement} -o artifact")
    # Without samples, `deploy` uses seeded random input for the metric l2; `evaluate` always needs samples.
    commands.append(f"edgedla evaluate artifact --data DATA{_metric(request)} --against MODEL")
    return tuple(commands)


def _whole(request: DeployRequest, platform: str) -> str:
    parts = [f"edgedla deploy MODEL {platform} --level {request.level} --objective {request.objective}"]
    parts.append(f"--place {request.place}")
    if request.data is not None:
        parts.append("--data DATA" if str(request.data) != "random" else "--data random")
    if request.max_latency_us is not None:
        parts.append(f"--max-latency {request.max_latency_us:g}")
    return " ".join(parts) + _metric(request) + f" --max-drop {request.max_drop:g} -o out"


def _metric(request: DeployRequest) -> str:
    text = f" --metric {_word(request.metric)}"
    text += f" --decode {_word(request.decode)}" if request.decode is not None else ""
    text += f" --reg-max {request.reg_max}" if request.reg_max is not None else ""
    text += f" --iou {request.iou:g}" if request.iou is not None else ""
    return text


def _word(value: object) -> str:
    return shlex.quote(str(value))


def _platform(request: DeployRequest) -> str:
    parts = [f"--target {request.target}"]
    parts += [f"--jetpack {request.jetpack}"] if request.jetpack else []
    parts += [f"--trt {request.trt}"] if request.trt else []
    sizes = GivenSizes(request.shapes, request.batch).options()
    return " ".join([*parts, sizes] if sizes else parts)
