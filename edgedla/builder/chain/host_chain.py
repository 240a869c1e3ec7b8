"""Runs a host artifact of any kind on arrays: one engine's, or a chain's stages one after the other."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence, Union

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.host.session import HostSession
from edgedla.errors import UsageError
from edgedla.formats.pack import pack, unpack


class HostChain:
    """Runs the stages of a host chain in order, through the buffers between them. Simulated."""

    def __init__(self, stages: Sequence[Artifact]) -> None:
        """Args:
        stages: saved or loaded, in order.
        """
        self.sessions = [HostSession(artifact) for artifact in stages]
        made = {b.name for s in self.sessions for b in s.artifact.outputs}
        self._types = {b.name: s.input_type(b.name) for s in self.sessions for b in s.artifact.inputs if b.name not in made}

    def input_type(self, name: str) -> type:
        """NumPy type that `run_arrays` feeds an input of the network as."""
        return self._types[name]

    def run_arrays(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """All outputs of the stages for NCHW inputs in real values.

        Tensors between stages are rounded to their buffer's type; the network's inputs are not.

        Raises:
            UsageError: an input is missing or unknown. RunError: ONNX Runtime fails.
        """
        if set(inputs) != set(self._types):
            raise UsageError(
                f"arrays for {', '.join(sorted(inputs)) or 'no input'}", where="inputs", allowed=", ".join(sorted(self._types))
            )
        values: Dict[str, np.ndarray] = dict(inputs)
        read = {b.name for s in self.sessions for b in s.artifact.inputs}
        for session in self.sessions:
            outputs = session.run_arrays({b.name: values[b.name] for b in session.artifact.inputs})
            for b in session.artifact.outputs:
                made = session.as_bound(b, outputs[b.name])
                if b.name in read:
                    buffer = session.layouts[b.name]
                    made = unpack(pack(made, buffer, scale=b.scale), buffer, scale=b.scale)
                values[b.name] = made
        return values

    def run(self, names: Sequence[str], feed: Mapping[str, np.ndarray]) -> List[np.ndarray]:
        """Same interface as `InferenceSession.run`."""
        outputs = self.run_arrays(feed)
        return [outputs[name] for name in names]


def open_host(artifact: Artifact) -> Union[HostSession, HostChain]:
    """Opens a host artifact of any kind for inference.

    Raises:
        DocumentError: a host model is missing. ModelError: ONNX Runtime refuses one.
    """
    if artifact.kind == "chain":
        return HostChain([stage.artifact for stage in artifact.stages])
    return HostSession(artifact)
