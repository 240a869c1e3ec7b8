"""What `edgedla deploy` reaches: on the shapes detector with labelled frames, and on real networks with random weights.

    python benchmarks/bench_deploy.py shapes [--out FILE] [--frames 250]
    python benchmarks/bench_deploy.py nets NETS [--config O16,O8,X16] [--levels 0,1] [--out FILE] [NAME...]

`shapes`: levels 0 to 3 for AGX Orin and AGX Xavier, `--place dla`, metric mAP 0.5:0.95; accuracy (simulated) on frames that no
step looked at. `nets`: NETS is a folder of ONNX files whose weights may be missing: they get seeded random ones; metric l2
against FP32 on random input. A row a network and platform with MACs on the DLA, loadables and predicted latency by level.
Costs are predicted, accuracy simulated; `seconds` is wall-clock time of this machine under whatever else ran.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping

import numpy as np

import edgedla
from edgedla.errors import EdgedlaError
from edgedla.files import write_atomic

ROOT = Path(__file__).resolve().parents[1]
DETECTOR = ROOT / "examples" / "00_shapes_detector"
CONFIGS: Mapping[str, Dict[str, str]] = {
    "orin-jp6": {"target": "agx-orin-64gb"},
    "xavier-jp5": {"target": "agx-xavier-32gb"},
    "orin-jp5": {"target": "agx-orin-64gb", "jetpack": "5.1.2"},
}


def labelled(path: Path, frames: int) -> Path:
    """Frames and boxes of the shapes detector that it was not trained on."""
    sys.path.insert(0, str(DETECTOR))
    from make_data import CALIBRATION_SEED, labels_of, network_input
    from shapes import sample

    taken = [sample(CALIBRATION_SEED + i) for i in range(frames)]
    np.savez(path, images=np.stack([network_input(f) for f, _, _ in taken]), labels=labels_of(taken))
    return path


def shapes(frames: int, targets: List[str]) -> List[Dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = labelled(Path(folder) / "labelled.npz", frames)
        for target in targets:
            for level in range(4):
                # A folder of its own each: the times are those of a first call.
                start = time.monotonic()
                found = edgedla.deploy(
                    DETECTOR / "shapes_detector.onnx", Path(folder) / f"{target}-{level}", target=target, level=level,
                    place="dla", data=data, metric="map", decode="yolov8", reg_max=8, max_drop=0.01, backend="host",
                )  # fmt: skip
                rows.append(
                    {"target": target, "level": level, **figures(found), "seconds": round(time.monotonic() - start, 1)}
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def figures(found: Any) -> Dict[str, Any]:
    check, built, own = (found.best.predicted[k] for k in ("check", "build", "tensorrt"))
    return {
        "accepted": found.accepted,
        "built": found.best.name,
        "rewrites": dict(found.best.rewrites),
        "macs": check["macs"],
        "share_macs_dla": check["share_macs_dla"],
        "loadables": check["loadables"],
        "transitions": check["transitions"],
        "optimum_us": round(built["latency_us"] + found.best.extra_us, 1),
        "tensorrt_us": None if own is None else round(own["latency_us"] + found.best.extra_us, 1),
        "metric": found.score["metric"],
        "fp32": round(found.score["fp32"], 6),
        "score": round(found.score["value"], 6),
        "drop": round(found.score["drop"], 6),
        "rewrite_rel_l2": found.best.proof.get("rel_l2"),
        "trials": [[t.name, t.outcome] for t in found.trials],
    }


def with_weights(path: Path, folder: Path) -> Path:
    """The network with seeded weights in place of missing ones."""
    from edgedla.fixes.network.model_file import open_model, save_model
    from edgedla.fixes.seeded import with_seeded_weights

    out = folder / path.name
    save_model(with_seeded_weights(open_model(path)), out)
    return out


def nets(paths: List[Path], configs: List[str], levels: List[int], place: str) -> List[Dict[str, Any]]:
    rows: List[Dict[str, Any]] = []
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            model = with_weights(path, Path(folder))
            for config in configs:
                row: Dict[str, Any] = {"net": path.stem, "config": config}
                for level in levels:
                    start = time.monotonic()
                    try:
                        # One folder for the levels: they share their steps.
                        found = edgedla.deploy(model, Path(folder) / config, **CONFIGS[config], level=level, place=place,
                                               metric="l2", max_drop=1.0, data="random" if level >= 2 else None,
                                               backend="host")  # fmt: skip
                        row[f"level_{level}"] = {**figures(found), "seconds": round(time.monotonic() - start, 1)}
                    except EdgedlaError as e:
                        row[f"level_{level}"] = {"error": type(e).__name__, "what": e.what}
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shapes", "nets"])
    parser.add_argument("nets", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--targets", default="agx-orin-64gb,agx-xavier-32gb")
    parser.add_argument("--config", default="orin-jp6,xavier-jp5,orin-jp5")
    parser.add_argument("--levels", default="0,1")
    parser.add_argument("--place", default="best")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    if a.what == "shapes":
        rows = shapes(a.frames, a.targets.split(","))
    else:
        paths = [p for p in sorted(a.nets.glob("*.onnx")) if not a.names or p.stem in a.names]
        rows = nets(paths, a.config.split(","), [int(x) for x in a.levels.split(",")], a.place)
    if a.out:
        write_atomic(a.out, json.dumps({"command": " ".join(sys.argv[1:]), "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
