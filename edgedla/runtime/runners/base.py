"""What every runner offers: buffers in the artifact's formats in, buffers in the artifact's formats out."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Dict, Mapping, Optional, Protocol, Tuple

import numpy as np

from edgedla.builder.artifact import Artifact, Binding
from edgedla.builder.host_session import binding_layout
from edgedla.errors import RunError
from edgedla.formats.pack import unpack

#: A submitted inference; `wait` turns it into output buffers.
Ticket = Future


class Runner(Protocol):
    """One engine instance on one device. `submit` and `wait` may be called from different threads; close only once.

    Attributes:
        name: where it runs: host, GPU, DLA0, DLA1, fake.
        simulated: True where results or times are not those of a device.
        bindings: of the artifact.
        depth: inferences that may be under way at once.
    """

    name: str
    simulated: bool
    bindings: Tuple[Binding, ...]
    depth: int

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Ticket:
        """Queues one inference.

        Args:
            inputs: binding name -> buffer of `size_bytes` bytes; not written to until `wait` returns.
        """
        ...

    def wait(self, ticket: Ticket, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
        """The output buffers, by binding name.

        Raises:
            RunError: the inference failed or took longer than `timeout_s`.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Runner: ...

    def __exit__(self, *reason: Any) -> None: ...


class ThreadedRunner:
    """A runner whose `_infer` runs on a thread of its own: the base of the host, fake and TensorRT runners."""

    def __init__(self, name: str, bindings: Tuple[Binding, ...], simulated: bool, depth: int = 2) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.name, self.bindings, self.simulated, self.depth = name, bindings, simulated, depth
        # One worker: a device runs one inference after another, and TensorRT contexts belong to one thread.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"edgedla-{name}")
        self._closed = False

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        raise RunError(f"{type(self).__name__} has no inference")

    def _release(self) -> None:
        """Frees what the runner holds; called on the runner's own thread."""

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Ticket:
        if self._closed:
            raise RunError("the runner is closed", where=self.name)
        return self._executor.submit(self._infer, inputs)

    def wait(self, ticket: Ticket, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
        from concurrent.futures import TimeoutError as Late

        try:
            found: Dict[str, np.ndarray] = ticket.result(timeout_s)
        except Late:
            raise RunError(f"no result within {timeout_s} s", where=self.name) from None
        except RunError:
            raise
        except Exception as e:
            raise RunError(f"the inference failed: {e!r}", where=self.name) from e
        return found

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._executor.submit(self._release)
            self._executor.shutdown(wait=True)

    def __enter__(self) -> ThreadedRunner:
        return self

    def __exit__(self, *reason: Any) -> None:
        self.close()


def outputs_as_arrays(artifact: Artifact, buffers: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Output buffers as NCHW arrays in real values (INT8 multiplied by the binding's scale)."""
    chip, fallback = str(artifact.platform["chip"]), artifact.kind != "standalone"
    return {b.name: unpack(buffers[b.name], binding_layout(b, chip, fallback), scale=b.scale) for b in artifact.outputs}
