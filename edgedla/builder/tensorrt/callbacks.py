"""TensorRT's callbacks: one logger for the whole process, a progress monitor, and the interruption by Ctrl-C.

The naming rule of builder/tensorrt/api.py holds here too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional

log = logging.getLogger("edgedla.runtime.tensorrt")
Progress = Callable[[str], None]
#: Called with TensorRT's severity and text.
Receiver = Callable[[str, str], None]

#: TensorRT's severities by name; INFO and VERBOSE are logged as DEBUG.
_LEVELS = {"INTERNAL_ERROR": logging.ERROR, "ERROR": logging.ERROR, "WARNING": logging.WARNING}
#: One logger for each tensorrt module, never given back: the plugin registry and the objects made with a logger keep its
#: bare address, and the bindings keep no reference to it.
_LOGGERS: Dict[Any, Any] = {}


def process_logger(trt: Any) -> Any:
    """The process's one logger: it writes to Python's logging, or to the innermost `receiving`."""
    if trt in _LOGGERS:
        return _LOGGERS[trt]

    class Forward(trt.ILogger):
        """Hands on what TensorRT logs: its own logger would write it among our results."""

        def __init__(self) -> None:
            # pybind11 refuses an object whose base class was not initialised by name.
            trt.ILogger.__init__(self)
            self.receivers = [_to_logging]

        def log(self, severity: Any, msg: str) -> None:
            self.receivers[-1](severity.name, msg)

    return _LOGGERS.setdefault(trt, Forward())


@contextlib.contextmanager
def receiving(logger: Any, receiver: Receiver) -> Iterator[None]:
    """TensorRT's lines go to `receiver` until the block ends."""
    logger.receivers.append(receiver)
    try:
        yield
    finally:
        logger.receivers.remove(receiver)


@contextlib.contextmanager
def overheard(logger: Any) -> Iterator[List[str]]:
    """TensorRT's lines go where they went, and into the list: what it says itself of a call that returns nothing."""
    lines: List[str] = []
    before = logger.receivers[-1]

    def receive(severity: str, text: str) -> None:
        lines.append(text)
        before(severity, text)

    with receiving(logger, receive):
        yield lines


def _to_logging(severity: str, text: str) -> None:
    log.log(_LEVELS.get(severity, logging.DEBUG), "TensorRT: %s", text)


class Interruption:
    """The reason to end a build: Ctrl-C, or an exception of a callback, which TensorRT's C++ side swallows."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None

    def note(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error

    def raise_noted(self) -> None:
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def interruptible(interruption: Interruption, progress: Optional[Progress], can_stop: bool) -> Iterator[None]:
    """Notes Ctrl-C instead of raising it inside of TensorRT; a second one ends the process at once.

    While TensorRT builds, no Python code runs on the main thread, so a thread reads the signals from a socket.

    Args:
        can_stop: a progress monitor can end the build (TensorRT 10 and later).
    """
    usual = threading.current_thread() is threading.main_thread()
    if not usual or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # A caller with its own handler decides what Ctrl-C does.
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        while True:
            numbers = reader.recv(16)
            if not numbers:
                return
            for number in numbers:
                if number != signal.SIGINT:
                    continue
                if signals:
                    os._exit(130)
                signals.append(number)
                interruption.note(KeyboardInterrupt())
                if progress is not None:
                    text = "the build ends at TensorRT's next step" if can_stop else "this TensorRT cannot stop a build"
                    progress(f"Ctrl-C: {text}; Ctrl-C again ends edgedla at once")

    signals: list = []
    thread = threading.Thread(target=watch, name="edgedla-ctrl-c", daemon=True)
    before = signal.signal(signal.SIGINT, lambda *_: interruption.note(KeyboardInterrupt()))
    woken_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        signal.signal(signal.SIGINT, before)
        writer.close()
        thread.join()
        reader.close()


def monitor(trt: Any, progress: Optional[Progress], interruption: Interruption) -> Any:
    """A monitor that reports the builder's phase and ends the build after an interruption; None before TensorRT 10."""
    if not hasattr(trt, "IProgressMonitor"):
        return None

    class Monitor(trt.IProgressMonitor):
        """No exception may leave a method: TensorRT swallows it and builds on."""

        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: Optional[str], num_steps: int) -> None:
            try:
                if progress is not None:
                    progress(phase_name)
            except BaseException as e:
                interruption.note(e)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return interruption.error is None

        def phase_finish(self, phase_name: str) -> None:
            return None

    return Monitor()
