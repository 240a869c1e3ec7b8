"""The newest frame of a source with all models' results, drawn a few times per second: on a thread, or by a video's clock."""

from __future__ import annotations

import logging
import threading
import time
from typing import Callable, Dict, List, Tuple

import numpy as np

from edgedla.errors import described
from edgedla.runtime.frames import FrameResult
from edgedla.runtime.outputs.draw import draw_scene
from edgedla.runtime.sources.base import RateCap

log = logging.getLogger("edgedla.runtime.outputs.pictures")
#: How long a model's result on an older frame is drawn; otherwise a model that runs on every tenth frame would flicker.
STAYS_S = 1.0
IDLE_S = 0.25


class Latest:
    """The newest result of each model of one source. `put` only stores references.

    Attributes:
        number: results so far.
    """

    def __init__(self) -> None:
        self._by_model: Dict[str, FrameResult] = {}
        self._fresh = threading.Condition()
        self.number = 0

    def put(self, result: FrameResult) -> None:
        with self._fresh:
            self._by_model[result.model] = result
            self.number += 1
            self._fresh.notify_all()

    def wait(self, number: int, timeout_s: float) -> bool:
        """True once there are more than `number` results; False if none came in time."""
        with self._fresh:
            return self._fresh.wait_for(lambda: self.number != number, timeout_s)

    def results(self) -> Tuple[List[FrameResult], int]:
        """(the newest frame's result first, then recent ones of other models; `number`). Empty before the first result."""
        with self._fresh:
            ordered = sorted(self._by_model.values(), key=lambda r: -r.frame.captured_s)
            newest = ordered[0].frame.captured_s if ordered else 0.0
            return [r for r in ordered if newest - r.frame.captured_s <= STAYS_S], self.number


class Pictures:
    """Draws the newest scene of a source and passes it on.

    Args:
        use: called with (BGR picture, seconds on the scene's clock).
        wanted: False while nobody needs pictures; then nothing is drawn.
    """

    def __init__(self, name: str, width: int, use: Callable[[np.ndarray, float], object], wanted: Callable[[], bool]) -> None:
        self.latest = Latest()
        self._name, self._width, self._use, self._wanted = name, width, use, wanted
        #: Number of results at the last picture.
        self._drawn = self.failed = 0

    def _draw(self) -> None:
        results, self._drawn = self.latest.results()
        self._use(draw_scene(results, width=self._width), results[0].frame.seen_s)

    def _fails(self, error: Exception) -> None:
        self.failed += 1
        # Log the first failure, then at each power of two: otherwise every picture might log one.
        if self.failed & (self.failed - 1) == 0:
            log.error("%s: a picture failed (%d so far): %s", self._name, self.failed, described(error))

    def _last(self) -> None:
        """Draws results newer than the last picture, if any."""
        try:
            if self._wanted() and self.latest.number != self._drawn:
                self._draw()
        except Exception as e:
            self._fails(e)


class PicturesByClock(Pictures):
    """At most `rate` pictures per second of a video's time, however fast it is read: drawn by the caller, because a video waits."""

    def __init__(
        self, name: str, rate: float, width: int, use: Callable[[np.ndarray, float], object], wanted: Callable[[], bool]
    ) -> None:
        super().__init__(name, width, use, wanted)
        self._cap = RateCap(rate)

    def put(self, result: FrameResult) -> None:
        self.latest.put(result)
        try:
            if self._wanted() and not self._cap.skips(result.frame.seen_s):
                self._draw()
        except Exception as e:
            self._fails(e)

    def close(self, wait_s: float = 5.0) -> None:
        self._last()


class PictureThread(Pictures):
    """At most `rate` pictures per second, drawn on a thread of its own: if that is slow, only pictures are dropped.

    Args:
        use, wanted: as for Pictures. idle: called at least every IDLE_S, even without frames.
    """

    def __init__(
        self,
        name: str,
        rate: float,
        width: int,
        use: Callable[[np.ndarray, float], object],
        idle: Callable[[], object] = lambda: None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(name, width, use, wanted)
        self._rate, self._idle = rate, idle
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, result: FrameResult) -> None:
        self.latest.put(result)

    def _run(self) -> None:
        due_s = 0.0
        while not self._stop.is_set():
            try:
                self._idle()
                if not self._wanted():
                    self._stop.wait(IDLE_S)
                    continue
                if not self.latest.wait(self._drawn, IDLE_S):
                    continue
                self._stop.wait(max(0.0, due_s - time.monotonic()))
                # The schedule keeps the mean rate; after a pause there is no burst to catch up.
                due_s = max(due_s + 1 / self._rate, time.monotonic())
                self._draw()
            except Exception as e:
                self._fails(e)
                self._stop.wait(IDLE_S)
        self._last()

    def close(self, wait_s: float = 5.0) -> None:
        self._stop.set()
        self._thread.join(wait_s)
