"""Times a runner: warm-up, then a number of inferences or seconds, whichever takes longer, like trtexec."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from edgedla.arguments import require_field_types
from edgedla.builder.artifact.artifact import Artifact
from edgedla.errors import UsageError
from edgedla.runtime.runners.base import Runner, stages_of
from edgedla.runtime.runners.chain import ChainRunner

#: Integer types of network inputs, besides bytes.
_WHOLE = {"INT32": np.int32, "INT64": np.int64}


@dataclass(frozen=True)
class BenchOptions:
    """trtexec's defaults: 200 ms of warm-up, at least 10 iterations and 3 s.

    `streams`: number of inferences in flight; for the throughput of a chain, the number in each stage.

    Raises:
        UsageError: nothing to measure, or a percentile outside 0 to 100.
    """

    warm_up_ms: float = 200.0
    iterations: int = 10
    duration_s: float = 3.0
    percentiles: Tuple[float, ...] = (50, 90, 95, 99)
    streams: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        require_field_types(self)
        for name in ("warm_up_ms", "duration_s"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{getattr(self, name)}", where=name, allowed="0 or more")
        if self.iterations < 1 and self.duration_s <= 0:
            raise UsageError("neither iterations nor a duration", allowed="--iterations of at least 1 or --duration above 0")
        if any(not 0 < p <= 100 for p in self.percentiles):
            raise UsageError(f"percentiles {list(self.percentiles)}", allowed="above 0, at most 100")


@dataclass(frozen=True)
class BenchResult:
    """Latencies of one runner in milliseconds; `simulated` if it was not a device.

    For a chain, `throughput_qps` and the latencies are for one frame at a time, `pipelined` is the result with `in_flight`
    frames, and `stages` the time in each stage for one frame at a time (ChainRunner.stages).
    `interrupted`: Ctrl-C ended the measurement early; the result holds what was measured before.
    """

    runner: str
    simulated: bool
    count: int
    seconds: float
    throughput_qps: float
    mean_ms: float
    min_ms: float
    max_ms: float
    percentiles_ms: Dict[str, float]
    in_flight: int = 1
    stages: Tuple[Dict[str, Any], ...] = ()
    pipelined: Optional[BenchResult] = None
    times_ms: Tuple[float, ...] = ()
    interrupted: bool = False

    def to_dict(self, times: bool = False) -> Dict[str, Any]:
        document: Dict[str, Any] = {k: v for k, v in self.__dict__.items() if k not in ("times_ms", "interrupted")}
        if self.interrupted:
            document["interrupted"] = True
        document["stages"] = list(self.stages)
        document["pipelined"] = None if self.pipelined is None else self.pipelined.to_dict(times)
        if times:
            document["times_ms"] = list(self.times_ms)
        return document


def random_inputs(artifact: Artifact, seed: int) -> Dict[str, np.ndarray]:
    """Buffers with small values: bytes for INT8, finite numbers for floating types, 0 and 1 for all other types, because a
    model may use these as indices."""
    rng = np.random.default_rng(seed)
    buffers: Dict[str, np.ndarray] = {}
    for b in artifact.inputs:
        if b.dtype in ("HALF", "FLOAT"):
            kind = np.dtype(np.float16 if b.dtype == "HALF" else np.float32)
            values = np.asarray(rng.standard_normal(b.size_bytes // kind.itemsize)).astype(kind)
            buffers[b.name] = values.view(np.uint8)
        else:
            high, of_element = (256, np.uint8) if b.dtype in ("INT8", "UINT8") else (2, _WHOLE.get(b.dtype, np.uint8))
            count = b.size_bytes // np.dtype(of_element).itemsize
            buffers[b.name] = rng.integers(0, high, count).astype(of_element).view(np.uint8)
    return buffers


def time_runner(runner: Runner, inputs: Dict[str, np.ndarray], options: BenchOptions) -> BenchResult:
    """Latency from submission to result. With several streams it includes the wait for earlier inferences.

    A chain is timed twice: one frame at a time for its latency, then with a frame in each stage for its throughput.

    Raises:
        RunError: an inference failed.
    """
    end = time.monotonic() + options.warm_up_ms / 1e3
    runner.wait(runner.submit(inputs))
    while time.monotonic() < end:
        runner.wait(runner.submit(inputs))
    streams = max(1, options.streams)
    if not isinstance(runner, ChainRunner):
        return _timed(runner, inputs, options, streams)
    runner.forget_times()
    alone = _timed(runner, inputs, options, 1)
    stages = tuple(stages_of(runner))
    if alone.interrupted:
        return replace(alone, stages=stages)
    try:
        pipelined = _timed(runner, inputs, options, runner.stage_count * streams)
    except KeyboardInterrupt:
        return replace(alone, stages=stages, interrupted=True)
    return replace(alone, stages=stages, pipelined=pipelined)


def _timed(runner: Runner, inputs: Dict[str, np.ndarray], options: BenchOptions, in_flight: int) -> BenchResult:
    times: List[float] = []
    under_way: List[Tuple[Any, float]] = []
    started = time.perf_counter()
    interrupted = False
    try:
        while True:
            going = len(times) + len(under_way) < options.iterations or time.perf_counter() - started < options.duration_s
            while going and len(under_way) < in_flight:
                under_way.append((runner.submit(inputs), time.perf_counter()))
            if not under_way:
                break
            ticket, at = under_way.pop(0)
            runner.wait(ticket)
            times.append((time.perf_counter() - at) * 1e3)
    except KeyboardInterrupt:
        # Ctrl-C ends the measurement but keeps what was measured.
        if not times:
            raise
        interrupted = True
    seconds = time.perf_counter() - started
    sorted_ms = np.sort(np.asarray(times))
    # Percentile p: the smallest time that at least p percent of the inferences do not exceed.
    ranks = {p: max(0, int(np.ceil(len(times) * p / 100)) - 1) for p in options.percentiles}
    return BenchResult(
        runner=runner.name,
        simulated=runner.simulated,
        count=len(times),
        seconds=round(seconds, 4),
        throughput_qps=round(len(times) / seconds, 3),
        mean_ms=round(float(sorted_ms.mean()), 4),
        min_ms=round(float(sorted_ms[0]), 4),
        max_ms=round(float(sorted_ms[-1]), 4),
        percentiles_ms={f"p{p:g}": round(float(sorted_ms[rank]), 4) for p, rank in ranks.items()},
        in_flight=in_flight,
        times_ms=tuple(round(t, 4) for t in times),
        interrupted=interrupted,
    )
