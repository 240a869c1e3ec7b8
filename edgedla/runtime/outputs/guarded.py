"""An output that may fail while the others go on: it is closed, counted, and opened again after growing pauses."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from typing import Any, Callable, Dict, Optional

from edgedla.errors import EdgedlaError, described
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.sinks import Sink

log = logging.getLogger("edgedla.runtime.outputs.guarded")
#: Seconds until a failed output is opened again, at first and at most.
FIRST_S, MOST_S = 10.0, 60.0
#: Settings and disks: what an output may raise that the next attempt may not.
FAILURES = (EdgedlaError, OSError)


class Guarded:
    """Passes results to an output. Results that come while it is closed are lost to it, and counted.

    Attributes:
        alone: the pipeline has no other output: a failure ends the run, because nothing of it would be left.
        failures: how often it failed. lost: results and events that it missed.

    Args:
        again: opens the output once more. It must not write over what the one before it left.
    """

    def __init__(self, name: str, sink: Sink, again: Callable[[], Sink], clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.sink = name, sink
        self.alone = False
        self.failures = self.lost = 0
        self._again, self._clock = again, clock
        self._open: Optional[Sink] = sink
        self._pause_s, self._due_s, self.why = FIRST_S, 0.0, ""
        # It takes events, and pictures of them, where the output does.
        if hasattr(sink, "write_event"):
            self.write_event = functools.partial(self._pass, "write_event")
        if getattr(sink, "takes_pictures", False):
            self.write_snapshot = functools.partial(self._pass, "write_snapshot")

    @property
    def stores(self) -> bool:
        """Whether results go anywhere by it."""
        return bool(getattr(self.sink, "stores", True))

    def write(self, result: FrameResult) -> None:
        self._pass("write", result)

    def _pass(self, method: str, *values: object) -> None:
        if self._open is None and self._clock() < self._due_s:
            self.lost += 1
            return
        try:
            if self._open is None:
                self._open = self.sink = self._again()
            getattr(self._open, method)(*values)
        except FAILURES as e:
            if self.alone:
                raise
            self.lost += 1
            self._failed(e)
            return
        if self.why:
            log.warning("output %s: written again; it missed %d results and events so far", self.name, self.lost)
            self.why, self._pause_s = "", FIRST_S

    def _failed(self, error: Exception) -> None:
        text = str(error) if isinstance(error, EdgedlaError) else described(error)
        if not self.why:
            log.error("output %s failed: %s; the run goes on without it, and tries it again", self.name, text)
        self.failures += 1
        self.why, self._due_s = text, self._clock() + self._pause_s
        self._pause_s = min(self._pause_s * 2, MOST_S)
        sink, self._open = self._open, None
        if sink is not None:
            with contextlib.suppress(*FAILURES):
                sink.close()

    def close(self) -> None:
        sink, self._open = self._open, None
        if sink is not None:
            sink.close()

    def to_dict(self) -> Dict[str, Any]:
        own = self.sink.to_dict() if hasattr(self.sink, "to_dict") else {"output": self.name}
        return {**own, "failed": self.why, "failures": self.failures, "lost": self.lost}
