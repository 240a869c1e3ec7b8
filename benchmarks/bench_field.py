"""Pipelines of several cameras and models: CPU a frame, shares under overload, what a bad camera or viewers cost, memory.

Runners are fake ones that sleep RUNNER_MS (a stated figure), cameras are synthetic ones of 64x48 pixels at 30 frames/s, and
preparing and decoding do nothing: what is measured is the pipeline's own work. Compared cases run in turn, several times, and
the median ratio is given, because a laptop's clock and its other work move. No number here is one of a Jetson.

usage: python benchmarks/bench_field.py [--seconds 4] [--rounds 3] [--frames 200000] [--only PART] [--json FILE]
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from edgedla.errors import RunError
from edgedla.preprocess.geometry import Geometry
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess
from edgedla.runtime.live.server import serve_view
from edgedla.runtime.outputs.sinks import Callback, JsonLines
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.engine import Engine
from edgedla.runtime.pipeline.lane import Lane
from edgedla.runtime.pipeline.pipeline import Limits, Pipeline
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.settings import ViewConfig
from edgedla.runtime.pipeline.slots import Share
from edgedla.runtime.sources import open_source

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.ports import free_port
from tests.runtime.fake_runner import FakeRunner

RUNNER_MS, FPS = 5.0, 30
#: As browsers do, each viewer keeps its connection and asks for the next picture once it has one. A process of its own, of the
#: least priority: viewers sit at other machines.
WATCH = """
import http.client, os, sys, threading, time
os.nice(19)
def watch(name):
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
            while True:
                connection.request("GET", f"/camera/{name}.jpg")
                connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
threads = [threading.Thread(target=watch, args=(name,)) for name in sys.argv[2:]]
for t in threads:
    t.start()
"""
GEOMETRY = Geometry.fit((48, 64), (48, 64))


def camera(name: str, rate: float = FPS, frames: int = 0, size: str = "width=64&height=48", max_rate: float = 0.0) -> Capture:
    uri = f"synthetic://?pattern=counter&{size}&rate={rate}&frames={frames}"
    return Capture(lambda: open_source(uri), name=name, max_rate=max_rate, patient=True)


class Bad:
    """A camera that refuses ("dies") or never gives a frame ("hangs")."""

    live, pixels, rate, uri = True, "bgr", float(FPS), "bad"

    def __init__(self, how: str) -> None:
        self.how = how

    def open(self) -> Any:
        if self.how == "dies":
            raise RunError("no such camera", where="bad")
        return 48, 64

    def read(self) -> Any:
        time.sleep(3600)

    def close(self) -> None:
        return None


def lane(name: str, sources: List[str], ms: float, weights: Optional[Dict[str, float]] = None) -> Lane:
    answer = {"y": np.zeros(4, np.uint8)}
    runner = FakeRunner((), ms, lambda given: answer, name=f"DLA{name}")
    engine = Engine(Pool([runner]), lambda s: lambda image, out=None, pixels="bgr": ({"x": image}, GEOMETRY), lambda b, g: [[]])
    return Lane(engine, {s: Share((weights or {}).get(s, 1.0)) for s in sources}, name)


def run(captures: List[Capture], lanes: List[Lane], seconds: float, sinks: Any = ()) -> Dict[str, Any]:
    pipeline = Pipeline(captures, lanes, [JsonLines(os.devnull), *sinks], Limits(seconds=seconds))
    pipeline.start()
    before = time.process_time()
    summary = pipeline.run()
    summary["cpu_ms"] = (time.process_time() - before) * 1e3 / max(1, summary["frames"]["results"])
    for one in lanes:
        one.close()
    return summary


def cpu(seconds: float, rounds: int) -> List[Dict[str, Any]]:
    """CPU of the whole process for each result: sources, slots, runners' threads, results, JSON lines."""
    rows: Dict[Any, List[float]] = collections.defaultdict(list)
    for _ in range(rounds):
        for models in (1, 2):
            for cameras in (1, 2, 4, 8):
                names = [f"c{i}" for i in range(cameras)]
                made = [lane(str(m), names, RUNNER_MS) for m in range(models)]
                rows[models, cameras].append(run([camera(n) for n in names], made, seconds)["cpu_ms"])
    return [
        {"models": m, "cameras": c, "cpu_ms_per_result": round(statistics.median(v), 3)} for (m, c), v in sorted(rows.items())
    ]


def shares(seconds: float) -> Dict[str, Any]:
    """Four cameras of 30 frames/s over a runner of 20 ms (50 a second), weights 1, 1, 2 and 4."""
    weights = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 4.0}
    summary = run([camera(n) for n in weights], [lane("m", list(weights), 20.0, weights)], seconds * 3)
    results = {n: v["results"] for n, v in summary["models"][0]["sources"].items()}
    total = sum(results.values())
    wanted = {n: w / sum(weights.values()) for n, w in weights.items()}
    return {
        "results": results,
        "worst_difference_of_share": round(max(abs(results[n] / total / wanted[n] - 1) for n in weights), 4),
    }


def bad_camera(seconds: float, rounds: int) -> Dict[str, Any]:
    """What a bad fourth camera does to three good ones.

    Free running: each camera has a clock of its own, as cameras do, so that every order of arrival occurs. In step: all four
    expose at the same moment and the fourth is read last, so that a good one is never in the others' way: the comparison that
    is the hardest to pass.
    """
    return {
        "free_running": bad_cameras(seconds, rounds, (29.2, 30.1, 30.9, 29.7)),
        "in_step": bad_cameras(seconds, rounds, (FPS,) * 4),
    }


def bad_cameras(seconds: float, rounds: int, rates: Sequence[float]) -> Dict[str, Any]:
    """Age p99 of three good cameras beside a good, dead, hanging or flooding fourth one; ratios to the good one."""
    ages: Dict[str, List[float]] = collections.defaultdict(list)
    for _ in range(rounds):
        for how in ("good", "dies", "hangs", "floods", "floods, max_rate 30"):
            fourth = {
                "good": lambda: camera("d", rates[3]),
                "floods": lambda: camera("d", 1000.0),
                "floods, max_rate 30": lambda: camera("d", 1000.0, max_rate=FPS),
            }.get(how, lambda how=how: Capture(lambda: Bad(how), name="d", patient=True))()
            seen: List[float] = []
            keep = Callback(lambda r, seen=seen: seen.append(r.age_ms) if r.source != "d" else None)
            run([*(camera(n, r) for n, r in zip("abc", rates)), fourth], [lane("m", list("abcd"), RUNNER_MS)], seconds, [keep])
            ages[how].append(float(np.percentile(seen, 99)))
    median = {how: statistics.median(v) for how, v in ages.items()}
    ratio = {how: round(statistics.median(x / y for x, y in zip(ages[how], ages["good"])), 3) for how in ages if how != "good"}
    return {
        "age_p99_ms": {k: round(v, 2) for k, v in median.items()},
        "ratio_to_good": ratio,
        "bound_ms": 1e3 / FPS + 2 * RUNNER_MS,
    }


def viewers(seconds: float, rounds: int) -> Dict[str, Any]:
    """Results a second of two cameras of 1280x720 at 30 frames/s without the page, with it, and with three viewers of each."""
    rates: Dict[str, List[float]] = collections.defaultdict(list)
    for _ in range(rounds):
        for case in ("no page", "0 viewers", "3 viewers"):
            captures = [camera(n, size="width=1280&height=720") for n in "ab"]
            made = lane("m", ["a", "b"], RUNNER_MS)
            pipeline = Pipeline(captures, [made], [JsonLines(os.devnull)], Limits(seconds=seconds))
            pipeline.start()
            port = 0 if case == "no page" else 18471
            with serve_view(pipeline, ViewConfig(port=port)):
                watching = [sys.executable, "-c", WATCH, str(port), *"ab" * (3 if case == "3 viewers" else 0)]
                process = subprocess.Popen(watching)
                rates[case].append(pipeline.run()["throughput_fps"])
                process.kill()
                process.wait()
            made.close()
    fall = {c: round(1 - statistics.median(x / y for x, y in zip(rates[c], rates["no page"])), 4) for c in rates}
    return {"results_a_second": {c: round(statistics.median(v), 2) for c, v in rates.items()}, "fall": fall}


def memory(frames: int) -> Dict[str, Any]:
    """Resident memory while two unpaced sources give `frames` frames in all."""
    marks: List[float] = []
    pipeline = Pipeline(
        [camera(n, 0, frames // 2) for n in "ab"], [lane("m", ["a", "b"], 0.0)], [JsonLines(os.devnull)], Limits()
    )
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(1.0):
            with open("/proc/self/statm") as f:
                marks.append(int(f.read().split()[1]) * resource.getpagesize() / 1e6)

    threading.Thread(target=look, daemon=True).start()
    summary = pipeline.run()
    stop.set()
    pipeline.lanes[0].close()
    later = marks[len(marks) // 4 :]
    growth = round(max(later[len(later) // 2 :]) - max(later[: len(later) // 2]), 2) if len(later) > 3 else None
    return {
        "frames": summary["frames"]["results"],
        "mb_first": round(later[0], 1),
        "mb_last": round(later[-1], 1),
        "growth_mb": growth,
    }


def frames_cpu() -> List[Dict[str, Any]]:
    """CPU of this process and the source's for each frame of a GStreamer pipeline: making it, and beside that handing it over and
    preparing a network's input of 320x320. What starting takes is left out: it is the same for one count of frames and for twice."""
    rows = []
    for w, h, count in ((320, 240, 3000), (1920, 1080, 200), (3840, 2160, 100)):
        source_s, edgedla_s = ((two - one) / count for one, two in zip(frames_s(w, h, count), frames_s(w, h, 2 * count)))
        ms = {"source_ms": source_s, "edgedla_ms": edgedla_s - source_s}
        rows.append({"frame": f"{w}x{h}", **{k: round(v * 1e3, 2) for k, v in ms.items()}})
    return rows


def frames_s(w: int, h: int, count: int) -> Tuple[float, float]:
    """CPU seconds of a pipeline alone, and of edgedla with it."""
    made = f"videotestsrc pattern=black num-buffers={count} ! video/x-raw,format=I420,width={w},height={h},framerate=1000/1"
    before_s = children_s()
    subprocess.run(["gst-launch-1.0", "-q", *f"{made} ! fakesink".split()], check=True)
    source_s = children_s() - before_s
    before_s = children_s() + time.process_time()
    prepare_all(made)
    return source_s, children_s() + time.process_time() - before_s


def prepare_all(made: str) -> int:
    """Reads a pipeline to its end, and prepares each frame; how many there were."""
    source, count = open_source(f"gst://{made}"), 0
    spec = Preprocess(source.open(), (3, 320, 320), pixels=source.pixels, dtype="INT8", scale=1 / 127)
    prepare = CpuPreprocessor(spec)
    image = source.read()
    while image is not None:
        prepare(image)
        image, count = source.read(), count + 1
    source.close()
    return count


def eight_cameras(seconds: float) -> Dict[str, Any]:
    """Processor cores that eight cameras of 1920x1080 at 30 frames/s take beside making, decoding and inference."""
    frames = int(seconds * 2) * 30
    caps = "video/x-raw,format=I420,width=1920,height=1080,framerate=30/1"
    made = f"videotestsrc is-live=true pattern=black num-buffers={frames} ! {caps}"
    before_s = children_s()
    alone = [subprocess.Popen(["gst-launch-1.0", "-q", *f"{made} ! fakesink".split()]) for _ in range(8)]
    for process in alone:
        process.wait()
    source_s, before_s = children_s() - before_s, children_s() + time.process_time()
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        read = sum(threads.map(prepare_all, [made] * 8))
    used_s = children_s() + time.process_time() - before_s - source_s
    return {"frames": read, "of": frames * 8, "cores": round(used_s / (frames / 30), 2)}


def glass_to_result(seconds: float) -> List[Dict[str, Any]]:
    """Age of results by the wall clock that the camera's pictures show (clock_camera.py), beside the age that edgedla reports, which
    begins when a frame arrives. By RTSP on this machine; the runner takes RUNNER_MS."""
    rows, port = [], free_port()
    command = ["/usr/bin/python3", str(Path(__file__).with_name("clock_camera.py")), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        for codec in ("h264", "mjpeg"):
            ages: List[Tuple[int, float]] = []

            def aged(result: Any, ages: List[Tuple[int, float]] = ages) -> None:
                now_ms, row = time.time_ns() // 1_000_000, result.frame.image[50]
                shown = sum(1 << bit for bit in range(16) if row[bit * 20 + 10] > 128)
                ages.append(((now_ms - shown) & 0xFFFF, result.age_ms))

            uri = f"rtsp://127.0.0.1:{port}/{codec}"
            run(
                [Capture(lambda uri=uri: open_source(uri), name="clock")],
                [lane("", ["clock"], RUNNER_MS)],
                seconds,
                [Callback(aged)],
            )
            # The first second is the stream's beginning.
            true, told = zip(*ages[15:])
            shares = {
                f"{what}_p{q}_ms": round(float(np.percentile(values, q)), 1)
                for what, values in (("true", true), ("reported", told))
                for q in (50, 99)
            }
            rows.append({"codec": codec, "results": len(true), **shares})
        server.kill()
    return rows


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--only", action="append", default=[], help="a part; others stay as they are in the file")
    parser.add_argument("--json", default="")
    a = parser.parse_args()
    parts: Dict[str, Callable[[], Any]] = {
        "cpu": lambda: cpu(a.seconds, a.rounds),
        "shares": lambda: shares(a.seconds),
        "bad_camera": lambda: bad_camera(a.seconds, a.rounds),
        "viewers": lambda: viewers(a.seconds, a.rounds),
        "memory": lambda: memory(a.frames),
        "frames_cpu": frames_cpu,
        "eight_cameras": lambda: eight_cameras(a.seconds),
        "glass_to_result": lambda: glass_to_result(a.seconds * 3),
    }
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    document: Dict[str, Any] = {"machine": machine, "runner_ms": RUNNER_MS, "load_before": {}}
    if a.only and os.path.exists(a.json):
        with open(a.json, encoding="utf-8") as f:
            document = json.load(f)
    for name, measure in parts.items():
        if not a.only or name in a.only:
            document["load_before"][name] = round(os.getloadavg()[0], 2)
            document[name] = measure()
    text = json.dumps(document, indent=1)
    sys.stdout.write(text + "\n")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            f.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
