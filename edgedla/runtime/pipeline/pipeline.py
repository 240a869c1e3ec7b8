"""The pipeline: sources, models and outputs on threads of their own, the newest frames first, from the start to the end."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from edgedla.errors import EdgedlaError, RunError, described
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.events import Events
from edgedla.runtime.outputs.guarded import Guarded
from edgedla.runtime.outputs.sinks import Sink
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.lane import STAGES, Lane
from edgedla.runtime.stats import total

log = logging.getLogger("edgedla.runtime.pipeline.pipeline")
#: How often the sources are looked at while the stages run, and while they end.
WATCH_S, STOPPING_S = 0.25, 0.02
#: Counts of a source that add up to the pipeline's.
COUNTS = ("captured", "skipped", "dropped", "reconnects", "stalls", "outages", "outage_s")


@dataclass(frozen=True)
class Limits:
    """When to stop by itself; 0 means never.

    `frames` counts those that one model takes of all its sources. After any stop, what is under way has `grace_s` to finish;
    then it is given up and the run fails. The unit edgedla-pipeline@.service waits 30 s for it (TimeoutStopSec).
    """

    frames: int = 0
    seconds: float = 0.0
    grace_s: float = 10.0


class Pipeline:
    """Runs until the sources end, a limit is reached, `stop` is called, or a stage fails.

    Back-pressure instead of queues: each source has one slot in front of each model, which holds its newest frame; a model's
    pool accepts one inference per runner (in a chain one per stage), and one prepared batch waits in front of it. A result is
    therefore never older than one frame's time of its source, about two inferences and one preprocessing, however many
    sources there are and however fast they are; with a chain of n stages n + 2 times its slowest stage.

    A source that fails for good ends alone. The run ends when all have ended, and then raises the failure.

    Args:
        captures: sources that have not been started; `start` or `run` does.
        lanes: models; one that takes crops stands after the one whose detections it takes.
    """

    def __init__(
        self,
        captures: Sequence[Capture],
        lanes: Sequence[Lane],
        sinks: Sequence[Sink] = (),
        limits: Optional[Limits] = None,
        every: Optional[Mapping[str, int]] = None,
    ) -> None:
        self.captures, self.lanes = {c.name: c for c in captures}, list(lanes)
        self._sinks, self._sink_lock = list(sinks), threading.Lock()
        self._closed_sinks: List[Sink] = []
        self._mark_the_only_one()
        #: Model -> why its artifact cannot be read: `absent` ones do not run, others go on with what they read before.
        self.damaged: Dict[str, str] = {}
        self.absent: Sequence[str] = ()
        #: Counts of sources that a reload took away or opened anew: what Prometheus sums up must not fall.
        self._left: Dict[str, Any] = dict.fromkeys(COUNTS, 0)
        self._limits = limits or Limits()
        # No events: a signal may interrupt the main thread while it holds the lock that an event would need.
        self._stop = self._force = False
        # `stop` leaves it alone: a signal handler must not take a lock that `_watch` may hold.
        self._stage_ended = threading.Event()
        self._stages_left = 0
        self._opened = False
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self.started_s = self.ended_s = 0.0
        by_name = {lane.name: lane for lane in lanes}
        for lane in lanes:
            lane.waits = self._waits
            if lane.crops is not None:
                by_name[lane.crops.of].children.append(lane)
                continue
            for source in lane.slots.names:
                self.captures[source].feed(lane.slots, (every or {}).get(lane.name, 1))

    def _waits(self, source: str) -> bool:
        capture = self.captures.get(source)
        return capture is not None and capture.every_frame

    def set_capture(self, name: str, capture: Optional[Capture]) -> None:
        """Puts a capture that has been started in a source's place, or none; the one before it is the caller's."""
        old = self.captures.get(name)
        if old is not None:
            # Its slots go on counting what is dropped where another capture fills them from now on.
            counts = {**old.to_dict(), **({"dropped": 0} if capture is not None else {})}
            self._left = {key: n + counts[key] for key, n in self._left.items()}
        others = {n: c for n, c in self.captures.items() if n != name or capture is not None}
        # A copy: other threads go through the captures meanwhile.
        self.captures = others if capture is None else {**others, name: capture}

    def replace_sinks(self, before: Sequence[Sink], after: Sequence[Sink], also: Callable[[], object] = lambda: None) -> None:
        """Between two results, puts outputs in the place of others, which are the caller's to close, and calls `also`."""
        with self._sink_lock:
            self._sinks = [*after, *(s for s in self._sinks if s not in before and s not in after)]
            self._mark_the_only_one()
            also()

    def _mark_the_only_one(self) -> None:
        for sink in self._sinks:
            if isinstance(sink, Guarded):
                sink.alone = not any(getattr(s, "stores", True) for s in self._sinks if s is not sink)

    def add_sink(self, sink: Sink) -> None:
        """Adds an output; `run` closes it at its end."""
        self._sinks.append(sink)
        self._mark_the_only_one()

    def start(self, wait_s: float = 20.0) -> None:
        """Opens all sources side by side.

        Raises:
            RunError, EnvironmentMissing: one cannot be opened, and is no camera that may come later; or none can.
        """
        self._opened = True
        for capture in self.captures.values():
            capture.begin()
        until_s = time.monotonic() + wait_s
        for capture in self.captures.values():
            capture.await_open(max(0.0, until_s - time.monotonic()))

    def run(self) -> Dict[str, Any]:
        """Runs to the end and returns the summary.

        What was submitted before a stop is finished and handed out; sinks are closed in any case.

        Raises:
            RunError (or another EdgedlaError): a stage failed; everything handed out before stays.
        """
        if not self._opened:
            self.start()
        self.started_s = time.monotonic()
        threads = [
            threading.Thread(target=self._guard, args=(stage, lane), name=f"edgedla-{stage.__name__.strip('_')}", daemon=True)
            for lane in self.lanes
            for stage in (self._feed, self._finish)
        ]
        self._stages_left = len(threads)
        try:
            for t in threads:
                t.start()
            self._watch()
        finally:
            # Outputs may wait for seconds while they close, and no frame comes any more: that is no part of the rate.
            self.ended_s = time.monotonic()
            self.stop()
            for capture in self.captures.values():
                capture.stop()
            # The system may have refused one of them.
            self._end([t for t in threads if t.ident is not None])
        failures = [c.failure for c in self.captures.values() if c.failure is not None]
        if self._error is None and failures:
            self._error = failures[0]
        if self._error is not None:
            raise self._error
        return self.summary()

    def stop(self) -> None:
        """Asks for a graceful end; safe from a signal handler and from any thread."""
        self._stop = True

    def force_stop(self) -> None:
        """Ends at once: what is under way is given up, and the run fails if there was any."""
        self._force = True
        self._stop = True

    @property
    def stopping(self) -> bool:
        return self._stop

    @property
    def submitted(self) -> int:
        return sum(lane.submitted for lane in self.lanes)

    @property
    def results(self) -> int:
        return sum(lane.results for lane in self.lanes)

    @property
    def captured(self) -> int:
        return sum(c.captured for c in self.captures.values())

    @property
    def pending(self) -> int:
        """Inferences under way."""
        return sum(lane.pending for lane in self.lanes)

    def _watch(self) -> None:
        """Returns when the stages have ended, or the time after a stop is over."""
        stopped_s: Optional[float] = None
        ended_sources: List[str] = []
        now = self.started_s
        end_s = now + self._limits.seconds if self._limits.seconds else math.inf
        while self._stages_left:
            self._stage_ended.wait(STOPPING_S if self._stop else max(0.0, min(WATCH_S, end_s - now)))
            self._stage_ended.clear()
            now = time.monotonic()
            for c in self.captures.values():
                if c.failure is not None and c.name not in ended_sources and len(self.captures) > 1:
                    ended_sources.append(c.name)
                    log.error("source %s ended: %s", c.name, c.failure)
            if now >= end_s:
                self.stop()
            if self._stop:
                stopped_s = now if stopped_s is None else stopped_s
                if self._force or now - stopped_s >= self._limits.grace_s:
                    return

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Gives up what hangs, and closes the outputs where nobody writes to them any more."""
        for t in threads if not self._stages_left else ():
            t.join(1.0)
        if any(t.is_alive() for t in threads):
            self._force = True
            for lane in self.lanes:
                lane.abandon()
            for t in threads:
                t.join(1.0)
        hung = sorted({t.name for t in threads if t.is_alive()})
        if not hung:
            self._close_sinks()
            return
        lost = self.submitted - self.results
        what = f"{', '.join(hung)} did not end; {lost} submitted frames have no result"
        self.fail(RunError(what, hint="an output or a driver hangs; every result before it is complete"))

    def _guard(self, stage: Callable[[Lane], None], lane: Lane) -> None:
        try:
            stage(lane)
        except BaseException as e:
            self.fail(e)
        finally:
            with self._lock:
                self._stages_left -= 1
            self._stage_ended.set()

    def fail(self, error: BaseException) -> None:
        """Ends the run, which raises this error, or the first one."""
        with self._lock:
            if self._error is None:
                expected = isinstance(error, EdgedlaError)
                self._error = error if expected else RunError(f"the pipeline failed: {described(error)}")
                self._error.__cause__ = None if expected else error
        self._stop = True

    def _feed(self, lane: Lane) -> None:
        if lane.crops is None:
            lane.feed(
                # A reload takes the only source away before it adds another.
                lambda: not all([c.over for s, c in self.captures.items() if s in lane.slots.names] or [False]),
                lambda: self._stop,
                lambda: 0 < self._limits.frames <= lane.submitted,
            )
            return
        # After a stop, crops of the first model are still processed.
        parent = next(p for p in self.lanes if lane in p.children)
        lane.feed(lambda: not parent.done.is_set(), lambda: self._force or self._error is not None)

    def _finish(self, lane: Lane) -> None:
        lane.finish(self._emit, self._idle)

    def _emit(self, result: FrameResult) -> None:
        with self._sink_lock:
            for sink in self._sinks:
                sink.write(result)

    def _idle(self) -> None:
        with self._sink_lock:
            for sink in self._sinks:
                if isinstance(sink, Events):
                    sink.idle(time.monotonic(), time.time())

    def _close_sinks(self) -> None:
        self._closed_sinks, self._sinks = self._sinks, []
        for sink in self._closed_sinks:
            try:
                sink.close()
            except Exception as e:
                log.error("closing an output: %s", described(e))
                self.fail(e)

    def summary(self) -> Dict[str, Any]:
        """Counts, rates and the latency of every stage so far: of all together, of each source and of each model."""
        now = time.monotonic()
        seconds = (self.ended_s or now) - self.started_s
        models = [lane.to_dict() for lane in self.lanes]
        sources = [c.to_dict() for c in self.captures.values()]
        last = max((lane.last_result_s for lane in self.lanes if lane.last_result_s is not None), default=None)
        counts = {key: round(sum((s[key] for s in sources), n), 3) for key, n in self._left.items()}
        return {
            "simulated": any(lane.engine.pool.simulated for lane in self.lanes),
            "seconds": round(seconds, 3),
            "frames": {
                "source": ", ".join(s["source"] for s in sources),
                **counts,
                "submitted": self.submitted,
                "results": self.results,
                "lost": sum(lane.lost for lane in self.lanes),
                "non_finite": sum(lane.non_finite for lane in self.lanes),
            },
            "last_result_age_s": None if last is None else round(now - last, 3),
            "throughput_fps": round(self.results / seconds, 3) if seconds > 0 else 0.0,
            "stages": {name: total([lane.stages[name] for lane in self.lanes]).to_dict() for name in STAGES},
            "runners": [runner for model in models for runner in model["runners"]],
            "sources": sources,
            "models": models,
            "damaged": dict(self.damaged),
            "absent": list(self.absent),
            "outputs": [sink.to_dict() for sink in (*self._sinks, *self._closed_sinks) if hasattr(sink, "to_dict")],
        }
