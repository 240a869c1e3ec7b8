"""An artifact on its device as a network for `evaluate`: takes and returns arrays as before any change by `fix`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Dict, Optional

import numpy as np

from edgedla.accuracy.evaluate import FED_TYPES, Network, artifact_network
from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.host.session import binding_layout
from edgedla.errors import UsageError
from edgedla.formats.pack import pack
from edgedla.quantization.samples import Feed, InputSpec
from edgedla.runtime.runners import Runner, open_runners, outputs_as_arrays

#: A longer inference counts as hanging.
TIMEOUT_S = 60.0


def device_network(artifact: Artifact, name: str, stack: ExitStack) -> Network:
    """Opens the artifact on its own device; `stack` closes it. Its figures are "measured", unless the runner simulates.

    Raises:
        UsageError: an input of a type without samples. EnvironmentMissing: TensorRT, CUDA, cuDLA or the core is missing.
    """
    unknown = [b for b in artifact.inputs if b.dtype not in FED_TYPES]
    if unknown:
        raise UsageError(f"{unknown[0].name} has the type {unknown[0].dtype}", allowed=", ".join(FED_TYPES))
    runner = stack.enter_context(open_runners(artifact)[0])
    inputs = tuple(InputSpec(b.name, tuple(b.shape_nchw), FED_TYPES[b.dtype]) for b in artifact.inputs)
    basis = "simulated" if runner.simulated else "measured"
    return artifact_network(artifact, name, basis, inputs, lambda feed: run_once(artifact, runner, feed, TIMEOUT_S))


def run_once(artifact: Artifact, runner: Runner, feed: Feed, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
    """The outputs of one inference; inputs and outputs in real values."""
    chip = str(artifact.platform["chip"])
    fallback = artifact.kind != "standalone"
    buffers = {b.name: pack(np.asarray(feed[b.name]), binding_layout(b, chip, fallback), scale=b.scale) for b in artifact.inputs}
    return outputs_as_arrays(artifact, runner.wait(runner.submit(buffers), timeout_s))
