"""Times a runner: warm-up, then a number of inferences or seconds, whichever is longer, as trtexec counts them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from edgedla.builder.artifact import Artifact
from edgedla.errors import UsageError
from edgedla.runtime.runners.base import Runner


@dataclass(frozen=True)
class BenchOptions:
    """trtexec's defaults: 200 ms of warm-up, at least 10 iterations and 3 s. `streams` inferences are under way at once."""

    warm_up_ms: float = 200.0
    iterations: int = 10
    duration_s: float = 3.0
    percentiles: Tuple[float, ...] = (50, 90, 95, 99)
    streams: int = 1
    seed: int = 0


@dataclass(frozen=True)
class BenchResult:
    """Latencies of one runner in milliseconds; `simulated` where it was no device."""

    runner: str
    simulated: bool
    count: int
    seconds: float
    throughput_qps: float
    mean_ms: float
    min_ms: float
    max_ms: float
    percentiles_ms: Dict[str, float]
    times_ms: Tuple[float, ...] = ()

    def to_dict(self, times: bool = False) -> Dict[str, Any]:
        document: Dict[str, Any] = {k: v for k, v in self.__dict__.items() if k != "times_ms"}
        if times:
            document["times_ms"] = list(self.times_ms)
        return document


def random_inputs(artifact: Artifact, seed: int) -> Dict[str, np.ndarray]:
    """Buffers with small values: bytes of INT8, finite numbers of the floating types."""
    rng = np.random.default_rng(seed)
    buffers: Dict[str, np.ndarray] = {}
    for b in artifact.inputs:
        if b.dtype in ("HALF", "FLOAT"):
            kind = np.dtype(np.float16 if b.dtype == "HALF" else np.float32)
            values = np.asarray(rng.standard_normal(b.size_bytes // kind.itemsize)).astype(kind)
            buffers[b.name] = values.view(np.uint8)
        else:
            low = rng.integers(0, 2, b.size_bytes, np.uint8)
            buffers[b.name] = rng.integers(0, 256, b.size_bytes, np.uint8) if b.dtype in ("INT8", "UINT8") else low
    return buffers


def bench(runner: Runner, inputs: Dict[str, np.ndarray], options: BenchOptions) -> BenchResult:
    """Latency from submission to result. With several streams it holds the wait for the inferences before it.

    Raises:
        UsageError: nothing to measure. RunError: an inference failed.
    """
    if options.iterations < 1 and options.duration_s <= 0:
        raise UsageError(
            "neither iterations nor a duration", allowed="--iterations of at least 1 or --duration above 0"
        )
    if any(not 0 < p <= 100 for p in options.percentiles):
        raise UsageError(f"percentiles {list(options.percentiles)}", allowed="above 0, at most 100")
    end = time.monotonic() + options.warm_up_ms / 1e3
    runner.wait(runner.submit(inputs))
    while time.monotonic() < end:
        runner.wait(runner.submit(inputs))
    times: List[float] = []
    under_way: List[Tuple[Any, float]] = []
    started = time.perf_counter()
    while True:
        going = len(times) + len(under_way) < options.iterations or time.perf_counter() - started < options.duration_s
        while going and len(under_way) < max(1, options.streams):
            under_way.append((runner.submit(inputs), time.perf_counter()))
        if not under_way:
            break
        ticket, at = under_way.pop(0)
        runner.wait(ticket)
        times.append((time.perf_counter() - at) * 1e3)
    seconds = time.perf_counter() - started
    return _result(runner, times, seconds, options.percentiles)


def _result(runner: Runner, times: Sequence[float], seconds: float, percentiles: Sequence[float]) -> BenchResult:
    sorted_ms = np.sort(np.asarray(times))
    # The smallest time that at least p percent of the inferences do not exceed.
    at = {p: float(sorted_ms[max(0, int(np.ceil(len(times) * p / 100)) - 1)]) for p in percentiles}
    return BenchResult(
        runner=runner.name,
        simulated=runner.simulated,
        count=len(times),
        seconds=round(seconds, 4),
        throughput_qps=round(len(times) / seconds, 3),
        mean_ms=round(float(sorted_ms.mean()), 4),
        min_ms=round(float(sorted_ms[0]), 4),
        max_ms=round(float(sorted_ms[-1]), 4),
        percentiles_ms={f"p{p:g}": round(v, 4) for p, v in at.items()},
        times_ms=tuple(round(t, 4) for t in times),
    )
