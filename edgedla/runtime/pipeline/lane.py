"""One model in a pipeline: takes frames or crops from its slots, runs them in batches, decodes, hands results on."""

from __future__ import annotations

import collections
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from edgedla.preprocess.geometry import Geometry
from edgedla.runtime.frames import Frame, FrameResult, Result
from edgedla.runtime.pipeline.cascade import Crop, CropRule, as_crop_result, crops_of, cut
from edgedla.runtime.pipeline.engine import Engine
from edgedla.runtime.pipeline.pool import CLOSE_S, Collected
from edgedla.runtime.pipeline.slots import Share, Slots
from edgedla.runtime.runners.member import InferenceLost
from edgedla.runtime.stats import Latency

log = logging.getLogger("edgedla.runtime.pipeline.lane")

#: Time in the slot, preprocessing, waiting for a runner, inference, decoding, outputs, and capture to result.
STAGES = ("wait", "preprocess", "queue", "inference", "decode", "output", "age")
#: How often a stage with nothing to do looks whether it should end.
IDLE_S = 0.2
#: An image is prepared at least so long before a runner will be free: a thread that sleeps may be woken late.
LEAST_LEAD_S = 0.001


@dataclass
class Crops:
    """Crops of one frame; `wait` where none may be dropped, because the source is a file."""

    frame: Frame
    crops: Sequence[Crop]
    wait: bool


@dataclass
class _Job:
    """A frame, or the crops of one, until all its parts have results."""

    source: str
    frame: Frame
    crops: Sequence[Crop]
    results: List[Sequence[Result]] = field(default_factory=list)

    @property
    def parts(self) -> int:
        return max(1, len(self.crops))


@dataclass(frozen=True)
class _Part:
    job: _Job
    number: int

    @property
    def image(self) -> np.ndarray:
        image = self.job.frame.image
        return cut(image, self.job.crops[self.number].box) if self.job.crops else image


@dataclass(frozen=True)
class _Batch:
    parts: Sequence[_Part]
    geometries: Sequence[Geometry]


def all_finite(values: np.ndarray) -> bool:
    """False where a floating-point array holds NaN or infinity."""
    return values.dtype.kind != "f" or bool(np.isfinite(values).all())


#: So many results in a row with NaN or infinity are the network's state, not a rare frame's.
BROKEN_RUN = 10


class Lane:
    """Feeds one model and collects from it, each on a thread of the pipeline.

    Args:
        shares: of the sources that the model sees.
        name: of the model; empty in a pipeline of one.
        crops: None, or the rule by which another lane's detections become this one's images.
        batch_wait_s: how long a batch that is not full waits for further images.
        track: makes a tracker: (results) -> the same with ids; each source gets one.
    """

    def __init__(
        self,
        engine: Engine,
        shares: Mapping[str, Share],
        name: str = "",
        crops: Optional[CropRule] = None,
        batch_wait_s: float = 0.0,
        track: Optional[Callable[[], Callable[[Sequence[Result]], Sequence[Result]]]] = None,
    ) -> None:
        self.name, self.crops, self.slots = name, crops, Slots[Any](shares)
        self.engine = engine
        self._batch_wait_s, self._track = batch_wait_s, track
        self._trackers: Dict[str, Callable[[Sequence[Result]], Sequence[Result]]] = {}
        self._lock = threading.Lock()
        self._next: Optional[Engine] = None
        self._draining: Deque[Engine] = collections.deque()
        self._closing: List[threading.Thread] = []
        self._parts: Deque[_Part] = collections.deque()
        #: Seconds that preparing a batch takes.
        self._lead_s = LEAST_LEAD_S
        self.children: List[Lane] = []
        self.waits: Callable[[str], bool] = lambda source: False
        self.stages = {stage: Latency() for stage in STAGES}
        #: `lost`: inferences that failed on every runner.
        self.submitted = self.results = self.non_finite = self.swaps = self.lost = 0
        #: Results in a row, up to the last one, with NaN or infinity.
        self._broken_run = 0
        self.results_of: Dict[str, int] = dict.fromkeys(shares, 0)
        self.ages: Dict[str, Latency] = {source: Latency() for source in shares}
        self.last_result_s: Optional[float] = None
        self.prepared_all, self.done = threading.Event(), threading.Event()

    def admit(self, source: str, share: Share) -> None:
        """Takes frames of a source from now on, or gives it another share."""
        self.results_of = {source: 0, **self.results_of}
        self.ages = {source: Latency(), **self.ages}
        self.slots.admit(source, share)

    def dismiss(self, source: str) -> None:
        """Takes no more frames of a source; what is under way is finished. Its counts begin again if it comes back."""
        self.slots.dismiss(source)
        self.results_of = {s: n for s, n in self.results_of.items() if s != source}
        self.ages = {s: age for s, age in self.ages.items() if s != source}
        self._trackers.pop(source, None)

    def feed(self, more: Callable[[], bool], stopped: Callable[[], bool], enough: Callable[[], bool] = lambda: False) -> None:
        """Takes, prepares and submits until `more()` is false and the slots are empty, `enough()` was taken, or `stopped()`,
        which gives up what was taken and has no runner yet."""
        try:
            while not stopped() and not enough():
                self._take_over()
                if not self.engine.pool.await_room(self._lead_s, IDLE_S):
                    continue
                parts = self._gather(enough)
                if not parts:
                    if not more() and not self.slots.waiting():
                        return
                    continue
                if not self._submit(parts, stopped):
                    return
        finally:
            self.prepared_all.set()

    def _gather(self, enough: Callable[[], bool]) -> List[_Part]:
        """Up to a batch of images, of whatever sources have some; no frame more once there is `enough()`."""
        parts: List[_Part] = []
        until_s = 0.0
        while len(parts) < self.engine.batch:
            if not self._parts:
                if enough():
                    break
                wait_s = max(0.0, until_s - time.monotonic()) if parts else IDLE_S
                item = self.slots.take(wait_s, 0.0 if parts else self.engine.pool.turn_s)
                if item is None:
                    # A slot that filled up woke this thread, or the time is over.
                    break
                self._parts.extend(self._as_parts(*item))
                if not parts:
                    until_s = time.monotonic() + self._batch_wait_s
            parts.append(self._parts.popleft())
        return parts

    def _as_parts(self, source: str, item: Union[Frame, Crops]) -> List[_Part]:
        frame, crops = (item.frame, item.crops) if isinstance(item, Crops) else (item, ())
        self.stages["wait"].add((time.monotonic() - frame.captured_s) * 1e3)
        job = _Job(source, frame, crops)
        self.submitted += 1
        return [_Part(job, n) for n in range(job.parts)]

    def _submit(self, parts: Sequence[_Part], stopped: Callable[[], bool]) -> bool:
        started = time.monotonic()
        inputs, geometries = self.engine.prepare([(part.job.source, part.image, part.job.frame.pixels) for part in parts])
        ready = time.monotonic()
        self.stages["preprocess"].add((ready - started) * 1e3)
        # Upwards at once, slowly downwards: a runner that waits for its input costs more than an image that waits.
        self._lead_s = max(ready - started, self._lead_s * 0.98 + (ready - started) * 0.02, LEAST_LEAD_S)
        batch = _Batch(parts, geometries)
        while not self.engine.pool.submit(inputs, batch, timeout_s=IDLE_S):
            if stopped():
                self.submitted -= len({id(part.job) for part in parts if part.number == 0})
                return False
        self.stages["queue"].add((time.monotonic() - ready) * 1e3)
        return True

    def finish(self, emit: Callable[[FrameResult], None], idle: Callable[[], None]) -> None:
        """Collects, decodes and emits until all that was submitted is done; then lets the lanes behind it end."""
        try:
            while True:
                engine = self._collecting()
                try:
                    item = engine.pool.collect(IDLE_S / 2)
                except InferenceLost:
                    # A film must not go on without some of its frames.
                    if any(self.waits(source) for source in self.slots.names):
                        raise
                    self.lost += 1
                    continue
                if item is not None:
                    self._decode(engine, item, emit)
                elif self.prepared_all.is_set() and not self.pending:
                    return
                else:
                    idle()
        finally:
            self.done.set()
            for child in self.children:
                child.slots.wake()

    def _decode(self, engine: Engine, item: Collected, emit: Callable[[FrameResult], None]) -> None:
        self.stages["inference"].add(item.inference_ms)
        started = time.monotonic()
        self._look(item)
        batch: _Batch = item.tag
        decoded = engine.decode(item.outputs, batch.geometries)
        self.stages["decode"].add((time.monotonic() - started) * 1e3)
        for part, results in zip(batch.parts, decoded):
            part.job.results.append(results)
            if len(part.job.results) == part.job.parts:
                self._emit(part.job, item, emit)

    def _emit(self, job: _Job, item: Collected, emit: Callable[[FrameResult], None]) -> None:
        results: Tuple[Result, ...] = tuple(
            [as_crop_result(crop, r) for crop, r in zip(job.crops, job.results)] if job.crops else job.results[0]
        )
        if self._track is not None and not job.crops:
            tracker = self._trackers.get(job.source)
            if tracker is None:
                tracker = self._trackers[job.source] = self._track()
            results = tuple(tracker(results))
        now = time.monotonic()
        age_ms = (now - job.frame.captured_s) * 1e3
        self.stages["age"].add(age_ms)
        if job.source in self.ages:
            self.ages[job.source].add(age_ms)
        result = FrameResult(job.frame, results, item.runner, item.simulated, item.inference_ms, age_ms, job.source, self.name)
        emit(result)
        for child in self.children:
            crops = crops_of(child.crops, result) if child.crops is not None else []
            if crops:
                wait = self.waits(job.source)
                child.slots.put(job.source, Crops(job.frame, crops, wait), wait, child.prepared_all.is_set)
        self.stages["output"].add((time.monotonic() - now) * 1e3)
        self.results += 1
        if job.source in self.results_of:
            self.results_of[job.source] += 1
        self.last_result_s = time.monotonic()

    def _look(self, item: Collected) -> None:
        """Counts results with NaN or infinity: an FP16 overflow on a DLA would else look like an empty scene."""
        broken = [name for name, values in item.outputs.items() if not all_finite(values)]
        if not broken:
            self._broken_run = 0
            return
        self.non_finite += 1
        self._broken_run += 1
        # The first, and then each power of two: a network that overflows does so in every frame.
        if self.non_finite & (self.non_finite - 1) == 0:
            why = "values beyond FP16's 65504, or broken weights"
            log.warning(
                "%s: output %s holds NaN or infinity (%d results so far): %s", item.runner, broken[0], self.non_finite, why
            )

    @property
    def all_non_finite(self) -> bool:
        """Whether the results of late are no numbers: the last BROKEN_RUN, or every one so far."""
        run = self._broken_run
        return run >= BROKEN_RUN or 0 < run == self.non_finite >= self.results > 0

    def swap(self, engine: Engine) -> None:
        """Lets `engine` take over between two frames; the one before it finishes what it has, and is closed."""
        with self._lock:
            unused, self._next = self._next, engine
        if unused is not None:
            unused.close()

    def _take_over(self) -> None:
        if self._next is None:
            return
        with self._lock:
            engine, self._next = self._next, None
        if engine is not None:
            self._draining.append(self.engine)
            self.engine = engine
            self.swaps += 1

    def _collecting(self) -> Engine:
        """The engine whose results come next: one that was replaced is emptied first, so that results keep their order."""
        while self._draining:
            old = self._draining[0]
            if old.pool.pending:
                return old
            self._draining.popleft()
            # To free a device's memory takes time, and results must not wait for it.
            closing = threading.Thread(target=old.close, name="edgedla-close", daemon=True)
            self._closing.append(closing)
            closing.start()
        return self.engine

    def abandon(self) -> None:
        """Gives up what is under way."""
        for engine in (*self._draining, self.engine):
            engine.pool.abandon()

    @property
    def pending(self) -> int:
        return self.engine.pool.pending + sum(e.pool.pending for e in self._draining)

    def close(self) -> None:
        for engine in (*self._draining, self.engine, *([self._next] if self._next else [])):
            engine.close()
        for closing in self._closing:
            closing.join(CLOSE_S)

    def to_dict(self) -> Dict[str, Any]:
        """Counts by source, stages and runners."""
        counts = "submitted results non_finite lost all_non_finite swaps".split()
        return {
            "model": self.name,
            **{name: getattr(self, name) for name in counts},
            "batch": self.engine.batch,
            "sources": {
                s: {"results": self.results_of[s], "dropped": self.slots.dropped(s), "age": self.ages[s].to_dict()}
                for s in self.slots.names
                if s in self.ages
            },
            "stages": {name: stage.to_dict() for name, stage in self.stages.items()},
            "runners": self.engine.pool.to_dict(),
        }
