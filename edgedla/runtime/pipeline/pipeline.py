"""The pipeline: capture, preprocess, run, decode, hand out, each stage on its own thread, the newest frame first."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import EdgedlaError, RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.sinks import Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.pool import Collected, Pool
from edgedla.runtime.runners.base import describe
from edgedla.runtime.stats import Latency

log = logging.getLogger("edgedla.runtime.pipeline.pipeline")

#: Time in the slot, preprocessing, waiting for a runner, inference, decoding, outputs, and capture to result.
STAGES = ("wait", "preprocess", "queue", "inference", "decode", "output", "age")


@dataclass(frozen=True)
class Limits:
    """When to stop by itself; 0 means never.

    After any stop, what is under way has `grace_s` to finish; then it is given up and the run fails. systemd kills after
    TimeoutStopSec (30 s in our unit).
    """

    frames: int = 0
    seconds: float = 0.0
    grace_s: float = 10.0


Prepared = Tuple[Mapping[str, np.ndarray], Geometry]


@dataclass(frozen=True)
class _Submitted:
    frame: Frame
    geometry: Geometry


def all_finite(values: np.ndarray) -> bool:
    """False where a floating-point array holds NaN or infinity."""
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


class Pipeline:
    """Runs until the source ends, a limit is reached, `stop` is called, or a stage fails.

    Back-pressure instead of queues: the pool accepts one inference a runner (in a chain one a stage), one prepared frame waits
    in front of it, and the capture slot holds the newest frame. A result is therefore never older than about two inferences
    and one preprocessing, however fast the source is; with a chain of n stages n + 2 times its slowest stage.

    Args:
        prepare: frame image -> ({input name: buffer}, how the frame lies in the network input).
        decode: (output buffers, geometry) -> results.
    """

    def __init__(
        self,
        capture: Capture,
        prepare: Callable[[np.ndarray], Prepared],
        pool: Pool,
        decode: Callable[[Mapping[str, np.ndarray], Geometry], Sequence[Any]],
        sinks: Sequence[Sink] = (),
        limits: Optional[Limits] = None,
    ) -> None:
        self.capture, self.pool = capture, pool
        self._prepare, self._decode, self._sinks = prepare, decode, list(sinks)
        self._limits = limits or Limits()
        self._stop, self._force = threading.Event(), threading.Event()
        self._prepared_all = threading.Event()
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self.stages = {name: Latency() for name in STAGES}
        self.submitted = self.results = self.non_finite = 0
        self.started_s = self.ended_s = 0.0
        self._last_result_s: Optional[float] = None

    def run(self) -> Dict[str, Any]:
        """Runs to the end and returns the summary. The capture must have been started.

        What was submitted before a stop is finished and handed out; sinks are closed in any case.

        Raises:
            RunError (or another EdgedlaError): a stage failed; everything handed out before stays.
        """
        self.started_s = time.monotonic()
        threads = [
            threading.Thread(target=self._guard, args=(f,), name=f"edgedla-{f.__name__.strip('_')}", daemon=True)
            for f in (self._feed, self._finish)
        ]
        for t in threads:
            t.start()
        try:
            self._watch(threads)
        finally:
            self.stop()
            self.capture.stop()
            self._end(threads)
            self.ended_s = time.monotonic()
        if self._error is not None:
            raise self._error
        return self.summary()

    def stop(self) -> None:
        """Asks for a graceful end; safe from a signal handler and from any thread."""
        self._stop.set()

    def force_stop(self) -> None:
        """Ends at once: what is under way is given up, and the run fails if there was any."""
        self._force.set()
        self._stop.set()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def _watch(self, threads: Sequence[threading.Thread]) -> None:
        """Returns when the stages have ended, or the time after a stop is over."""
        stopped_s: Optional[float] = None
        while any(t.is_alive() for t in threads):
            for t in threads:
                t.join(0.1)
            now = time.monotonic()
            if self._limits.seconds and now - self.started_s >= self._limits.seconds:
                self.stop()
            if self._stop.is_set():
                stopped_s = now if stopped_s is None else stopped_s
                if self._force.is_set() or now - stopped_s >= self._limits.grace_s:
                    return

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Gives up what hangs, and closes the outputs where nobody writes to them any more."""
        if any(t.is_alive() for t in threads):
            self.pool.abandon()
            for t in threads:
                t.join(1.0)
        hung = [t.name for t in threads if t.is_alive()]
        if not hung:
            self._close_sinks()
            return
        lost = self.submitted - self.results
        self._fail(
            RunError(
                f"{', '.join(hung)} did not end; {lost} submitted frames have no result",
                hint="an output or a driver hangs; every result handed out before is whole",
            )
        )

    def _guard(self, stage: Callable[[], None]) -> None:
        try:
            stage()
        except BaseException as e:
            self._fail(e)
        finally:
            if stage == self._feed:
                self._prepared_all.set()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                own = isinstance(error, EdgedlaError)
                self._error = error if own else RunError(f"the pipeline failed: {describe(error)}")
                self._error.__cause__ = None if own else error
        self._stop.set()

    def _feed(self) -> None:
        most = self._limits.frames
        while not self._stop.is_set() and not (most and self.submitted >= most):
            frame = self.capture.take(0.2)
            if frame is None:
                if self.capture.ended:
                    return
                continue
            taken = time.monotonic()
            self.stages["wait"].add((taken - frame.captured_s) * 1e3)
            inputs, geometry = self._prepare(frame.image)
            ready = time.monotonic()
            self.stages["preprocess"].add((ready - taken) * 1e3)
            while not self.pool.submit(inputs, _Submitted(frame, geometry), timeout_s=0.2):
                if self._stop.is_set():
                    return
            self.stages["queue"].add((time.monotonic() - ready) * 1e3)
            self.submitted += 1

    def _finish(self) -> None:
        while True:
            item = self.pool.collect(0.1)
            if item is None:
                if self._prepared_all.is_set() and not self.pool.pending:
                    return
                continue
            frame, geometry = item.tag.frame, item.tag.geometry
            self.stages["inference"].add(item.inference_ms)
            done = time.monotonic()
            self._look(item)
            results = tuple(self._decode(item.outputs, geometry))
            decoded = time.monotonic()
            self.stages["decode"].add((decoded - done) * 1e3)
            age = (decoded - frame.captured_s) * 1e3
            self.stages["age"].add(age)
            result = FrameResult(frame, results, item.runner, item.simulated, item.inference_ms, age)
            for sink in self._sinks:
                sink.write(result)
            self.stages["output"].add((time.monotonic() - decoded) * 1e3)
            self.results += 1
            self._last_result_s = time.monotonic()

    def _look(self, item: Collected) -> None:
        """Counts results with NaN or infinity: an FP16 overflow on a DLA would else look like an empty scene."""
        broken = [name for name, values in item.outputs.items() if not all_finite(values)]
        if not broken:
            return
        self.non_finite += 1
        # The first, and then each power of two: a network that overflows does so in every frame.
        if self.non_finite & (self.non_finite - 1) == 0:
            log.warning(
                "%s: output %s holds NaN or infinity (%d results so far): values beyond FP16's 65504, or broken weights",
                item.runner, broken[0], self.non_finite,
            )  # fmt: skip

    def _close_sinks(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as e:
                log.error("closing an output: %s", describe(e))
                self._fail(e)
        self._sinks = []

    def summary(self) -> Dict[str, Any]:
        """Counts, rates and the latency of every stage so far."""
        seconds = (self.ended_s or time.monotonic()) - self.started_s
        runners: List[Dict[str, Any]] = self.pool.to_dict()
        last = self._last_result_s
        return {
            "simulated": self.pool.simulated,
            "seconds": round(seconds, 3),
            "frames": {
                **self.capture.to_dict(),
                "submitted": self.submitted,
                "results": self.results,
                "non_finite": self.non_finite,
            },
            "last_result_age_s": None if last is None else round(time.monotonic() - last, 3),
            "throughput_fps": round(self.results / seconds, 3) if seconds > 0 else 0.0,
            "stages": {name: stage.to_dict() for name, stage in self.stages.items()},
            "runners": runners,
        }
