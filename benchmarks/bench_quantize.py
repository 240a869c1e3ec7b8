"""Cost of collecting histograms against plain inference, in one run: CPU time, peak memory, growth with samples.

    python benchmarks/bench_quantize.py MODEL [--samples 50,200] [--whole] [--out FILE]

Prints JSON, and writes it to --out. A MODEL without weights gets random ones. All five methods choose from one collection.
--whole: then `edgedla quantize --report` with as many samples in files, in a process of its own: with triage, the comparison of
methods on held-out samples, and thresholds by the error at the outputs.
Exits with 1 where a row takes more than 2.5 times plain inference or more than 1 GiB; with --whole more than 1.25 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import onnx
from bench_quantize_trained import corpus_model
from join_rows import write
from provenance import provenance

from edgedla.quantization.collect import collect
from edgedla.quantization.methods import METHODS, thresholds
from edgedla.quantization.samples import Feed, InputSpec, Samples
from edgedla.quantization.session import input_specs, open_session

MOST_RATIO, MOST_MIB, MOST_WHOLE_MIB = 2.5, 1024, 1280
#: The peak of the process itself: getrusage counts what its parent had at the start too. Then the most memory of its own, and the
#: most of mapped files, libraries and samples among them, which the system takes back when it needs them.
CLI = """
import atexit, os, pathlib, threading, time
status = pathlib.Path("/proc/self/status")
def mib(field):
    return next(int(x.split()[1]) // 1024 for x in status.read_text().splitlines() if x.startswith(field))
most = {"RssAnon": 0, "RssFile": 0}
def watch():
    while True:
        most.update((field, max(value, mib(field))) for field, value in list(most.items()))
        time.sleep(0.05)
start = lambda: threading.Thread(target=watch, daemon=True).start()
os.register_at_fork(after_in_child=start)
start()
atexit.register(lambda: print("measured", round(time.process_time(), 2), mib("VmHWM"), *most.values()))
from edgedla.cli import run
run()
"""


class RandomFeeds:
    """Samples made when they are asked for, so that the benchmark's own memory stays out of the figure."""

    def __init__(self, specs: Any, count: int) -> None:
        self.specs, self.count = specs, count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Feed]:
        for i in range(self.count):
            rng = np.random.default_rng(i)
            yield {s.name: rng.standard_normal(s.shape).astype(s.dtype) for s in self.specs}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


def measure(model: Any, specs: Any, count: int) -> Dict[str, float]:
    feeds = RandomFeeds(specs, count)
    started = time.process_time()
    for _ in feeds:
        pass
    making = time.process_time() - started
    session = open_session(model.SerializeToString())
    started = time.process_time()
    for feed in feeds:
        session.run(None, feed)
    plain = time.process_time() - started - making
    del session
    started = time.process_time()
    collection = collect(model, Samples(feeds, True, "random"))  # type: ignore[arg-type]
    collecting = time.process_time() - started - making
    started = time.process_time()
    for method in METHODS:
        thresholds(collection, method)
    choosing = time.process_time() - started
    return {
        "samples": count,
        "tensors": len(collection.histograms),
        "plain_cpu_s": round(plain, 2),
        "collect_cpu_s": round(collecting, 2),
        "five_methods_cpu_s": round(choosing, 2),
        "ratio_to_plain": round((collecting + choosing) / plain, 2),
        "peak_mib": round(peak_mib()),
    }


def whole(model: Any, specs: Any, count: int) -> Dict[str, float]:
    """CPU time and memory of the command with `count` samples."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        onnx.save(model, str(folder / "model.onnx"))
        for i, feed in enumerate(RandomFeeds(specs, count)):
            np.savez(folder / "data" / f"{i:05}.npz", **feed)
        # Random weights may leave channels dead, with which the command ends with 1.
        arguments = [str(folder / "model.onnx"), "--data", str(folder / "data"), "--report", "--fail-on", "never"]
        arguments += ["-o", str(folder / "out")]
        started = time.perf_counter()
        command = [sys.executable, "-c", CLI, "quantize", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - started
    print(done.stdout)
    cpu, peak, own, mapped = done.stdout.splitlines()[-1].split()[1:]
    return {
        "samples": count,
        "quantize_cpu_s": float(cpu),
        "quantize_wall_s": round(seconds, 1),
        "peak_mib": int(peak),
        "most_own_mib": int(own),
        "most_mapped_mib": int(mapped),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--samples", default="50,200")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    model, _ = corpus_model(Path(a.model))
    specs: Any = [InputSpec(s.name, s.shape, s.dtype) for s in input_specs(open_session(model.SerializeToString()), {})]
    work = whole if a.whole else measure
    rows = [work(model, specs, int(count)) for count in a.samples.split(",")]
    document = {"basis": "measured", **provenance(), "model": a.model.rpartition("/")[2], "rows": rows}
    print(json.dumps(document, indent=1))
    if a.out:
        write(a.out, document)
    most_mib = MOST_WHOLE_MIB if a.whole else MOST_MIB
    return int(any(row.get("ratio_to_plain", 0) > MOST_RATIO or row["peak_mib"] > most_mib for row in rows))


if __name__ == "__main__":
    sys.exit(main())
