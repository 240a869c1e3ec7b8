"""Runners by kind. To add one, write its file and a branch in open_runners."""

from __future__ import annotations

import functools
from typing import List, Optional, Sequence

from edgedla.builder.artifact.artifact import BARE_ENGINE, Artifact, Stage
from edgedla.errors import UsageError
from edgedla.runtime.runners.base import Runner, close_side_by_side, open_all, outputs_as_arrays
from edgedla.runtime.runners.chain import ChainRunner, chain_name
from edgedla.vocabulary import DEVICES


def uses_dla(artifact: Artifact) -> bool:
    """True if the artifact contains DLA work: a loadable, or layers on a DLA (as built if known, else as planned)."""
    if artifact.kind == "chain":
        return any(uses_dla(stage.artifact) for stage in artifact.stages)
    placement = artifact.placement_predicted if artifact.placement_real is None else artifact.placement_real
    return artifact.kind == "standalone" or any(device.startswith("DLA") for device in placement.values())


def check_device(artifact: Artifact, name: str) -> None:
    """Raises UsageError if the artifact was not built for the device.

    TensorRT would not refuse: an engine with DLA layers uses core 0 if no core is chosen, and an engine without them runs on
    the GPU whatever core is chosen.
    """
    where = str(artifact.folder or artifact.model.get("name"))
    if artifact.kind == BARE_ENGINE and artifact.placement_real is None:
        return
    if name == "GPU" and uses_dla(artifact):
        raise UsageError(
            "the artifact has DLA layers: it cannot run on the GPU alone",
            where=where,
            allowed="DLA0, DLA1",
            hint="build a second artifact with `--layer-devices '*:GPU'`, and name it: --device GPU=ARTIFACT",
        )
    if name.startswith("DLA") and not uses_dla(artifact):
        raise UsageError(f"the artifact has no DLA layer: nothing of it would run on {name}", where=where, allowed="GPU")


def check_chain_devices(chain: Artifact, names: Sequence[str]) -> None:
    """Raises UsageError unless `names` are the chain's own devices: its name ("DLA0+DLA1"), or each device, in any order."""
    stage_devices = [stage.device for stage in chain.stages]
    given = [name for text in names for name in text.split("+")]
    if set(given) != set(stage_devices):
        raise UsageError(
            f"the artifact is a chain over {chain_name(chain)}: it cannot run on {', '.join(names)}",
            where=str(chain.folder or chain.model.get("name")),
            allowed=chain_name(chain),
            hint="leave the devices out: a chain has its own. To give both cores frames in turn, build the model for one core",
        )


def open_runners(artifact: Artifact, devices: Optional[Sequence[str]] = None) -> List[Runner]:
    """One runner per device, in the order of `devices`; for a chain, one runner over all its stages.

    Args:
        devices: names of DEVICES for an artifact built with TensorRT (default: DLA0, or GPU if it uses no DLA); for a host
            artifact the names only label the simulated runners (default: one, "host"). A chain has its own devices, which
            may only be repeated here.

    Raises:
        UsageError: an unknown or repeated device, or one that the artifact was not built for.
        EnvironmentMissing: TensorRT, CUDA, cuDLA or the core is missing.
    """
    names = list(devices or ())
    if artifact.kind == "chain":
        if names:
            check_chain_devices(artifact, names)
        return [_open_chain(artifact)]
    for name in names:
        if name not in DEVICES and not (artifact.backend == "host" and name == "host"):
            raise UsageError(f"unknown device {name!r}", allowed=", ".join(DEVICES))
    if len(set(names)) != len(names):
        raise UsageError(f"a device is given twice: {', '.join(names)}")
    if artifact.backend == "host":
        from edgedla.runtime.runners.host import HostRunner

        return [HostRunner(artifact, name) for name in names or ["host"]]
    names = names or [_default_device(artifact)]
    for name in names:
        check_device(artifact, name)
    return open_all([functools.partial(_open_one, artifact, name) for name in names])


def _default_device(artifact: Artifact) -> str:
    if artifact.kind != BARE_ENGINE:
        return "DLA0" if uses_dla(artifact) else "GPU"
    if artifact.placement_real is None:
        # The core makes no difference for an engine without DLA layers, and one with them needs a core.
        return "DLA0" if artifact.platform.get("dla_cores") else "GPU"
    return next((d for d in sorted(set(artifact.placement_real.values())) if d.startswith("DLA")), "GPU")


def _open_one(artifact: Artifact, name: str) -> Runner:
    if artifact.kind == "standalone":
        from edgedla.runtime.runners.cudla import CudlaRunner

        return CudlaRunner(artifact, name)
    from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner

    return TensorRtRunner(artifact, name)


def _open_stage(stage: Stage) -> Runner:
    return open_runners(stage.artifact, [stage.device])[0]


def _open_chain(chain: Artifact) -> ChainRunner:
    stages = open_all([functools.partial(_open_stage, stage) for stage in chain.stages])
    try:
        return ChainRunner(chain, stages)
    except BaseException:
        close_side_by_side(stages, ChainRunner.close_timeout_s)
        raise


__all__ = ["Runner", "chain_name", "check_chain_devices", "check_device", "open_runners", "outputs_as_arrays", "uses_dla"]
