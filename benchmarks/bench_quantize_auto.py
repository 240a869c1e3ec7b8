"""`quantize --method auto` against each single method, on networks as exported and after `edgedla fix`, with three seeds of samples.

    python benchmarks/bench_quantize_auto.py FOLDER [--only ROWS] [--count 2000] [--frames 1200] [--before FILE] [--out FILE]

FOLDER: see trained_digits.py; the shapes detector of the examples is a row too. A row: NET.FORM.SEED. The first half of the held-out
samples decides, the second gives every figure: score (top-1, or mAP of the detector), SQNR of the outputs, of the worst group of
channels, dead channels; CPU seconds of `auto`. `within`: at most 0.3 dB and 0.3 points below the best single method.
--before: JSON, row -> {"absmax", "cpu_s"} of an older version, whose ranges are measured on the same samples. Simulated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from bench_quantize_shapes import MODEL
from bench_quantize_shapes import samples_of as frames
from provenance import write_rows
from trained_digits import generated

import edgedla
from edgedla.accuracy.metrics import METRICS
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.quantization.methods import METHODS
from edgedla.runtime.decode.make_decoder import DecodeOptions
from edgedla.runtime.decode.map_metric import LEAST_SCORE, map_metric

ORIN: Dict[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3"}
FORMS, SEEDS = ("exported", "fixed"), (0, 1, 2)
MOST_DB, MOST_POINTS = 0.3, 0.003
DETECTOR = "shapes"


def data_of(net: str, seed: int, options: argparse.Namespace) -> Tuple[Any, Any, Any]:
    """(calibration samples, held-out samples, metric)."""
    if net != DETECTOR:
        calibration = generated(options.folder, 200, 1 + 10 * seed, 0, 1297)
        return calibration, generated(options.folder, options.count, 2 + 10 * seed, 1297, 1797), METRICS["top1"]
    sys.path.insert(0, str(MODEL.parent))
    import shapes

    calibration = frames(shapes, 1000 * (1 + seed), 160)
    held_out = frames(shapes, 500_000 + 10_000 * seed, options.frames)
    decode = DecodeOptions("yolov8", score=LEAST_SCORE, iou=0.6, reg_max=8)
    return calibration, held_out, map_metric(decode, ("raw_s8", "raw_s16"), held_out.feeds[0]["images"].shape)


def figures(result: Any) -> Dict[str, Any]:
    score, worst = result.scores[1].value, result.channels[0].sqnr_db
    rounded = {"score": round(score, 4), "sqnr_db": round(result.sqnr_db, 2), "worst_group_db": round(worst, 1)}
    return {**rounded, "dead": len(result.dead)}


def row_of(model: Any, data: Tuple[Any, Any, Any], before: Dict[str, Any]) -> Dict[str, Any]:
    calibration, held_out, metric = data

    def run(absmax: Any = None, **more: Any) -> Any:
        request = QuantizeRequest(**ORIN, metric=metric, everywhere=True, **more)
        return quantize(model, calibration, request, holdout=held_out, absmax=absmax)

    started = time.process_time()
    result = run()
    row: Dict[str, Any] = {"cpu_s": round(time.process_time() - started, 1), "fp32": round(result.scores[0].value, 4)}
    row["auto"] = figures(result)
    row["steps"] = [[s.name, s.kept] for s in result.steps]
    row["single"] = {name: figures(run(method=name, quick=True)) for name in METHODS}
    best = {key: max(of[key] for of in row["single"].values()) for key in ("score", "sqnr_db")}
    row["loss"] = {key: round(best[key] - row["auto"][key], 4) for key in best}
    row["within"] = row["loss"]["sqnr_db"] <= MOST_DB and row["loss"]["score"] <= MOST_POINTS + 1e-9
    if before:
        row["before"] = {"cpu_s": before["cpu_s"], **figures(run(before["absmax"], quick=True))}
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="rows NET.FORM.SEED, separated by commas")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--frames", type=int, default=1200)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    before = json.loads(options.before.read_text()) if options.before else {}
    nets = {**{path.stem: path for path in sorted(options.folder.glob("*.onnx"))}, DETECTOR: MODEL}
    rows: List[Dict[str, Any]] = []
    for net, path in nets.items():
        for form in FORMS:
            for seed in SEEDS:
                name = f"{net}.{form}.{seed}"
                if options.only and name not in options.only.split(","):
                    continue
                fixed = form == "fixed"
                model = edgedla.fix(path, **ORIN, precision="int8", prove=False).to_proto() if fixed else path
                row = {"row": name, **row_of(model, data_of(net, seed, options), before.get(name, {}))}
                rows.append(row)
                print(json.dumps(row), flush=True)
    if options.out:
        write_rows(options.out, rows)
    return int(not all(row["within"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
