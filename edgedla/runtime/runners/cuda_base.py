"""The base of runners on CUDA: a thread with the context, a stream, and one shared buffer per binding."""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque, Dict, Iterable, Mapping, Optional, Protocol, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import DeviceLost, RunError, described
from edgedla.processes.guard import device_work
from edgedla.runtime.cuda.driver import DriverContext
from edgedla.runtime.runners.base import ThreadedRunner


class Memory(Protocol):
    """Makes buffers and streams: DriverContext on a device, host memory in tests."""

    def push(self) -> None: ...
    def pop(self) -> None: ...
    def stream(self, non_blocking: bool = False) -> Any: ...
    def buffer(self, size_bytes: int, mapped: Optional[bool] = None) -> Any: ...


class CudaRunner(ThreadedRunner):
    """Subclasses open the engine in `_start`, queue it in `_enqueue` and close it in `_stop`, all on the runner's thread.

    Args:
        memory: makes the CUDA context; called on the runner's thread.
    """

    #: Engines with their own queue need a stream that does not wait for the default one.
    non_blocking = False
    #: One memory for CPU and device, or two with copies; None: as the board has it.
    mapped: Optional[bool] = None

    def __init__(self, artifact: Artifact, name: str, memory: Callable[[], Memory] = DriverContext) -> None:
        super().__init__(name, artifact.bindings, simulated=False)
        self.artifact = artifact
        self._memory = memory
        self._buffers: Dict[str, Any] = {}
        self._free: Dict[str, Deque[Any]] = {}
        self._lent: Dict[int, Tuple[str, Any]] = {}
        self._pushed = False
        self._stream: Any = None
        try:
            self._worker.submit(self._open).result()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with device_work(RunError):
            self._context = self._memory()
            self._context.push()
            self._pushed = True
            self._stream = self._context.stream(self.non_blocking)
            for b in self.bindings:
                self._buffers[b.name] = self._context.buffer(b.size_bytes, self.mapped)
            self._start()

    def keep(self, names: Iterable[str]) -> None:
        """From now on these outputs stay where the device writes them: `wait` returns DeviceArrays for another CUDA runner.

        Each inference gets its own buffer for them, until `give_back`. Except on a Jetson, their bytes on the host are not
        written. Call it before the first inference.
        """
        self._free = {name: collections.deque([self._buffers[name]]) for name in names}

    def give_back(self, array: np.ndarray) -> None:
        """Releases the buffer of a kept output: it may be overwritten, so the array must not be read any more."""
        lent = self._lent.pop(getattr(array, "pointer", None) or 0, None)
        if lent is not None and lent[0] in self._free:
            self._free[lent[0]].append(lent[1])

    def _lend(self, name: str, size_bytes: int) -> Any:
        free = self._free[name]
        buffer = free.popleft() if free else self._context.buffer(size_bytes, self.mapped)
        self._lent[buffer.pointer] = (name, buffer)
        return buffer

    def _start(self) -> None:
        raise NotImplementedError

    def _enqueue(self, pointers: Mapping[str, int]) -> None:
        """Queues one inference on `_stream`; `pointers`: device address of every binding."""
        raise NotImplementedError

    def _check(self) -> None:
        """Called once the stream is done: raises RunError if the device failed."""

    def _finish(self) -> None:
        """Waits for the queued work.

        Raises:
            DeviceLost: it failed on the device; the text has CUDA's message and that of the engine's own library.
        """
        try:
            self._stream.synchronize()
        except Exception as e:
            reasons = [e.what if isinstance(e, RunError) else described(e)]
            # CUDA for Tegra, 9.1.5: the stream itself fails (error 911), and only the engine's library knows why.
            try:
                self._check()
            except Exception as why:
                reasons.append(why.what if isinstance(why, RunError) else described(why))
            raise DeviceLost(
                "the device failed: " + "; ".join(reasons),
                where=self.name,
                hint="CUDA cannot go on in this process: start it again (the service does so by itself)",
            ) from e
        self._check()

    def _stop(self) -> None:
        """Closes what `_start` opened; also called if `_start` failed midway."""

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        pointers: Dict[str, int] = {}
        for b in self.bindings:
            if not b.is_input:
                continue
            buffer = self._buffers[b.name]
            pointers[b.name] = buffer.pointer
            given = inputs.get(b.name)
            if given is None or given.nbytes != b.size_bytes:
                fault = "is missing" if given is None else f"has {given.nbytes} bytes"
                raise RunError(f"the input {b.name} {fault}", where=self.name, allowed=f"{b.size_bytes} bytes")
            address = getattr(given, "pointer", None)
            if address and (self.mapped is not False or not getattr(given, "mapped", True)):
                # Written by the CUDA preprocessing or by another engine, in memory that this engine can read.
                pointers[b.name] = address
                continue
            buffer.host[:] = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
            buffer.upload(self._stream)
        outputs = [b for b in self.bindings if not b.is_input]
        lent = {b.name: self._lend(b.name, b.size_bytes) for b in outputs if b.name in self._free}
        try:
            pointers.update({b.name: lent.get(b.name, self._buffers[b.name]).pointer for b in outputs})
            self._enqueue(pointers)
            for b in outputs:
                if b.name not in lent:
                    self._buffers[b.name].download(self._stream)
            self._finish()
        except BaseException:
            for buffer in lent.values():
                self.give_back(buffer.array())
            raise
        # A copy, because the next inference reuses the buffers while the caller still reads this result.
        return {b.name: lent[b.name].array() if b.name in lent else self._buffers[b.name].host.copy() for b in outputs}

    def _release(self) -> None:
        try:
            self._stop()
        finally:
            # Lent buffers stay: a hanging engine may still read them.
            spare = [buffer for name, free in self._free.items() for buffer in free]
            fixed = [buffer for name, buffer in self._buffers.items() if name not in self._free]
            for buffer in [*fixed, *spare]:
                buffer.free()
            self._buffers, self._free = {}, {}
            # Now, while the context is current: CUDA could not free it later.
            if self._stream is not None and hasattr(self._stream, "close"):
                self._stream.close()
            self._stream = None
            if self._pushed:
                self._pushed = False
                self._context.pop()
