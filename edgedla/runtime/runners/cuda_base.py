"""What runners on CUDA share: a thread with the context, a stream, and one shared buffer a binding."""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np

from edgedla.builder.artifact import Artifact
from edgedla.errors import RunError
from edgedla.runtime.cuda_memory import CudaContext, SharedBuffer
from edgedla.runtime.runners.base import ThreadedRunner


class CudaRunner(ThreadedRunner):
    """Subclasses open the engine in `_start`, queue it in `_enqueue` and close it in `_stop`, all on the runner's thread."""

    def __init__(self, artifact: Artifact, name: str) -> None:
        super().__init__(name, artifact.bindings, simulated=False)
        self.artifact = artifact
        self._buffers: Dict[str, SharedBuffer] = {}
        try:
            self._executor.submit(self._open).result()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._context = CudaContext()
        self._context.push()
        self._stream: Any = self._context.driver.Stream()
        self._buffers = {b.name: SharedBuffer(self._context, b.size_bytes) for b in self.bindings}
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _enqueue(self) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        """Closes what `_start` opened."""

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        for b in self.bindings:
            if not b.is_input:
                continue
            given = inputs.get(b.name)
            if given is None or given.nbytes != b.size_bytes:
                found = "nothing" if given is None else f"{given.nbytes} bytes"
                raise RunError(f"input {b.name} is {found}", where=self.name, allowed=f"{b.size_bytes} bytes")
            self._buffers[b.name].host[:] = given.reshape(-1).view(np.uint8)
            self._buffers[b.name].upload(self._stream)
        self._enqueue()
        for b in self.bindings:
            if not b.is_input:
                self._buffers[b.name].download(self._stream)
        self._stream.synchronize()
        # A copy: the buffers are used again by the next inference while the caller still reads this one's result.
        return {b.name: self._buffers[b.name].host.copy() for b in self.bindings if not b.is_input}

    def _release(self) -> None:
        self._stop()
        for buffer in self._buffers.values():
            buffer.free()
        self._buffers = {}
        if hasattr(self, "_context"):
            self._context.pop()
