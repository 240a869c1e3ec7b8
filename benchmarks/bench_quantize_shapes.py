"""mAP50-95 of the shapes detector in FP32 and in simulated INT8, on frames that neither training nor calibration saw.

    python benchmarks/bench_quantize_shapes.py [--frames 200] [--calibration 128] [--out FILE]

Exits with 1 where INT8 is more than 0.003 below FP32 (0.3 points).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import Samples
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "00_shapes_detector"
MOST_DROP = 0.003
#: Seeds below 1000 are held out, as in the example.
CALIBRATION_SEED = 1000


def samples_of(shapes: Any, first: int, count: int) -> Samples:
    frames = [shapes.sample(seed) for seed in range(first, first + count)]
    feeds, labels = [], []
    for frame, boxes, classes in frames:
        values = np.ascontiguousarray(frame[..., ::-1].transpose(2, 0, 1), np.float32) / np.float32(255)
        feeds.append({"images": values[None]})
        labels.append(np.column_stack([classes, boxes]) if len(classes) else np.full((1, 5), -1.0))
    return Samples(feeds, False, f"{count} frames from seed {first}", labels)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=128)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLE))
    import shapes

    calibration = samples_of(shapes, CALIBRATION_SEED, options.calibration)
    held_out = samples_of(shapes, 0, options.frames)
    decode = DecodeOptions("yolov8", score=LEAST_SCORE, iou=0.6, reg_max=8)
    metric = map_metric(decode, ("raw_s8", "raw_s16"), held_out.feeds[0]["images"].shape)
    request = QuantizeRequest(
        target="agx-orin-64gb", trt="10.3", metric=metric, bias_correction=True, equalize=True, max_drop=MOST_DROP
    )
    result = quantize(EXAMPLE / "shapes_detector.onnx", calibration, request, holdout=held_out)
    fp32, int8 = result.scores
    row = {
        "basis": "simulated", "frames": options.frames, "calibration": options.calibration, "method": result.method,
        "sqnr_db": round(result.sqnr_db, 1), "map50_95_fp32": round(fp32.value, 4), "map50_95_int8": round(int8.value, 4),
        "steps": [[s.name, s.detail, s.kept] for s in result.steps],
        "interval_int8": [round(int8.low, 4), round(int8.high, 4)], "nodes": dict(result.nodes),
        "holds": int8.value >= fp32.value - MOST_DROP,
    }  # fmt: skip
    print(json.dumps(row))
    if options.out:
        options.out.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return int(not row["holds"])


if __name__ == "__main__":
    sys.exit(main())
