"""The data of the live page: one document, made when a viewer asks."""

from __future__ import annotations

import collections
import logging
import threading
import time
from typing import Any, Deque, Dict, List, Mapping, Sequence, Tuple

from edgedla.runtime.board.monitor import sample_between
from edgedla.runtime.live.scenes import Scenes
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.pipeline import Pipeline
from edgedla.targets.board import this_board
from edgedla.targets.device_files import read_board
from edgedla.targets.jetson import root
from edgedla.text.addresses import without_secrets

#: Rates are averages over this many seconds, or since the previous request.
WINDOW_S = 10.0
#: A camera is not live after this long, and after so many frame intervals, without a frame.
STALE_S, STALE_FRAMES = 2.0, 5
DROPPING = "dropping frames"
WORDS = {
    "live": "ok",
    DROPPING: "warn",
    "reconnecting": "warn",
    "waiting": "warn",
    "stalled": "bad",
    "failed": "bad",
    "ended": "plain",
}


class Warnings(logging.Handler):
    """The last warnings of edgedla's log. They contain no secrets, because the log does not."""

    def __init__(self, most: int = 20) -> None:
        super().__init__(logging.WARNING)
        self.lines: Deque[Tuple[float, str, str]] = collections.deque(maxlen=most)

    def emit(self, record: logging.LogRecord) -> None:
        level = "bad" if record.levelno >= logging.ERROR else "warn"
        self.lines.append((record.created, level, without_secrets(record.getMessage())[:300]))
        # If no handler existed, Python would print warnings; this one would suppress that, so pass them on.
        others = [h for name in ("edgedla", None) for h in logging.getLogger(name).handlers if h is not self]
        if not others and logging.lastResort is not None:
            logging.lastResort.handle(record)


class State:
    """Reads a pipeline's counters on request, and keeps recent ones for rates."""

    def __init__(self, pipeline: Pipeline, scenes: Scenes, warnings: Warnings, title: str = "") -> None:
        self._pipeline, self._scenes, self._warnings, self._title = pipeline, scenes, warnings, title
        self._lock = threading.Lock()
        self._counts: Deque[Tuple[float, Dict[str, float]]] = collections.deque()
        self._board = this_board(root())
        self._reading = (read_board(root()), time.monotonic()) if self._board else None

    def document(self) -> Dict[str, Any]:
        """Everything on the page, as JSON values."""
        p, now = self._pipeline, time.monotonic()
        rates = self._rates(now)
        sources = [self._source(name, c, rates) for name, c in p.captures.items()]
        broken = [lane.name or "the network" for lane in p.lanes if lane.all_non_finite]
        level, word, tell = _health(sources, broken)
        simulated = any(lane.engine.pool.simulated for lane in p.lanes)
        return {
            "title": self._title,
            "up_s": round(now - p.started_s, 1) if p.started_s else 0.0,
            "time": time.strftime("%H:%M:%S"),
            "simulated": simulated,
            "health": {"level": level, "word": word, "tell": tell},
            "sources": sources,
            "models": [
                {"name": lane.name or "model", "rate": rates.get(f"model {lane.name}", 0.0), "results": lane.results}
                for lane in p.lanes
            ],
            "stages": self._stages(),
            "load": self._load(rates),
            "gauges": [*self._gauges(now), *_events(p.summary()["outputs"])],
            "warnings": [
                {"time": time.strftime("%H:%M:%S", time.localtime(at)), "level": level, "text": text}
                for at, level, text in reversed(self._warnings.lines)
            ],
        }

    def _rates(self, now: float) -> Dict[str, float]:
        """Counts per second since the oldest request in the window, or since the previous one."""
        p = self._pipeline
        counts: Dict[str, float] = {}
        for n, c in p.captures.items():
            counts.update({f"source {n}": c.captured, f"taken {n}": c.taken, f"dropped {n}": c.dropped})
        for lane in p.lanes:
            counts[f"model {lane.name}"] = lane.results
            for m in lane.engine.pool.to_dict():
                v = m["inference"]
                counts[f"busy {m['runner']}"] = counts.get(f"busy {m['runner']}", 0.0) + v["count"] * (v["mean_ms"] or 0) / 1e3
        with self._lock:
            while len(self._counts) > 1 and now - self._counts[1][0] > WINDOW_S:
                self._counts.popleft()
            before_s, before = self._counts[0] if self._counts else (p.started_s or now, {})
            if not self._counts or now - self._counts[-1][0] >= 0.5:
                self._counts.append((now, counts))
        seconds = max(now - before_s, 1e-3)
        return {name: max(0.0, n - before.get(name, 0.0)) / seconds for name, n in counts.items()}

    def _source(self, name: str, c: Capture, rates: Mapping[str, float]) -> Dict[str, Any]:
        told = c.to_dict()
        silent_s, state = told["last_frame_age_s"], told["state"]
        word = {"opening": "reconnecting", "open": "live"}.get(state, state)
        stale_s = max(STALE_S, STALE_FRAMES / c.rate if c.rate > 0 else 0.0)
        if word == "live" and silent_s is not None and silent_s > stale_s and c.live:
            word = "stalled"
        if silent_s is None and word in ("live", "reconnecting"):
            word = "waiting"
        taken, dropped = (rates.get(f"{kind} {name}", 0.0) for kind in ("taken", "dropped"))
        # What `max_rate` or `every` leaves out was not asked for, so it is not counted as dropped.
        if word == "live" and dropped > taken:
            word = DROPPING
        ages = [lane.ages[name].to_dict()["p50_ms"] for lane in self._pipeline.lanes if name in lane.ages]
        known_ms = [age_ms for age_ms in ages if age_ms is not None]  # None: no result in the last minutes.
        return {
            "name": name or "camera",
            "key": name or "-",
            "word": word,
            "level": WORDS[word],
            "rate": round(rates.get(f"source {name}", 0.0), 1),
            "of": round(c.rate, 1) or None,
            "analysed": round(taken / max(1, sum(name in lane.ages for lane in self._pipeline.lanes)), 1),
            "age_ms": round(max(known_ms), 1) if known_ms else None,
            "dropped": c.dropped,
            "captured": c.captured,
            "reconnects": told["reconnects"],
            "silent_s": None if silent_s is None else round(silent_s, 1),
            "objects": self._scenes.of(name).objects,
            "why": told["why"],
        }

    def _stages(self) -> List[Dict[str, Any]]:
        stages = self._pipeline.summary()["stages"]
        return [
            {"name": name.capitalize(), "key": name, "p50_ms": times["p50_ms"], "p99_ms": times["p99_ms"]}
            for name, times in stages.items()
            if name != "age"
        ]

    def _load(self, rates: Mapping[str, float]) -> List[Dict[str, Any]]:
        """Share of time that each runner spends on inferences; a chain's frames overlap, so at most 1 is shown."""
        return [{"name": name[5:], "share": round(min(1.0, rate), 3)} for name, rate in rates.items() if name.startswith("busy ")]

    def _gauges(self, now: float) -> List[Dict[str, Any]]:
        """The board's own measurements; empty if this is not a Jetson."""
        if self._board is None or self._reading is None:
            return []
        with self._lock:
            (before, at), reading = self._reading, read_board(root())
            if now - at < 0.5:
                return []
            self._reading = (reading, now)
        sample = sample_between(self._board, before, reading, now - at)
        gauges = [
            {"name": f"{core.upper()} on", "value": f"{busy * 100:.0f} %"}
            for core, busy in sample.dla_busy.items()
            if busy is not None
        ]
        if sample.power_total_mw is not None:
            gauges.append({"name": "Power", "value": f"{sample.power_total_mw / 1e3:.1f} W"})
        if sample.temperatures_c:
            gauges.append({"name": "Temperature", "value": f"{max(sample.temperatures_c.values()):.1f} °C"})
        return gauges


def _events(outputs: Sequence[Mapping[str, Any]]) -> List[Dict[str, str]]:
    """How many events go on, and how many objects crossed each line."""
    gauges = []
    for told in (o for o in outputs if o["output"] == "events"):
        gauges.append({"name": "Events", "value": f"{told['going_on']} going on, {told['began']} so far"})
        for line in told.get("crossings", ()):
            name = " ".join(filter(None, (line["source"], line["event"])))
            gauges.append({"name": name, "value": f"{line['left']} to the left, {line['right']} to the right"})
    return gauges


def _health(sources: List[Dict[str, Any]], broken: Sequence[str]) -> Tuple[str, str, str]:
    live = sum(s["word"] in ("live", DROPPING, "ended") for s in sources)
    counted = f"{live} of {len(sources)} sources live."
    if broken:
        return "bad", "Act now", f"{counted} Every result of {', '.join(broken)} holds NaN or infinity."
    others = [f"{s['name']} is {s['word']}" for s in sources if s["level"] in ("warn", "bad")]
    tell = f"{counted} {', '.join(others)}." if others else counted
    if any(s["level"] == "bad" for s in sources):
        return "bad", "Act now", tell
    return ("warn", "Degraded", tell) if others else ("ok", "All live", tell)
