"""`devices` of a pipeline: DLA0, DLA1, GPU, DEVICE=ARTIFACT for a device with an artifact of its own, a chain's name."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple, Union

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.errors import UsageError
from edgedla.runtime.runners import Runner, chain_name, check_chain_devices, open_runners
from edgedla.runtime.runners.base import open_all
from edgedla.runtime.runners.engine_file import open_built
from edgedla.vocabulary import DEVICES

if TYPE_CHECKING:
    from edgedla.placement.result.placement import PlacedModel, Placement


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
    """One runner per device, all of them for the same network with the same buffers.

    A GPU that shares the frames with DLA cores needs an engine of its own, since TensorRT fixes at build time which layers run
    on a DLA: `devices: [DLA0, DLA1, "GPU=gpu_artifact"]`.

    A chain is one runner over its own devices. They need not be said; beside another runner they are, together:
    `devices: [DLA0+DLA1, "GPU=gpu_artifact"]`.

    Raises:
        UsageError: an unknown or repeated device, one that a chain does not have, or artifacts whose bindings differ.
        DocumentError: an artifact is wrong. EnvironmentMissing: a device or library is not here.
    """
    pairs = [split_device(text) for text in devices]
    plain = [name for name, path in pairs if not path]
    _check_once([name for name, _ in pairs])
    if artifact.kind == "chain" and plain:
        check_chain_devices(artifact, plain)
        pairs = [(chain_name(artifact), "")] + [(name, path) for name, path in pairs if path]
    loaded: Dict[str, Artifact] = {}
    for _, path in pairs:
        if path and path not in loaded:
            loaded[path] = open_built(path)
            check_same_bindings(artifact, loaded[path])
    if not pairs:
        return open_runners(artifact)
    makers = [functools.partial(_open_one, loaded[path] if path else artifact, name) for name, path in pairs]
    return open_all(makers)


def _open_one(artifact: Artifact, name: str) -> Runner:
    return open_runners(artifact, [name])[0]


def _check_once(names: Sequence[str]) -> None:
    """A device takes one runner. The GPU may stand in a chain too: engines for a DLA use it in any case."""
    used: List[str] = []
    for name in names:
        parts = {part for part in name.split("+") if part != "GPU"} if "+" in name else {name}
        if parts & set(used):
            raise UsageError(f"a device is given twice: {', '.join(names)}")
        used += sorted(parts)


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


def _document(placement: Union[str, Path, Placement]) -> Tuple[Placement, str]:
    """(the placement, how messages call it)."""
    if not isinstance(placement, (str, Path)):
        return placement, "placement"
    # With it come solvers and costs, which a pipeline without a placement need not load.
    from edgedla.placement.result.document import read_placement

    return read_placement(placement), str(placement)


def _placed(model: PlacedModel, artifact: Artifact, where: str) -> Tuple[str, ...]:
    devices = {layer.name: layer.device for layer in model.running}
    cores = sorted({d for d in devices.values() if d.startswith("DLA")})
    chain = artifact.kind == "chain"
    if len(cores) > 1 and not chain:
        raise UsageError(
            f"it spreads {model.name} over {' and '.join(cores)}: one engine uses one DLA core",
            where=where,
            hint="build the model with `edgedla build --placement` of this file, which makes one engine per stage; or place it "
            "with one core (`edgedla place --devices GPU,DLA0`), and give both cores frames in turn: devices: [DLA0, DLA1]",
        )
    for name, device in sorted(devices.items()):
        built = artifact.placement_predicted.get(name)
        # One engine runs on whichever core it is given; the stages of a chain have theirs.
        if built is not None and (built != device if chain else built.startswith("DLA") != device.startswith("DLA")):
            raise UsageError(
                f"it places {name} on {device}, the artifact was built with it on {built}",
                where=where,
                hint="build the artifact from this placement: edgedla build --placement",
            )
    stages = [stage.device for stage in artifact.stages]
    used = sorted({d for d in stages if d.startswith("DLA")})
    if chain and used != cores:
        raise UsageError(
            f"it places {model.name} on {', '.join(cores) or 'the GPU'}, the artifact is a chain over {chain_name(artifact)}",
            where=where,
            hint="build the artifact from this placement: edgedla build --placement",
        )
    return (chain_name(artifact),) if chain else (cores[0] if cores else "GPU",)


def placed_together(
    placement: Union[str, Path, Placement], artifacts: Sequence[Artifact], whole: bool = True
) -> List[Tuple[str, ...]]:
    """The devices of the runner of each artifact, as the placement says: its core, GPU where it uses no DLA, or a chain's name.

    Args:
        whole: the placement may hold no other model: its times and memory are those of all models together.

    Raises:
        DocumentError: no placement. UsageError: it lacks an artifact's model or holds another, spreads it over both cores where
            the artifact is one engine, or the artifact was built from another placement.
    """
    document, where = _document(placement)
    devices: List[Tuple[str, ...]] = []
    left = list(document.models)
    for artifact in artifacts:
        # A model that is placed twice stands there twice, each with its own devices.
        model = _model_of(document, artifact, where, left)
        devices.append(_placed(model, artifact, where))
        left = [m for m in left if m is not model]
    unmatched = [m.name for m in left]
    if whole and unmatched:
        raise UsageError(
            f"it places {', '.join(unmatched)} too, which no model of the pipeline runs",
            where=where,
            hint="place the models of the pipeline together, or add the model",
        )
    return devices


def _model_of(document: Placement, artifact: Artifact, where: str, first: Sequence[PlacedModel]) -> PlacedModel:
    """Args:
    first: models of the document that are preferred.
    """
    sha256, name = artifact.model.get("sha256"), artifact.model.get("name")
    for model in (*first, *document.models):
        if model.sha256 == sha256 if model.sha256 else model.name == name:
            return model
    raise UsageError(
        f"it does not hold the artifact's model {name}",
        where=where,
        allowed=", ".join(f"{m.name} ({m.sha256[:12]})" for m in document.models),
        hint="place the model again",
    )
