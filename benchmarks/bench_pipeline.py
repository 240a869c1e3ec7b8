"""What the pipeline itself costs per 640x640 frame: everything but the runner, by stage, and its share of a frame's time.

The runner is a fake one that answers at once, so that the time between two results is the pipeline's alone; then one that
takes RUNNER_MS (a stated figure, not a measured one), beside which the share is given. Ratios are taken within one run of
the process, in turn, because a laptop's clock moves. No number here is one of a Jetson.

usage: python benchmarks/bench_pipeline.py [--frames 300] [--runner-ms 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

import numpy as np

from edgedla.builder.artifact.artifact import Artifact, Binding
from edgedla.formats import TensorFormat, layout
from edgedla.preprocess.preprocess import Preprocess
from edgedla.runtime.decode import DECODERS, BoxSettings, NmsOptions
from edgedla.runtime.outputs.sinks import JsonLines
from edgedla.runtime.pipeline.capture import Capture
from edgedla.runtime.pipeline.pipeline import Limits
from edgedla.runtime.pipeline.pool import Pool
from edgedla.runtime.pipeline.prepare import Preparer, open_preprocessor
from edgedla.runtime.runners import outputs_as_arrays
from edgedla.runtime.sources import open_source

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.runtime.fake_runner import FakeRunner
from tests.runtime.one_model import single

HEADS = ((80, 80), (40, 40), (20, 20))
CLASSES = 80
#: (name, dtype, input format): what a hybrid engine and a reformat-free INT8 engine take.
INPUTS = (("FP16 linear", "HALF", "LINEAR"), ("INT8 DLA_HWC4", "INT8", "DLA_HWC4"))


def artifact_for(dtype: str, fmt: str) -> Artifact:
    """A 640x640 detector's borders: an image in, three raw YOLOv8 heads of 80 classes out in FP16."""

    def binding(name: str, is_input: bool, shape: Any, kind: str, form: str) -> Binding:
        size = layout(TensorFormat(form), kind, shape, chip="orin").size_bytes
        return Binding(name, is_input, shape, kind, form, size, {}, 1 / 127 if kind == "INT8" else None)

    heads = tuple(binding(f"head{i}", False, (1, 64 + CLASSES, h, w), "HALF", "LINEAR") for i, (h, w) in enumerate(HEADS))
    image = binding("image", True, (1, 3, 640, 640), dtype, fmt)
    return Artifact("hybrid", "host", True, {"name": "bench"}, {"chip": "orin"}, {}, "fp16", (image, *heads), {})


def outputs_for(artifact: Artifact, objects: int) -> Dict[str, np.ndarray]:
    """Heads with `objects` cells above the threshold in the largest one; the rest far below."""
    rng = np.random.default_rng(0)
    found = {}
    for i, b in enumerate(artifact.outputs):
        head = rng.normal(0, 1, b.shape_nchw).astype(np.float16)
        head[:, 64:] -= 12
        if i == 0:
            for cell in rng.choice(80 * 80, objects, replace=False):
                head[0, 64 + int(cell) % CLASSES, cell // 80, cell % 80] = 4
        found[b.name] = head.reshape(-1).view(np.uint8)
    return found


def one_run(artifact: Artifact, runner_ms: float, frames: int, objects: int, source: str) -> Dict[str, Any]:
    answer = outputs_for(artifact, objects)
    runner = FakeRunner(artifact.bindings, runner_ms, lambda inputs: answer)
    capture = Capture(lambda: open_source(source))
    b = artifact.inputs[0]
    spec = Preprocess((640, 640), (3, 640, 640), dtype=b.dtype, scale=b.scale, format=TensorFormat(b.format), chip="orin")
    prepare = Preparer(b.name, open_preprocessor("cpu", spec, artifact, 3))
    options = NmsOptions()

    def decode(buffers: Any, geometry: Any) -> Any:
        arrays = outputs_as_arrays(artifact, buffers)
        return DECODERS["yolov8"]([arrays[o.name] for o in artifact.outputs], BoxSettings((640, 640), options, geometry))

    pipeline = single(capture, prepare, Pool([runner]), decode, [JsonLines("/dev/null")], Limits(frames=frames))
    before = time.process_time()
    summary = pipeline.run()
    summary["cpu_ms"] = (time.process_time() - before) * 1e3 / summary["frames"]["results"]
    pipeline.lanes[0].close()
    return summary


def measure(frames: int, runner_ms: float, rounds: int) -> Dict[str, Any]:
    rows: List[Dict[str, Any]] = []
    for name, dtype, fmt in INPUTS:
        artifact = artifact_for(dtype, fmt)
        for size in ("width=640&height=640", "width=1920&height=1080"):
            source = f"synthetic://?pattern=counter&{size}"
            one_run(artifact, 0.0, 20, 20, source)
            runs = [
                (one_run(artifact, 0.0, frames, 20, source), one_run(artifact, runner_ms, frames, 20, source))
                for _ in range(rounds)
            ]
            free, loaded = zip(*runs)
            stages = {
                stage: statistics.median(s["stages"][stage]["p50_ms"] for s in free)
                for stage in ("preprocess", "decode", "output")
            }
            # Time between two results beyond the runner's own, and CPU time a frame, both beside the same runner.
            periods = [1e3 / s["throughput_fps"] for s in loaded]
            rows.append(
                {
                    "input": name,
                    "frame": size.replace("width=", "").replace("&height=", "x"),
                    "stages_p50_ms": {k: round(v, 3) for k, v in stages.items()},
                    "stages_sum_ms": round(sum(stages.values()), 3),
                    "fastest_period_ms": round(statistics.median(1e3 / s["throughput_fps"] for s in free), 3),
                    "runner_ms": runner_ms,
                    "period_with_runner_ms": round(statistics.median(periods), 3),
                    "added_to_runner_ms": round(statistics.median(periods) - runner_ms, 3),
                    "share_of_period": round(1 - runner_ms / statistics.median(periods), 4),
                    "cpu_ms_a_frame": round(statistics.median(s["cpu_ms"] for s in loaded), 3),
                }
            )
    return {
        "command": " ".join(["python", *sys.argv]),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu(),
        "python": platform.python_version(),
        "simulated_runner": True,
        "frames": frames,
        "rounds": rounds,
        "rows": rows,
    }


def _cpu() -> str:
    """The processor's name and how many cores this process may use."""
    name = platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as f:
        name = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), name)
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runner-ms", type=float, default=5.0, help="the fake runner's time; stated, not measured")
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    found = measure(given.frames, given.runner_ms, given.rounds)
    print(f"host pipeline, everything but the runner; fake runner of {given.runner_ms:g} ms; ms a frame, median")
    print(f"{'input':<15}{'frame':<11}{'preproc':>8}{'decode':>8}{'output':>8}{'sum':>8}{'added':>8}{'share':>8}{'CPU':>8}")
    for r in found["rows"]:
        s = r["stages_p50_ms"]
        print(
            f"{r['input']:<15}{r['frame']:<11}{s['preprocess']:>8.2f}{s['decode']:>8.2f}{s['output']:>8.2f}"
            f"{r['stages_sum_ms']:>8.2f}{r['added_to_runner_ms']:>8.2f}{r['share_of_period']:>8.1%}{r['cpu_ms_a_frame']:>8.2f}"
        )
    print("added: what a frame takes beyond the runner while stages overlap; share: of the time between two results")
    print("CPU: of the whole process, the making of the synthetic frame with it")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as f:
            json.dump(found, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
