"""What runners on CUDA share: a thread with the context, a stream, and one shared buffer a binding."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Protocol

import numpy as np

from edgedla.builder.artifact import Artifact
from edgedla.errors import RunError
from edgedla.runtime.cuda_memory import CudaContext
from edgedla.runtime.runners.base import ThreadedRunner


class Memory(Protocol):
    """Where buffers and streams come from: CudaContext on a device, host memory in tests."""

    def push(self) -> None: ...
    def pop(self) -> None: ...
    def stream(self) -> Any: ...
    def buffer(self, size_bytes: int) -> Any: ...


class CudaRunner(ThreadedRunner):
    """Subclasses open the engine in `_start`, queue it in `_enqueue` and close it in `_stop`, all on the runner's thread.

    Args:
        memory: makes the CUDA context's wrapper; called on the runner's thread.
    """

    def __init__(self, artifact: Artifact, name: str, memory: Callable[[], Memory] = CudaContext) -> None:
        super().__init__(name, artifact.bindings, simulated=False)
        self.artifact = artifact
        self._memory = memory
        self._buffers: Dict[str, Any] = {}
        self._pushed = False
        try:
            self._worker.submit(self._open).result()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._context = self._memory()
        self._context.push()
        self._pushed = True
        self._stream: Any = self._context.stream()
        for b in self.bindings:
            self._buffers[b.name] = self._context.buffer(b.size_bytes)
        self._start()

    def _start(self) -> None:
        raise NotImplementedError

    def _enqueue(self, pointers: Mapping[str, int]) -> None:
        """Queues one inference on `_stream`; `pointers` holds the device address of every binding."""
        raise NotImplementedError

    def _check(self) -> None:
        """Called once the stream is done: raises RunError if the device failed on the way."""

    def _stop(self) -> None:
        """Closes what `_start` opened; called also where `_start` failed half-way."""

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        pointers: Dict[str, int] = {}
        for b in self.bindings:
            buffer = self._buffers[b.name]
            pointers[b.name] = buffer.pointer
            if not b.is_input:
                continue
            given = inputs.get(b.name)
            if given is None or given.nbytes != b.size_bytes:
                found = "nothing" if given is None else f"{given.nbytes} bytes"
                raise RunError(f"input {b.name} is {found}", where=self.name, allowed=f"{b.size_bytes} bytes")
            here = getattr(given, "pointer", None)
            if here:
                # Written by the CUDA preprocessing: it lies where the engine can read it.
                pointers[b.name] = here
                continue
            buffer.host[:] = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
            buffer.upload(self._stream)
        self._enqueue(pointers)
        for b in self.bindings:
            if not b.is_input:
                self._buffers[b.name].download(self._stream)
        self._stream.synchronize()
        self._check()
        # A copy: the buffers are used again by the next inference while the caller still reads this one's result.
        return {b.name: self._buffers[b.name].host.copy() for b in self.bindings if not b.is_input}

    def _release(self) -> None:
        try:
            self._stop()
        finally:
            for buffer in self._buffers.values():
                buffer.free()
            self._buffers = {}
            if self._pushed:
                self._pushed = False
                self._context.pop()
