"""The commands that repeat a deployment: the call itself, and its steps by hand."""

from __future__ import annotations

import shlex
from typing import List, Tuple

from edgedla.deployment.candidate import Candidate
from edgedla.deployment.details import quantization_of
from edgedla.deployment.request import APPROXIMATE, RANDOM, DeployRequest
from edgedla.graph.open_sizes import GivenSizes
from edgedla.preprocess.settings import PreprocessSettings
from edgedla.vocabulary import devices


def commands_of(request: DeployRequest, best: Candidate, turned: str = "", front: bool = False) -> Tuple[str, ...]:
    """The commands in order: the whole call, which gives the same result, then the kept steps one by one.

    MODEL, DATA, HOLDOUT and PIPELINE are placeholders for the user's files. `quantize` by itself calibrates on more of DATA than a
    deployment, because it holds back no samples for the final check.

    Args:
        turned: id of the rewrite that converts the model's types first; "" where none does.
        front: True if the part in front of plugins was deployed: then the scales of `out` go into a build of the whole
            model, which nothing here can measure or evaluate.
    """
    platform, power, pictures = _platform(request), _power(request), _pictures(request)
    only = [*([turned] if turned else []), *best.rewrites]
    fixed = "model.onnx" if only else "MODEL"
    commands: List[str] = [_whole(request, platform)]
    if only:
        approximate = f" --approximate {request.approximate:g}" if best.level >= APPROXIMATE else ""
        commands.append(
            f"edgedla fix MODEL -o model.onnx {platform}{power} --precision {best.precision}{approximate} "
            f"--only {','.join(only)}"
        )
    if best.quantization is not None and not front:
        goal = f"{_metric(request)} --max-drop {request.max_drop:g}"
        commands.append(f"edgedla quantize {fixed} --data DATA{pictures} {platform}{goal} -o quantization")
    placement = ""
    if best.placement is not None:
        bound = f" --max-latency {request.max_latency_us:g}" if request.max_latency_us else ""
        commands.append(
            f"edgedla place {fixed} {platform}{power}{_devices(request)} --precision {best.precision} "
            f"--objective {request.objective}{bound}{_moved(best)} -o placement.json"
        )
        placement = " --placement placement.json"
    calib = _cache(best) if front else " --calib quantization" if best.quantization is not None else ""
    commands.append(f"edgedla build {fixed} {platform} --precision {best.precision}{calib}{placement} -o artifact")
    # Without samples, `deploy` uses seeded random input for the metric l2; `evaluate` always needs samples.
    if not front:
        commands.append(f"edgedla evaluate artifact --data DATA{pictures}{_metric(request)} --against MODEL")
    return tuple(commands)


def _moved(best: Candidate) -> str:
    """The pins of the layers that `quantize` moves to the GPU."""
    pins = ",".join(f'"{layer}":{device}' for layer, device in quantization_of(best).get("devices", {}).items())
    return f" --layerDeviceTypes {shlex.quote(pins)}" if pins else ""


def _cache(best: Candidate) -> str:
    """The scales of a part of the model: the folder is for that part alone, the cache names tensors."""
    if best.quantization is None:
        return ""
    kept = '--layer-precisions "$(cat out/quantization/layer-precisions.txt)"'
    return " --calib out/quantization/calib.cache" + (
        f" {kept}" if (best.quantization / "layer-precisions.txt").is_file() else ""
    )


def _whole(request: DeployRequest, platform: str) -> str:
    parts = [f"edgedla deploy MODEL {platform}{_power(request)} --level {request.level}"]
    parts.append(f"--objective {request.objective} --place {request.place}{_devices(request)}")
    if request.data is not None:
        parts.append("--data DATA" if str(request.data) != RANDOM else f"--data {RANDOM}")
    if request.holdout is not None:
        parts.append("--holdout HOLDOUT")
    if request.max_latency_us is not None:
        parts.append(f"--max-latency {request.max_latency_us:g}")
    if request.approximate is not None:
        parts.append(f"--approximate {request.approximate:g}")
    if request.budget_s is not None:
        parts.append(f"--budget {request.budget_s:g}s")
    if request.backend != DeployRequest.backend:
        parts.append(f"--backend {request.backend}")
    return " ".join(parts) + _pictures(request) + _metric(request) + f" --max-drop {request.max_drop:g} -o out"


def _power(request: DeployRequest) -> str:
    return f" --power-mode {_word(request.power_mode)}" if request.power_mode is not None else ""


def _devices(request: DeployRequest) -> str:
    if request.devices is None:
        return ""
    return f" --devices {','.join(devices(request.devices))}"


def _pictures(request: DeployRequest) -> str:
    """The options of the preprocessing, as far as they differ from their defaults; the colour of borders has none."""
    asked, default = request.preprocess, PreprocessSettings()
    if asked is None:
        return ""
    if asked.pad != default.pad:
        return " --preprocess PIPELINE"
    text = ""
    for name in ("fit", "colour"):
        text += f" --{name} {getattr(asked, name)}" if getattr(asked, name) != getattr(default, name) else ""
    for name in ("mean", "std"):
        values = getattr(asked, name)
        text += f" --{name}={','.join(f'{v:g}' for v in values)}" if values != getattr(default, name) else ""
    return text


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
