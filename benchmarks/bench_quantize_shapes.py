"""mAP50-95 of the shapes detector in FP32 and in simulated INT8, on frames that no decision saw.

    python benchmarks/bench_quantize_shapes.py [--frames 2400] [--calibration 160] [--goal | --build] [--out FILE]

`quantize` with its default options, which holds a fifth of the calibration frames out for itself; with --goal also with
`--metric map --max-drop 0.003`, which decides on 400 frames of its own. Each is built and judged on frames from seed 500000 on,
which neither training, calibration nor a decision saw, with a 95 % interval of the paired difference. Exits with 1 where the
mAP of the first row is more than 0.003 (0.3 points) below FP32.

With --build instead: what `edgedla build --calib-data` makes of the same frames, without and with --calib-search, and the CPU
seconds of each build; always exits with 0.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from provenance import write_rows

import edgedla
from edgedla.accuracy.evaluate import evaluate, onnx_network
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import Samples
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "00_shapes_detector"
MODEL = EXAMPLE / "shapes_detector.onnx"
MOST_DROP = 0.003
PLATFORM: Any = {"target": "agx-orin-64gb", "trt": "10.3"}
#: Calibration as in the example; training frames begin at one million, frames that only judge at half a million.
CALIBRATION_SEED, JUDGE_SEED = 1000, 500_000


def samples_of(shapes: Any, first: int, count: int) -> Samples:
    frames = [shapes.sample(seed) for seed in range(first, first + count)]
    feeds, labels = [], []
    for frame, boxes, classes in frames:
        values = np.ascontiguousarray(frame[..., ::-1].transpose(2, 0, 1), np.float32) / np.float32(255)
        feeds.append({"images": values[None]})
        labels.append(np.column_stack([classes, boxes]) if len(classes) else np.full((1, 5), -1.0))
    return Samples(feeds, False, f"{count} frames from seed {first}", labels)


def judged(result: Any, held_out: Samples, metric: Any) -> Any:
    """The metric of the artifact that a build makes of the result, against the original in FP32."""
    with tempfile.TemporaryDirectory() as folder:
        scales = Path(folder) / "scales"
        result.save(scales)
        model = scales / "model.onnx" if result.model is not None else MODEL
        request = edgedla.BuildRequest(**PLATFORM, precision="int8", calib=scales, backend="host")
        edgedla.build(model, Path(folder) / "artifact", request)
        return scored(Path(folder) / "artifact", held_out, metric)


def scored(artifact: Path, held_out: Samples, metric: Any) -> Any:
    """The metric of a host artifact against the original in FP32."""
    built = artifact / edgedla.load_artifact(artifact).file("host_model").name
    int8, fp32 = (onnx_network(onnx.load(str(path)), name) for path, name in ((built, "INT8"), (MODEL, "FP32")))
    return evaluate(int8, held_out, metric, fp32)


def builds(calibration: Samples, held_out: Samples, metric: Any) -> Any:
    """A row of each build: scales by each tensor's own histogram, and by the error at the outputs."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "frames.npz"
        np.savez(data, images=np.concatenate([feeds["images"] for feeds in calibration.feeds]))
        request = edgedla.BuildRequest(**PLATFORM, precision="int8", calib_data=data, backend="host")
        for search in (False, True):
            began = time.process_time()
            edgedla.build(MODEL, Path(folder) / f"search{search}", request, search=search)
            cpu_s = time.process_time() - began
            answer = scored(Path(folder) / f"search{search}", held_out, metric)
            yield {
                "options": "build --calib-search" if search else "build",
                "cpu_s": round(cpu_s, 1),
                "judged_on": held_out.detail,
                "map50_95_fp32": round(answer.against.value, 4),
                "map50_95_int8": round(answer.score.value, 4),
                "difference": [round(value, 5) for value in answer.difference],
            }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=2400)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--goal", action="store_true")
    what.add_argument("--build", action="store_true")
    parser.add_argument("--calibration", type=int, default=160)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLE))
    import shapes

    calibration = samples_of(shapes, CALIBRATION_SEED, options.calibration)
    judge = samples_of(shapes, JUDGE_SEED, options.frames)
    decode = DecodeOptions("yolov8", score=LEAST_SCORE, iou=0.6, reg_max=8)
    metric = map_metric(decode, ("raw_s8", "raw_s16"), judge.feeds[0]["images"].shape)
    if options.build:
        made = list(builds(calibration, judge, metric))
        print(json.dumps(made), flush=True)
        if options.out:
            write_rows(options.out, made, calibration=options.calibration)
        return 0
    runs: Any = [("default", QuantizeRequest(**PLATFORM), None)]
    if options.goal:
        # Steps are judged by the figure alone: intervals are for the end.
        goal = QuantizeRequest(**PLATFORM, metric=replace(metric, resamples=1), max_drop=MOST_DROP)
        runs.append(("goal", goal, samples_of(shapes, 200, 400)))
    rows = []
    for name, request, holdout in runs:
        result = quantize(MODEL, calibration, request, holdout=holdout)
        answer = judged(result, judge, metric)
        drop = answer.difference[0]
        rows.append(
            {
                "options": name,
                "decided_on": result.holdout,
                "sqnr_db": round(result.sqnr_db, 2),
                "methods_db": {method: round(db, 2) for method, db in result.methods.items()},
                "steps": [[s.name, s.detail, round(s.before_db, 2), round(s.sqnr_db, 2), s.kept] for s in result.steps],
                "fp16_layers": len(result.precisions),
                "predicted_dla_us": [round(result.predicted_us["int8"], 1), round(result.predicted_us["extra"], 1)],
                "judged_on": judge.detail,
                "map50_95_fp32": round(answer.against.value, 4),
                "map50_95_int8": round(answer.score.value, 4),
                "difference": [round(value, 5) for value in answer.difference],
                "within": drop >= -MOST_DROP,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_rows(options.out, rows, calibration=options.calibration)
    return int(not rows[0]["within"])


if __name__ == "__main__":
    sys.exit(main())
