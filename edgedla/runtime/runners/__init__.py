"""Runners by kind. To add one, write its file and a branch in open_runners."""

from __future__ import annotations

from typing import List, Optional, Sequence

from edgedla.builder.artifact import Artifact
from edgedla.errors import UsageError
from edgedla.runtime.runners.base import Runner, Ticket, outputs_as_arrays

DEVICES = ("GPU", "DLA0", "DLA1")


def uses_dla(artifact: Artifact) -> bool:
    """True where the artifact holds DLA work: a loadable, or layers on a DLA (as built, or else as planned)."""
    placement = artifact.placement_predicted if artifact.placement_real is None else artifact.placement_real
    return artifact.kind == "standalone" or any(device.startswith("DLA") for device in placement.values())


def check_device(artifact: Artifact, name: str) -> None:
    """Raises UsageError where the artifact was not built for the device.

    TensorRT would not refuse: an engine with DLA layers takes core 0 where no core is chosen, and an engine without them
    runs on the GPU whatever core is chosen.
    """
    where = str(artifact.folder or artifact.model.get("name"))
    if name == "GPU" and uses_dla(artifact):
        raise UsageError(
            "the artifact has DLA layers: it cannot run on the GPU alone",
            where=where,
            allowed="DLA0, DLA1",
            hint="build a second artifact with `--layer-devices '*:GPU'`, and name it: --device GPU=ARTIFACT",
        )
    if name.startswith("DLA") and not uses_dla(artifact):
        raise UsageError(
            f"the artifact has no DLA layer: on {name} nothing of it would run",
            where=where,
            allowed="GPU",
        )


def open_runners(artifact: Artifact, devices: Optional[Sequence[str]] = None) -> List[Runner]:
    """One runner a device, in the order of `devices`.

    Args:
        devices: names of DEVICES for an artifact built with TensorRT (default: DLA0, or GPU where it uses no DLA); for a
            host artifact the names only label the simulated runners (default: one, "host").

    Raises:
        UsageError: an unknown or repeated device, or one that the artifact was not built for.
        EnvironmentMissing: TensorRT, CUDA, cuDLA or the core is not here.
    """
    wanted = list(devices or ())
    for name in wanted:
        if name not in DEVICES and not (artifact.backend == "host" and name == "host"):
            raise UsageError(f"unknown device {name!r}", allowed=", ".join(DEVICES))
    if len(set(wanted)) != len(wanted):
        raise UsageError(f"a device stands twice: {', '.join(wanted)}")
    if artifact.backend == "host":
        from edgedla.runtime.runners.host import HostRunner

        return [HostRunner(artifact, name) for name in wanted or ["host"]]
    wanted = wanted or ["DLA0" if uses_dla(artifact) else "GPU"]
    for name in wanted:
        check_device(artifact, name)
    opened: List[Runner] = []
    try:
        for name in wanted:
            if artifact.kind == "standalone":
                from edgedla.runtime.runners.cudla import CudlaRunner

                opened.append(CudlaRunner(artifact, name))
            else:
                from edgedla.runtime.runners.tensorrt_engine import TensorRtRunner

                opened.append(TensorRtRunner(artifact, name))
    except BaseException:
        for runner in opened:
            runner.close()
        raise
    return opened


__all__ = ["DEVICES", "Runner", "Ticket", "check_device", "open_runners", "outputs_as_arrays", "uses_dla"]
