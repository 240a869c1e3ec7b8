"""mAP50-95 of the shapes detector in FP32 and in simulated INT8, with the default options of `edgedla quantize`.

    python benchmarks/bench_quantize_shapes.py [--frames 200] [--calibration 160] [--options equalize,bias_correction] [--out FILE]

`quantize` gets calibration frames alone and holds a fifth of them out for its own decisions. The frames that judge were seen
neither by it nor by training. Exits with 1 where INT8 is more than 0.003 below FP32 (0.3 points).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Tuple

import numpy as np
import onnx

import edgedla
from edgedla.accuracy.evaluate import evaluate, onnx_network
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.samples import Samples
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "00_shapes_detector"
MOST_DROP = 0.003
PLATFORM: Any = {"target": "agx-orin-64gb", "trt": "10.3"}
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


def judged(result: Any, held_out: Samples, metric: Any) -> Tuple[float, float]:
    """The metric of the original in FP32 and of the artifact that a build makes of the result."""
    with tempfile.TemporaryDirectory() as folder:
        scales = Path(folder) / "scales"
        result.save(scales)
        original = EXAMPLE / "shapes_detector.onnx"
        model = scales / "model.onnx" if result.model is not None else original
        request = edgedla.BuildRequest(**PLATFORM, precision="int8", calib=scales, backend="host")
        edgedla.build(model, Path(folder) / "artifact", request)
        built = Path(folder) / "artifact" / edgedla.load_artifact(Path(folder) / "artifact").file("host_model").name
        networks = [onnx_network(onnx.load(str(path)), name) for path, name in ((original, "FP32"), (built, "INT8"))]
        scores = [evaluate(network, held_out, metric).score.value for network in networks]
    return scores[0], scores[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--calibration", type=int, default=160)
    parser.add_argument("--options", default="", help="switches of QuantizeRequest, as equalize,bias_correction")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, str(EXAMPLE))
    import shapes

    calibration = samples_of(shapes, CALIBRATION_SEED, options.calibration)
    held_out = samples_of(shapes, 0, options.frames)
    decode = DecodeOptions("yolov8", score=LEAST_SCORE, iou=0.6, reg_max=8)
    metric = map_metric(decode, ("raw_s8", "raw_s16"), held_out.feeds[0]["images"].shape)
    switches = {name: True for name in filter(None, options.options.split(","))}
    result = quantize(EXAMPLE / "shapes_detector.onnx", calibration, QuantizeRequest(**PLATFORM, **switches))
    fp32, int8 = judged(result, held_out, metric)
    row = {
        "basis": "simulated", "frames": options.frames, "calibration": options.calibration, "method": result.method,
        "options": sorted(switches), "own_holdout": result.holdout, "own_sqnr_db": round(result.sqnr_db, 2),
        "methods_db": {name: round(db, 2) for name, db in result.methods.items()},
        "map50_95_fp32": round(fp32, 4), "map50_95_int8": round(int8, 4),
        "steps": [[s.name, s.detail, round(s.before_db, 2), round(s.sqnr_db, 2), s.kept] for s in result.steps],
        "nodes": dict(result.nodes), "model_changed": result.model is not None,
        "holds": int8 >= fp32 - MOST_DROP,
    }  # fmt: skip
    print(json.dumps(row))
    if options.out:
        options.out.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return int(not row["holds"])


if __name__ == "__main__":
    sys.exit(main())
