"""FLOAT models as FP16 on TensorRT 11, converted by edgedla, against FP16 builds of TensorRT 10.3: layers and multiply-accumulates on
the DLA, and the error of the conversion.

    python benchmarks/bench_fp16_conversion.py FOLDER -o OUT.json [--error] [--verbs fix deploy] [--part K/N]
    python benchmarks/bench_fp16_conversion.py --join PART.json... -o benchmarks/results/typed_kept.json

Models without weights get seeded random ones, scaled down where the values of convolutions grow beyond those of trained networks:
random weights alone make sums grow from block to block beyond what FLOAT16 holds, and such nodes stay FLOAT. --error (relative L2 of the
worst output, seeded random input) takes minutes.
--verbs: `fix`, `deploy` (random samples, place dla) or both, one command each: what they leave on the DLA, as a share of 10.3's, and
the answer of `deploy`.
--trained: percent of held-out digits that the trained networks of FOLDER name rightly, in FLOAT and converted.
--part 2/8 takes every eighth model from the second on; --join makes one row per model of the parts.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
from provenance import write_rows
from trained_digits import generated

import edgedla
from edgedla.fixes.apply_proven import feeds_of
from edgedla.fixes.float_types import in_half
from edgedla.fixes.fold import set_shapes
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.network.write_model import whole_proto
from edgedla.fixes.proofs.comparison import distance
from edgedla.fixes.proofs.float_types import parts_of, run_values
from edgedla.fixes.seeded import with_seeded_weights
from edgedla.importers.model_file.onnx_file import read
from edgedla.placement.check_cost import check
from edgedla.quantization.rounded_half import rounded_half
from edgedla.quantization.session import open_session
from edgedla.regions.float16_model import half_model
from edgedla.targets import platform_for

OLD = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "fp16"}
NEW = {"target": "agx-orin-64gb", "jetpack": "7.2.2"}
#: Deviation that results of convolutions keep below: trained networks' stay far from FLOAT16's end.
LARGEST_SIZE = 10.0
#: Operators whose weights are scaled, and how often: a bias, or what is no number, bends the first estimate.
SCALED, SETTLING = ("Conv", "ConvTranspose", "Gemm", "MatMul"), 3


def row_of(path: Path, with_error: bool) -> Dict[str, Any]:
    began = time.process_time()
    halved = half_model(read(str(path)), platform_for(**NEW))
    converting_s = time.process_time() - began
    old, new = check(str(path), **OLD), check(str(path), **NEW)
    row: Dict[str, Any] = {
        "model": path.stem,
        "layers_dla": new.totals.layers_dla,
        "layers_dla_10_3": old.totals.layers_dla,
        "share_macs_10_3": round(old.totals.share_macs_dla, 6),
        "layers_dla_as_it_is": 0 if new.as_it_is is None else new.as_it_is.layers_dla,
        "macs_of_10_3": round(new.totals.macs_dla / old.totals.macs_dla, 4) if old.totals.macs_dla else None,
        "loadables_dropped": [new.totals.regions_dropped, old.totals.regions_dropped],
        "standalone": [check(str(path), mode="standalone", **p).strict.passes for p in (OLD, NEW)],
        "standalone_fixed": [edgedla.fix(path, purpose="standalone", prove=False, **p).after.passes for p in (OLD, NEW)],
        "casts": 0 if halved is None else halved.casts,
        "kept_float": 0 if halved is None else len(halved.kept),
        "cpu_s": round(converting_s, 3),
    }
    if with_error:
        row["rel_l2"] = error_of(path)
    return row


def settled(path: Path) -> Any:
    """The onnx_ir.Model with seeded weights; those whose results deviate by more than LARGEST_SIZE are scaled down."""
    model = with_seeded_weights(open_model(str(path)))
    set_shapes(model, {}, 1)
    feeds = feeds_of(model, None)
    for _ in range(SETTLING if feeds else 0):
        factors: Dict[str, float] = {}
        sizes = {name: float(np.std(feed)) for name, feed in feeds[0].items()}
        proto = whole_proto(model)
        for part in parts_of(proto):
            wanted = sorted({n for node in part for n in node.output if n})
            sizes.update((n, float(np.std(v))) for n, v in run_values(proto, wanted, feeds[0]).items() if v.dtype.kind == "f")
        for node in model.graph:
            data = [v.name for v in node.inputs if v is not None and v.name in sizes]
            weight = sum(sizes[n] ** 2 for n in data)
            grown = math.sqrt(sum((factors.get(n, 1.0) * sizes[n]) ** 2 for n in data) / weight) if weight else 1.0
            made, own = node.outputs[0].name, node.inputs[1:2]
            size = sizes.get(made, 0.0) * grown
            if node.op_type in SCALED and own[0].const_value is not None and size > LARGEST_SIZE:
                scale = LARGEST_SIZE / size
                old = own[0].const_value
                own[0].const_value = onnx_ir().tensor((old.numpy() * scale).astype(old.dtype.numpy()), name=old.name)
                grown *= scale
            factors.update((v.name, grown) for v in node.outputs)
    return model


def verbs(path: Path, of_10_3: float, wanted: Sequence[str]) -> Dict[str, Any]:
    """`fix`, and `deploy` of the model as it is, on TensorRT 11: layers and share of the work on the DLA, answer, error, CPU seconds.

    Args:
        wanted: "fix", "deploy" or both.
        of_10_3: share of the multiply-accumulates on the DLA with TensorRT 10.3.
    """
    model = settled(path)
    row: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, path.name)
        onnx.save(whole_proto(model), str(file), save_as_external_data=True, location="weights.bin")
        if "fix" in wanted:
            began = time.process_time()
            result = edgedla.fix(file, **NEW)
            fixed, seconds = result.after, time.process_time() - began
            fixed_10_3 = edgedla.fix(file, prove=False, **OLD).after.share_macs_dla
            row["fix"] = {
                "layers_dla": fixed.layers_dla,
                "layers": fixed.layers,
                "macs_dla": round(fixed.share_macs_dla, 4),
                "macs_of_10_3": round(fixed.share_macs_dla / of_10_3, 4) if of_10_3 else None,
                "macs_of_10_3_fixed": round(fixed.share_macs_dla / fixed_10_3, 4) if fixed_10_3 else None,
                "types": result.types,
                "cpu_s": round(seconds, 1),
            }
        if "deploy" in wanted:
            began = time.process_time()
            done = edgedla.deploy(file, Path(folder, "out"), data="random", place="dla", backend="host", **NEW)
            build, score = done.best.predicted["check"], done.score
            row["deploy"] = {
                "layers_dla": build["layers_dla"],
                "layers": build["layers"],
                "macs_dla": build["share_macs_dla"],
                "macs_of_10_3": round(build["share_macs_dla"] / of_10_3, 4) if of_10_3 else None,
                "accepted": done.accepted,
                "metric": score["metric"],
                "value": round(float(score["value"]), 5),
                "reference": score.get("reference", "FP32"),
                "precision": done.best.precision,
                "cpu_s": round(time.process_time() - began, 1),
            }
    return row


def error_of(path: Path) -> Any:
    model = settled(path)
    feeds = feeds_of(model, None)
    if not feeds:
        return "not run"
    typed = in_half(model, platform_for(**NEW), "fallback", feeds, "seeded random input")
    if typed is None:
        return "not converted"
    before, after = whole_proto(model), rounded_half(whole_proto(typed.model))
    results = [open_session(m.SerializeToString()).run(None, dict(feeds[0])) for m in (before, after)]
    return float(f"{max(distance(np.asarray(a), np.asarray(b))[0] for a, b in zip(*results)):.3g}")


def accuracy_of(path: Path, folder: Path) -> List[float]:
    """Percent of 1,000 held-out digits that a trained network names rightly: in FLOAT, and converted with every value rounded."""
    digits = generated(folder, 1000, 2, 1297, 1797)
    model = open_model(str(path))
    set_shapes(model, {}, 1)
    typed = in_half(model, platform_for(**NEW), "fallback", list(digits.feeds[:8]), "digits")
    assert typed is not None
    assert digits.labels is not None
    found = []
    for form in (whole_proto(model), rounded_half(whole_proto(typed.model))):
        session = open_session(form.SerializeToString())
        right = sum(int(np.argmax(session.run(None, dict(f))[0]) == y) for f, y in zip(digits.feeds, digits.labels))
        found.append(round(100.0 * right / len(digits.labels), 2))
    return found


def summary_of(rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Means over networks, none counted for more than 10.3 has; models with less than that, and the share that they keep; standalone
    passes on 10.3 and on TensorRT 11; answers of `deploy`."""
    summary: Dict[str, Any] = {"models": len(rows), "failed": sum("failed" in r for r in rows)}
    ways = {"check": (None, "of_10_3"), "fix": ("fix", "of_10_3"), "deploy": ("deploy", "of_10_3")}
    for way, (verb, of) in {**ways, "fix_of_fixed": ("fix", "of_10_3_fixed")}.items():
        found = {r["model"]: (r if verb is None else r.get(verb, {})).get(f"macs_{of}") for r in rows}
        shares = {name: min(share, 1.0) for name, share in found.items() if share is not None}
        if shares:
            summary[f"mean_macs_of_10_3_{way}"] = round(sum(shares.values()) / len(shares), 4)
            summary[f"of_{way}"] = len(shares)
            summary[f"losses_{way}"] = {name: share for name, share in shares.items() if share < 0.9995}
    for way in ("standalone", "standalone_fixed"):
        passes = [(r["model"], *r[way]) for r in rows if way in r]
        summary[way] = [sum(old is True for _, old, _ in passes), sum(new is True for _, _, new in passes)]
        summary[f"{way}_lost"] = [name for name, old, new in passes if old is True and new is not True]
    accepted = {r["model"]: r["deploy"]["accepted"] for r in rows if "deploy" in r}
    summary["accepted"] = sum(accepted.values())
    summary["not_accepted"] = [name for name, yes in accepted.items() if not yes]
    return summary


def joined(files: Sequence[Path]) -> List[Dict[str, Any]]:
    """One row per model of the rows of parts; what two parts say of one model must agree, but for the seconds.

    Raises:
        ValueError: two parts, or two rows of a model, differ.
    """
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    rows: Dict[str, Dict[str, Any]] = {}
    for path, part in zip(files, parts):
        differing = [key for key in ("commit", "versions", "old", "new") if part[key] != parts[0][key]]
        for new in part["rows"]:
            row = rows.setdefault(new["model"], {})
            differing += [key for key in new if key != "cpu_s" and row.get(key, new[key]) != new[key]]
            row.update(new)
        if differing:
            raise ValueError(f"{path}: {', '.join(differing)} differ from the parts before")
    return [rows[name] for name in sorted(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--verbs", nargs="+", choices=("fix", "deploy"), default=())
    parser.add_argument("--trained", action="store_true", help="FOLDER holds trained networks and generate.py of their digits")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--join", nargs="+", type=Path, metavar="PART", default=())
    parser.add_argument("--commit", help="of parts that were measured outside a git checkout")
    given = parser.parse_args()
    if bool(given.join) == bool(given.folder):
        parser.error("give a folder of models, or --join with the files of parts")
    if given.join:
        whole = joined(given.join)
        first = json.loads(given.join[0].read_text(encoding="utf-8"))
        kept = {key: first[key] for key in ("command", "commit", "machine", "versions")}
        kept["commit"] = given.commit or kept["commit"]
        write_rows(given.output, whole, first["basis"], old=OLD, new=NEW, summary=summary_of(whole), **kept)
        return
    rows: List[Dict[str, Any]] = []
    part, parts = map(int, given.part.split("/"))
    for path in sorted(given.folder.glob("*.onnx"))[part - 1 :: parts]:
        try:
            rows.append(row_of(path, given.error))
            if given.trained:
                rows[-1]["accuracy"] = accuracy_of(path, given.folder)
            if given.verbs:
                rows[-1].update(verbs(path, rows[-1]["share_macs_10_3"], given.verbs))
        except Exception as e:
            rows.append({"model": path.stem, "failed": str(e)[:200]})
        print(json.dumps(rows[-1]), flush=True)
    write_rows(given.output, rows, "predicted; rel_l2 simulated", old=OLD, new=NEW, summary=summary_of(rows))


if __name__ == "__main__":
    main()
