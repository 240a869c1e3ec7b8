"""An artifact of any backend as a function of arrays, so that it can be scored."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import numpy as np

from edgedla.accuracy.evaluate import FED_TYPES, Network, first_fault_of
from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import UsageError
from edgedla.quantization.samples import InputSpec


class ArtifactRunner:
    """Runs an artifact on arrays in real values: simulated for one of the host backend, on the device for any other."""

    def __init__(self, artifact: Artifact) -> None:
        """Raises EnvironmentMissing if this machine lacks the device that the artifact needs."""
        self.artifact = artifact
        self._runners: List[Any] = []
        if artifact.backend == "host":
            from edgedla.builder.chain.host_chain import open_host

            self._host = open_host(artifact)
        else:
            from edgedla.runtime.runners import open_runners

            self._runners = open_runners(artifact)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """One inference.

        Args:
            inputs: input name -> array of the binding's shape, in real values.

        Raises:
            UsageError: an input is missing or unknown, of another shape, or not of numbers.
        """
        inputs = self._checked(inputs)
        if not self._runners:
            outputs = self._host.run_arrays(inputs)
            return {b.name: np.asarray(outputs[b.name]) for b in self.artifact.outputs}
        from edgedla.runtime.runners.network import run_once

        return run_once(self.artifact, self._runners[0], inputs)

    def _checked(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        try:
            arrays = {name: np.asarray(array) for name, array in inputs.items()}
        except ValueError as e:
            raise UsageError(f"an input is not an array: {e}", where="inputs", allowed="arrays of numbers") from e
        shapes = {b.name: tuple(b.shape_nchw) for b in self.artifact.inputs}
        if set(arrays) != set(shapes):
            raise UsageError(f"arrays for {', '.join(sorted(arrays)) or 'no input'}", where="inputs", allowed=", ".join(shapes))
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise UsageError(f"input {name!r} holds {array.dtype}", where="inputs", allowed="real numbers")
            if array.shape != shapes[name]:
                raise UsageError(f"input {name!r} of shape {list(array.shape)}", where="inputs", allowed=str(list(shapes[name])))
        return arrays

    def close(self) -> None:
        for runner in self._runners:
            runner.close()
        self._runners = []


def artifact_network(artifact: Artifact, name: str) -> Tuple[Network, ArtifactRunner]:
    """(the artifact as a Network to score, its runner, which the caller must close)."""
    runner = ArtifactRunner(artifact)
    specs = tuple(InputSpec(b.name, tuple(b.shape_nchw), FED_TYPES[b.dtype]) for b in artifact.inputs)
    basis = "simulated" if artifact.simulated else "measured"
    names = tuple(b.name for b in artifact.outputs)
    return Network(name, basis, specs, names, runner.run, first_fault=first_fault_of(artifact)), runner
