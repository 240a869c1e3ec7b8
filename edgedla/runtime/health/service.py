"""Tells systemd that a pipeline runs and is alive (sd_notify): READY=1, WATCHDOG=1, STOPPING=1."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Iterator

from edgedla.runtime.pipeline.pipeline import Pipeline


def notify(message: str) -> bool:
    """Sends a message to systemd; False if there is no receiver (not started as a service)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address[0] == "@":
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.connect(address)
        s.sendall(message.encode())
        return True
    return False


@contextlib.contextmanager
def as_service(pipeline: Pipeline) -> Iterator[None]:
    """Reports the pipeline to systemd within the `with` block.

    The watchdog is fed while results come, and while there is nothing to do: the pipeline itself reopens a lost camera, and a
    restart would not bring it back. A stage (preprocessing, a runner, an output) that hangs while frames come starves the
    watchdog, and systemd restarts the service.
    """
    notify("READY=1")
    stop = threading.Event()
    usec = os.environ.get("WATCHDOG_USEC", "")
    thread = None
    if usec.isdecimal() and int(usec) > 0:
        thread = threading.Thread(target=_feed, args=(pipeline, int(usec) / 3e6, stop), name="edgedla-service", daemon=True)
        thread.start()
    try:
        yield
    finally:
        stop.set()
        notify("STOPPING=1")
        if thread is not None:
            thread.join(5)


def _feed(pipeline: Pipeline, every_s: float, stop: threading.Event) -> None:
    results = captured = -1
    while not stop.wait(every_s):
        frames_came = pipeline.captured != captured
        if pipeline.results != results or not (pipeline.pending or frames_came):
            notify("WATCHDOG=1")
        results, captured = pipeline.results, pipeline.captured
