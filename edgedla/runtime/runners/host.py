"""The host runner: a host artifact in ONNX Runtime with the DLA's precision simulated. Its times say nothing of a Jetson."""

from __future__ import annotations

from typing import Dict, Mapping

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.host.session import HostSession
from edgedla.runtime.runners.base import ThreadedRunner


class HostRunner(ThreadedRunner):
    def __init__(self, artifact: Artifact, name: str = "host") -> None:
        # Before the thread is made: if ONNX Runtime refuses the model, no thread is left.
        self._session = HostSession(artifact)
        super().__init__(name, artifact.bindings, simulated=True)

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        return self._session.run(inputs)

    def _release(self) -> None:
        # ONNX Runtime's threads and memory go now, not when the collector finds the pipeline's cycles, which may be frozen.
        del self._session
