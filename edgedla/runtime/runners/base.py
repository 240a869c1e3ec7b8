"""The interface of every runner: input and output buffers in the artifact's formats."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.builder.host.session import binding_layout
from edgedla.errors import RunError, described
from edgedla.formats.pack import unpack
from edgedla.runtime.runners.worker import Worker

log = logging.getLogger("edgedla.runtime.runners")

#: A submitted inference; `wait` turns it into output buffers.
Ticket = Future


class Runner(Protocol):
    """One engine instance on one device. `submit` and `wait` may be called from different threads; close only once.

    Attributes:
        name: where it runs: host, GPU, DLA0, DLA1, fake, or a chain's devices in order (DLA0+DLA1).
        simulated: True if results or times are not a device's.
        bindings: of the artifact.
        depth: most inferences in flight.

    A chain also has `stage_count` and `stages()`; a runner without them is a single stage.
    """

    name: str
    simulated: bool
    bindings: Tuple[Binding, ...]
    depth: int

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Ticket:
        """Queues one inference.

        Args:
            inputs: binding name -> buffer of `size_bytes` bytes; must not be changed until `wait` returns.
        """
        ...

    def wait(self, ticket: Ticket, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
        """The output buffers by binding name.

        Raises:
            RunError: the inference failed or took longer than `timeout_s`.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Runner: ...

    def __exit__(self, *reason: object) -> None: ...


class ThreadedRunner:
    """A runner whose `_infer` runs on its own thread: the base of the host, fake and TensorRT runners.

    One thread is enough: a device runs one inference after another, and a TensorRT context belongs to one thread.
    """

    #: Seconds that `close` waits for a hanging inference before it abandons the thread.
    close_timeout_s = 5.0

    def __init__(self, name: str, bindings: Tuple[Binding, ...], simulated: bool, depth: int = 2) -> None:
        self.name, self.bindings, self.simulated, self.depth = name, bindings, simulated, depth
        self._worker = Worker(f"edgedla-{name}")
        self._closed = False

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        raise RunError(f"{type(self).__name__} has no inference")

    def _release(self) -> None:
        """Frees the runner's resources; called on the runner's own thread."""

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Ticket:
        if self._closed:
            raise RunError("the runner is closed", where=self.name)
        return self._worker.submit(self._infer, inputs)

    def wait(self, ticket: Ticket, timeout_s: Optional[float] = None) -> Dict[str, np.ndarray]:
        return result_of(ticket, self.name, timeout_s)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        released = self._worker.submit(self._release)
        if not self._worker.close(self.close_timeout_s):
            log.warning("%s: an inference hangs; its thread is abandoned", self.name)
        elif released.exception() is not None:
            log.warning("%s: closing: %s", self.name, described(released.exception()))

    def __enter__(self) -> ThreadedRunner:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def result_of(ticket: Ticket, name: str, timeout_s: Optional[float]) -> Dict[str, np.ndarray]:
    """The ticket's result, or RunError: implements `wait` for a runner called `name`."""
    from concurrent.futures import TimeoutError as Late

    try:
        outputs: Dict[str, np.ndarray] = ticket.result(timeout_s)
    except BaseException as e:
        # TimeoutError may be the inference's own, and KeyboardInterrupt ours: only the ticket knows. `done` alone is not enough:
        # the inference may have ended since.
        if ticket.done() and (ticket.cancelled() or ticket.exception() is e):
            raise inference_error(e, name) from e
        if isinstance(e, Late):
            raise RunError(f"no result within {timeout_s} s", where=name) from None
        raise
    return outputs


def inference_error(error: BaseException, name: str) -> RunError:
    """An inference's exception as an error of ours."""
    if isinstance(error, RunError):
        return error
    return RunError(f"the inference failed: {described(error)}", where=name)


def stages_of(runner: Runner) -> List[Dict[str, Any]]:
    """ChainRunner.stages() for a chain; [] for a runner of one engine."""
    tell = getattr(runner, "stages", None)
    stages: List[Dict[str, Any]] = tell() if tell is not None else []
    return stages


def forget_times(runner: Runner) -> None:
    """Restarts the times of a chain's stages, for example after a warm-up; a runner of one engine keeps none."""
    forget = getattr(runner, "forget_times", None)
    if forget is not None:
        forget()


def open_all(makers: Iterable[Callable[[], Runner]]) -> List[Runner]:
    """The makers' runners; if one fails, closes those made before."""
    opened: List[Runner] = []
    try:
        for make in makers:
            opened.append(make())
    except BaseException:
        close_side_by_side(opened, ThreadedRunner.close_timeout_s)
        raise
    return opened


def close_side_by_side(runners: Sequence[Runner], timeout_s: float) -> None:
    """Closes all runners in parallel, so that several hanging ones take the time of one; abandons them after `timeout_s`."""
    threads = [threading.Thread(target=_close, args=(r,), daemon=True) for r in runners]
    for t in threads:
        t.start()
    deadline = time.monotonic() + timeout_s
    for t in threads:
        t.join(max(0.0, deadline - time.monotonic()))


def _close(runner: Runner) -> None:
    try:
        runner.close()
    except Exception as e:
        log.warning("%s: closing: %s", runner.name, described(e))


def outputs_as_arrays(artifact: Artifact, buffers: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Output buffers as NCHW arrays in real values (INT8 multiplied by the binding's scale)."""
    chip = str(artifact.platform["chip"])
    # A chain's output has the memory layout of its stage's engine.
    kinds = {b.name: s.artifact.kind for s in artifact.stages for b in s.artifact.outputs}
    return {
        b.name: unpack(buffers[b.name], binding_layout(b, chip, kinds.get(b.name, artifact.kind) != "standalone"), scale=b.scale)
        for b in artifact.outputs
    }
