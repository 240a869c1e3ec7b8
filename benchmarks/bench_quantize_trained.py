"""What `edgedla quantize` reaches on trained networks, as exported and after `edgedla fix`, and whether triage names broken scales.

    python benchmarks/bench_quantize_trained.py FOLDER [--corpus NETS] [--only ROWS] [--calibration 200] [--count 1000] [--out FILE]

FOLDER holds ONNX models and generate.py (needs scikit-learn), whose gen(count, seed, low, high) makes images and labels:
calibration on seed 1, digits 0 to 1296; held out on seed 2, digits 1297 to 1796. Every layer is simulated in INT8. A row a
network and form: SQNR by method, top-1 in FP32 and INT8; the published entropy method and its repair; equalisation. With
NETS, a folder of weightless networks, k scales that are 8 times too large or too small have to be the k worst, on five of
them with random weights too. --only: rows such as `m2.exported,m2.fixed,m2.triage,tv_resnet18.random`; join_rows.py joins files.
Exits with 1 where a bound of the constants below is missed. All errors are simulated.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
from provenance import write_rows
from trained_digits import add_options, calibration_and_held_out

import edgedla
from edgedla.accuracy.metrics import METRICS
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from edgedla.accuracy.triage import tensor_errors
from edgedla.quantization.collect import collect
from edgedla.quantization.methods import thresholds
from edgedla.quantization.samples import InputSpec, Samples, synthetic_samples

ORIN: Dict[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3"}
#: Largest distance of `auto` from the best method in dB, and of top-1 from FP32; least SQNR; what a repair restores, with
#: at most so many tensors.
MOST_DB, MOST_DROP, LEAST_DB, RESTORED, MOST_TENSORS = 1.0, 0.01, 20.0, 0.96, 4
CORPUS = ("tv_resnet18", "tv_mobilenet_v2", "tv_squeezenet1_1", "tv_shufflenet_v2_x1_0", "timm_ghostnet_100")
COUNTS, DRAWS = (1, 2, 4), 20


def row_of(model: Any, data: Tuple[Samples, Samples]) -> Dict[str, Any]:
    def run(**more: Any) -> Any:
        return quantize(model, data[0], QuantizeRequest(**ORIN, everywhere=True, **more), holdout=data[1])

    result = run(metric=METRICS["top1"])
    fp32, int8 = (round(s.value, 4) for s in result.scores)
    row = {
        "methods_db": {name: round(db, 1) for name, db in result.methods.items()},
        "sqnr_db": round(result.sqnr_db, 1),
        "top1_fp32": fp32,
        "top1_int8": int8,
    }
    row["auto_holds"] = (
        result.methods["auto"] >= max(result.methods.values()) - MOST_DB
        and result.sqnr_db >= LEAST_DB
        and int8 >= fp32 - MOST_DROP
    )
    broken = run(method="entropy", metric=METRICS["top1"])
    row["entropy"] = {"sqnr_db": round(broken.sqnr_db, 1), "top1": round(broken.scores[1].value, 4)}
    if broken.scores[1].value < RESTORED:
        fixed = run(method="entropy", metric=METRICS["top1"], max_drop=max(fp32 - RESTORED, 0.0))
        step = next((s for s in fixed.steps if s.kept), None)
        # "3 thresholds of 6 tensors": a tensor that repeats the values of another one takes its threshold.
        thresholds_moved = int(step.detail.split()[0]) if step else 0
        top1 = round(fixed.scores[1].value, 4)
        row["repaired"] = {"step": step.detail if step else "", "top1": top1, "sqnr_db": round(fixed.sqnr_db, 1)}
        row["repair_holds"] = bool(top1 >= RESTORED and 0 < thresholds_moved <= MOST_TENSORS)
    equalised = run(equalize=True).steps[0]
    row["equalised_db"] = [round(equalised.before_db, 1), round(equalised.sqnr_db, 1), equalised.kept]
    return row


def triage(model: Any, samples: Samples) -> Dict[str, Any]:
    """How often the k corrupted scales are exactly the k worst."""
    collection = collect(model, samples)
    absmax = thresholds(collection)
    rng = random.Random(0)
    named, drawn = {}, len(absmax)
    for count in COUNTS:
        right = 0
        for _ in range(DRAWS):
            picked = rng.sample(sorted(absmax), count)
            changed = {**absmax, **{n: absmax[n] * rng.choice([8.0, 1 / 8]) for n in picked}}
            right += {e.tensor for e in tensor_errors(collection, changed)[:count]} == set(picked)
        named[str(count)] = right
    return {"tensors": drawn, "draws": DRAWS, "named": named, "holds": all(n == DRAWS for n in named.values())}


def corpus_model(path: Path) -> Tuple[Any, Samples]:
    from edgedla.fixes.network.library import onnx_ir
    from edgedla.fixes.network.model_file import open_model
    from edgedla.fixes.seeded import with_seeded_weights

    work = open_model(path)
    proto = onnx_ir().to_proto(with_seeded_weights(work))
    specs = [InputSpec(v.name, tuple(int(d) for d in v.shape), np.float32) for v in work.graph.inputs]
    return proto, synthetic_samples(specs, 4)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--only", default="", help="rows NET.FORM, separated by commas")
    options = parser.parse_args()
    data = calibration_and_held_out(options)
    only = options.only.split(",") if options.only else []
    rows: List[Dict[str, Any]] = []

    def wanted(net: str, form: str) -> bool:
        return not only or f"{net}.{form}" in only

    def record(row: Dict[str, Any]) -> None:
        rows.append(row)
        print(json.dumps(row), flush=True)

    for path in sorted(options.folder.glob("*.onnx")):
        if wanted(path.stem, "exported"):
            record({"net": path.stem, "form": "exported", **row_of(path, data)})
        if wanted(path.stem, "fixed"):
            fixed = edgedla.fix(path, **ORIN, precision="int8", prove=False).to_proto()
            record({"net": path.stem, "form": "fixed", **row_of(fixed, data)})
        if wanted(path.stem, "triage"):
            import onnx

            record({"net": path.stem, "triage": triage(onnx.load(str(path)), Samples(data[0].feeds[:64], False, ""))})
    for name in CORPUS if options.corpus else ():
        if wanted(name, "random"):
            record({"net": name, "weights": "random", "triage": triage(*corpus_model(options.corpus / f"{name}.onnx"))})
    if options.out:
        write_rows(options.out, rows)
    held = [row.get("auto_holds", True) and row.get("repair_holds", True) for row in rows]
    return int(not all(held) or not all(row["triage"]["holds"] for row in rows if "triage" in row))


if __name__ == "__main__":
    sys.exit(main())
