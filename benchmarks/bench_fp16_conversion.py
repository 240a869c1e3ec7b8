"""FLOAT models as FP16 on TensorRT 11, converted by edgedla, against FP16 builds of TensorRT 10.3: layers and multiply-accumulates on
the DLA, and the error of the conversion.

    python benchmarks/bench_fp16_conversion.py FOLDER -o benchmarks/results/fp16_conversion.json [--error] [--deploy] [--part K/N]

Models without weights get seeded random ones for the error (relative L2 of the worst output, seeded random input): --error takes minutes.
--deploy: `fix` and `deploy` (random samples, place dla) too, one command each: what they leave on the DLA, and the answer of `deploy`.
--part 2/8 takes every eighth model from the second on; join_rows.py joins the files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
from provenance import write_rows

import edgedla
from edgedla.fixes.apply_proven import feeds_of
from edgedla.fixes.float_types import in_half
from edgedla.fixes.fold import set_shapes
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.network.write_model import whole_proto
from edgedla.fixes.proofs.comparison import distance
from edgedla.fixes.seeded import with_seeded_weights
from edgedla.importers.model_file.onnx_file import read
from edgedla.quantization.session import open_session
from edgedla.regions import check
from edgedla.regions.float16_model import half_model
from edgedla.targets import platform_for

OLD = {"target": "agx-orin-64gb", "trt": "10.3"}
NEW = {"target": "agx-orin-64gb", "jetpack": "7.2.2"}


def row_of(path: Path, with_error: bool) -> Dict[str, Any]:
    began = time.process_time()
    halved = half_model(read(str(path)), platform_for(**NEW))
    converting_s = time.process_time() - began
    old, new = check(str(path), **OLD), check(str(path), **NEW)
    row: Dict[str, Any] = {
        "model": path.stem,
        "layers_dla": new.totals.layers_dla,
        "layers_dla_10_3": old.totals.layers_dla,
        "layers_dla_as_it_is": 0 if new.as_it_is is None else new.as_it_is.layers_dla,
        "macs_of_10_3": round(new.totals.macs_dla / old.totals.macs_dla, 4) if old.totals.macs_dla else None,
        "loadables_dropped": [new.totals.regions_dropped, old.totals.regions_dropped],
        "standalone": [check(str(path), mode="standalone", **p).strict.passes for p in (OLD, NEW)],
        "casts": 0 if halved is None else halved.casts,
        "kept_float": 0 if halved is None else len(halved.kept),
        "cpu_s": round(converting_s, 3),
    }
    if with_error:
        row["rel_l2"] = error_of(path)
    return row


def verbs(path: Path) -> Dict[str, Any]:
    """`fix`, and `deploy` of the model as it is, on TensorRT 11: layers and share of the work on the DLA, answer, error, CPU seconds."""
    model = with_seeded_weights(open_model(str(path)))
    set_shapes(model, {}, 1)
    row: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, path.name)
        onnx.save(whole_proto(model), str(file), save_as_external_data=True, location="weights.bin")
        began = time.process_time()
        fixed = edgedla.fix(file, **NEW).after
        row["fix"] = {
            "layers_dla": fixed.layers_dla, "layers": fixed.layers, "macs_dla": round(fixed.share_macs_dla, 4),
            "cpu_s": round(time.process_time() - began, 1),
        }  # fmt: skip
        began = time.process_time()
        done = edgedla.deploy(file, Path(folder, "out"), data="random", place="dla", backend="host", **NEW)
        build, score = done.best.predicted["check"], done.score
        row["deploy"] = {
            "layers_dla": build["layers_dla"], "layers": build["layers"], "macs_dla": build["share_macs_dla"],
            "accepted": done.accepted, "metric": score["metric"], "value": round(float(score["value"]), 5),
            "reference": score.get("reference", "FP32"), "precision": done.best.precision,
            "cpu_s": round(time.process_time() - began, 1),
        }  # fmt: skip
    return row


def error_of(path: Path) -> Any:
    model = with_seeded_weights(open_model(str(path)))
    set_shapes(model, {}, 1)
    feeds = feeds_of(model, None)
    if not feeds:
        return "not run"
    typed = in_half(model, platform_for(**NEW), "fallback", feeds, "seeded random input")
    if typed is None:
        return "not converted"
    before, after = whole_proto(model), whole_proto(typed.model)
    results = [open_session(m.SerializeToString()).run(None, dict(feeds[0])) for m in (before, after)]
    return float(f"{max(distance(np.asarray(a), np.asarray(b))[0] for a, b in zip(*results)):.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--deploy", action="store_true")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    given = parser.parse_args()
    rows: List[Dict[str, Any]] = []
    part, parts = map(int, given.part.split("/"))
    for path in sorted(given.folder.glob("*.onnx"))[part - 1 :: parts]:
        try:
            rows.append(row_of(path, given.error))
            if given.deploy:
                rows[-1].update(verbs(path))
        except Exception as e:
            rows.append({"model": path.stem, "failed": str(e)[:200]})
        print(json.dumps(rows[-1]), flush=True)
    shares = [r["macs_of_10_3"] for r in rows if r.get("macs_of_10_3") is not None]
    summary = {"models": len(rows), "mean_macs_of_10_3": round(sum(shares) / max(len(shares), 1), 4)}
    write_rows(given.output, rows, "predicted; rel_l2 simulated", old=OLD, new=NEW, summary=summary)


if __name__ == "__main__":
    main()
