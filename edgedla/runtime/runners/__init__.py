"""Runners by kind. To add one, write its file and a branch in open_runners."""

from __future__ import annotations

from typing import List, Optional, Sequence

from edgedla.builder.artifact import Artifact
from edgedla.errors import UsageError
from edgedla.runtime.runners.base import Runner, Ticket, outputs_as_arrays

DEVICES = ("GPU", "DLA0", "DLA1")


def open_runners(artifact: Artifact, devices: Optional[Sequence[str]] = None) -> List[Runner]:
    """One runner a device, in the order of `devices`.

    Args:
        devices: names of DEVICES for an artifact built with TensorRT (default: DLA0); for a host artifact the names only
            label the simulated runners (default: one, "host").

    Raises:
        UsageError: an unknown or repeated device. EnvironmentMissing: TensorRT, CUDA, cuDLA or the core is not here.
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
    opened: List[Runner] = []
    try:
        for name in wanted or ["DLA0"]:
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


__all__ = ["DEVICES", "Runner", "Ticket", "open_runners", "outputs_as_arrays"]
