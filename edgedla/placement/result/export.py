"""A placement in the forms that builders take: trtexec's options, one command per core, and device types by layer name."""

from __future__ import annotations

import shlex
from typing import List, Optional, Tuple

from edgedla.errors import UsageError
from edgedla.placement.result.placement import PlacedModel, Placement
from edgedla.vocabulary import GPU


def layer_device_types(model: PlacedModel, core: str) -> str:
    """The value of trtexec's --layerDeviceTypes: only what differs from the engine's default device.

    With --useDLACore the default is the DLA, so all layers that are not on this core are named. Names with a comma or colon are quoted.
    """
    return ",".join(f"{_quoted(x.name)}:{GPU}" for x in model.running if x.device != core)


def cores_of(model: PlacedModel) -> Tuple[str, ...]:
    """DLA cores that the model uses."""
    return tuple(sorted({x.device for x in model.running if x.device != GPU}))


def trtexec_commands(placement: Placement, files: Optional[Tuple[str, ...]] = None) -> List[str]:
    """One trtexec command per engine, with the placement's precision and device types.

    Args:
        files: the models' files in order; `NAME.onnx` by default.

    Raises:
        UsageError: a model uses both cores: an engine uses one core, so no single command builds the model.
    """
    commands = []
    for m, model in enumerate(placement.models):
        onnx = files[m] if files else f"{model.name}.onnx"
        precision = ["--fp16"] if placement.precision == "fp16" else ["--int8", "--fp16"]
        cores = cores_of(model)
        if len(cores) > 1:
            raise UsageError(
                f"{model.name} is placed on {' and '.join(cores)}, and a TensorRT engine uses one core",
                where="trtexec",
                hint="`edgedla build --placement FILE` builds one engine per stage (with --backend trtexec: the stages' models "
                "and scripts). Or place it with --devices GPU,DLA0.",
            )
        if not cores:
            commands.append(shlex.join(["trtexec", f"--onnx={onnx}", *precision]))
        for core in cores:
            options = [f"--useDLACore={core[-1]}", "--allowGPUFallback"]
            types = layer_device_types(model, core)
            if types:
                options.append(f"--layerDeviceTypes={types}")
            commands.append(shlex.join(["trtexec", f"--onnx={onnx}", *precision, *options]))
    return commands


def _quoted(name: str) -> str:
    return f'"{name}"' if "," in name or ":" in name else name
