"""`devices` of a pipeline: DLA0, DLA1, GPU, or DEVICE=ARTIFACT for a device with an artifact of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple, Union

from edgedla.builder.artifact import Artifact, Binding
from edgedla.builder.artifact_load import load_artifact
from edgedla.errors import UsageError
from edgedla.placement.document import read_placement
from edgedla.placement.placement import PlacedModel, Placement
from edgedla.runtime.runners import DEVICES, Runner, open_runners


def split_device(text: str) -> Tuple[str, str]:
    """ "GPU=gpu_artifact" is ("GPU", "gpu_artifact"), "DLA0" is ("DLA0", "").

    Raises:
        UsageError: an empty name or path.
    """
    name, equals, path = (part.strip() for part in text.partition("="))
    if not name or (equals and not path):
        raise UsageError(f"device {text!r}", allowed=f"{', '.join(DEVICES)}, or DEVICE=ARTIFACT")
    return name, path


def open_devices(artifact: Artifact, devices: Sequence[str]) -> List[Runner]:
    """One runner a device, all of them for the same network with the same buffers.

    A GPU that shares the frames with DLA cores needs an engine of its own, since TensorRT fixes at build time which layers run
    on a DLA: `devices: [DLA0, DLA1, "GPU=gpu_artifact"]`.

    Raises:
        UsageError: an unknown or repeated device, or artifacts whose bindings differ. DocumentError: an artifact is wrong.
        EnvironmentMissing: a device or library is not here.
    """
    pairs = [split_device(text) for text in devices]
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise UsageError(f"a device stands twice: {', '.join(names)}")
    loaded: Dict[str, Artifact] = {}
    for _, path in pairs:
        if path and path not in loaded:
            loaded[path] = load_artifact(path)
            check_same_bindings(artifact, loaded[path])
    if not pairs:
        return open_runners(artifact)
    opened: List[Runner] = []
    try:
        for name, path in pairs:
            opened += open_runners(loaded[path] if path else artifact, [name])
    except BaseException:
        for runner in opened:
            runner.close()
        raise
    return opened


def check_same_bindings(first: Artifact, other: Artifact) -> None:
    """Raises UsageError, naming the difference, where frames prepared for one would not be right for the other."""
    where = str(other.folder or other.model.get("name"))
    hint = "build both with the same --precision, --input-formats and --output-formats"
    a, b = {x.name: x for x in first.bindings}, {x.name: x for x in other.bindings}
    if set(a) != set(b):
        raise UsageError(
            f"its inputs and outputs are {', '.join(sorted(b))}", where=where, allowed=", ".join(sorted(a)), hint=hint
        )
    for name in sorted(a):
        difference = _difference(a[name], b[name])
        if difference:
            key, ours, theirs = difference
            raise UsageError(f"{key} of {name} is {theirs}", where=where, allowed=str(ours), hint=hint)
    pair = first.platform.get("chip"), other.platform.get("chip")
    if pair[0] != pair[1]:
        raise UsageError(f"it was built for {pair[1]}", where=where, allowed=str(pair[0]))


def _difference(a: Binding, b: Binding) -> Optional[Tuple[str, object, object]]:
    ours, theirs = a.to_dict(), b.to_dict()
    return next(((k, ours[k], theirs[k]) for k in ours if ours[k] != theirs[k]), None)


def placed_on(placement: Union[str, Path, Placement], artifact: Artifact) -> Tuple[str, ...]:
    """The device of the runner that runs `artifact` as the placement says: its core, or GPU where it uses no DLA.

    An engine runs on the GPU and on one core. A model whose layers a placement spreads over both cores (stages of one frame
    on DLA0 and DLA1) would need one engine a stage; such a placement is refused here. Two cores are used by giving them
    frames in turn (`devices: [DLA0, DLA1]`), or a model each.

    Raises:
        DocumentError: no placement. UsageError: it does not hold this model, or spreads it over both cores, or the artifact
            was built from another placement.
    """
    document = placement if isinstance(placement, Placement) else read_placement(placement)
    where = "placement" if isinstance(placement, Placement) else str(placement)
    model = _model_of(document, artifact, where)
    devices = {layer.name: layer.device for layer in model.layers if layer.why != "folded"}
    cores = sorted({d for d in devices.values() if d.startswith("DLA")})
    if len(cores) > 1:
        raise UsageError(
            f"it spreads {model.name} over {' and '.join(cores)}: one engine uses one DLA core",
            where=where,
            hint="place it with one core (`edgedla place --devices GPU,DLA0`), and give both cores frames in turn: "
            "devices: [DLA0, DLA1]",
        )
    for name, device in sorted(devices.items()):
        built = artifact.placement_predicted.get(name)
        if built is not None and built.startswith("DLA") != device.startswith("DLA"):
            raise UsageError(
                f"it places {name} on {device}, the artifact was built with it on {built}",
                where=where,
                hint="build the artifact from this placement: edgedla build --placement",
            )
    return (cores[0] if cores else "GPU",)


def _model_of(document: Placement, artifact: Artifact, where: str) -> PlacedModel:
    sha256, name = artifact.model.get("sha256"), artifact.model.get("name")
    for model in document.models:
        if model.sha256 == sha256 if model.sha256 else model.name == name:
            return model
    raise UsageError(
        f"it does not hold the artifact's model {name}",
        where=where,
        allowed=", ".join(f"{m.name} ({m.sha256[:12]})" for m in document.models),
        hint="place the model again",
    )
