"""What `edgedla deploy` reaches: on the shapes detector with labelled frames, and on real networks with random weights.

    python benchmarks/bench_deploy.py shapes [--out FILE] [--frames 250]
    python benchmarks/bench_deploy.py nets NETS [NAME...] --rows ROWS.jsonl [--config orin-jp6,...] [--levels 0,1,2] [--place best]
    python benchmarks/bench_deploy.py table --rows ROWS.jsonl --out deploy_nets.json

`shapes`: levels 0 to 3 for AGX Orin and AGX Xavier, `--place dla`, metric mAP 0.5:0.95; accuracy (simulated) on frames that no
step looked at. `nets`: NETS is a folder of ONNX files whose weights may be missing: they get seeded random ones; metric l2
against FP32 on random input. One row per network, platform and placement, appended to ROWS as it is finished; a second call goes
on from there. `table` makes the table of ROWS, and names every network that a level makes worse. Costs are predicted, accuracy
simulated; `seconds` is wall-clock time of this machine under whatever else ran.
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
                result = edgedla.deploy(
                    DETECTOR / "shapes_detector.onnx", Path(folder) / f"{target}-{level}", target=target, level=level,
                    place="dla", data=data, metric="map", decode="yolov8", reg_max=8, max_drop=0.01, backend="host",
                )  # fmt: skip
                rows.append(
                    {"target": target, "level": level, **figures(result), "seconds": round(time.monotonic() - start, 1)}
                )
                print(json.dumps(rows[-1]), flush=True)
    return rows


def figures(result: Any) -> Dict[str, Any]:
    check, built, own = (result.best.predicted[k] for k in ("check", "build", "tensorrt"))
    return {
        "accepted": result.accepted,
        "built": result.best.name,
        "rewrites": dict(result.best.rewrites),
        "macs": check["macs"],
        "share_macs_dla": check["share_macs_dla"],
        "loadables": check["loadables"],
        "transitions": check["transitions"],
        "optimum_us": round(built["latency_us"] + result.best.extra_us, 1),
        "tensorrt_us": None if own is None else round(own["latency_us"] + result.best.extra_us, 1),
        "metric": result.score["metric"],
        "fp32": round(result.score["fp32"], 6),
        "score": round(result.score["value"], 6),
        "drop": round(result.score["drop"], 6),
        "rewrite_rel_l2": result.best.proof.get("rel_l2"),
        "trials": [[t.name, t.outcome] for t in result.trials],
    }


def with_weights(path: Path, folder: Path) -> Path:
    """The network with seeded weights in place of missing ones."""
    from edgedla.fixes.network.model_file import open_model, save_model
    from edgedla.fixes.seeded import with_seeded_weights

    out = folder / path.name
    save_model(with_seeded_weights(open_model(path)), out)
    return out


def nets(paths: List[Path], configs: List[str], levels: List[int], place: str, rows: Path) -> None:
    """Appends one row per network and platform that ROWS does not have yet."""
    finished = {(r["net"], r["config"], r["place"]) for r in read_rows(rows)}
    for path in paths:
        missing = [c for c in configs if (path.stem, c, place) not in finished]
        if not missing:
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = with_weights(path, Path(folder))
            for config in missing:
                row: Dict[str, Any] = {"net": path.stem, "config": config, "place": place}
                for level in levels:
                    start = time.monotonic()
                    try:
                        # One folder for the levels: they share their steps. Random numbers serve them all alike.
                        result = edgedla.deploy(model, Path(folder) / config, **CONFIGS[config], level=level, place=place,
                                                metric="l2", max_drop=1.0, data="random", backend="host")  # fmt: skip
                        row[f"level_{level}"] = {**figures(result), "seconds": round(time.monotonic() - start, 1)}
                    except EdgedlaError as e:
                        row[f"level_{level}"] = {"error": type(e).__name__, "what": e.what}
                    except Exception as e:
                        row[f"level_{level}"] = {"crash": type(e).__name__, "what": str(e)}
                with open(rows, "a", encoding="utf-8") as f:
                    f.write(json.dumps(row) + "\n")
                print(path.stem, config, *(row[f"level_{x}"].get("seconds") for x in levels), flush=True)


def read_rows(path: Path) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["shapes", "nets", "table"])
    parser.add_argument("nets", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--targets", default="agx-orin-64gb,agx-xavier-32gb")
    parser.add_argument("--config", default="orin-jp6,xavier-jp5,orin-jp5")
    parser.add_argument("--levels", default="0,1,2")
    parser.add_argument("--place", default="best")
    parser.add_argument("--rows", type=Path, help="JSON lines: what is finished of `nets`")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    if a.what == "shapes":
        rows = shapes(a.frames, a.targets.split(","))
        if a.out:
            write_atomic(a.out, json.dumps({"command": " ".join(sys.argv[1:]), "rows": rows}, indent=1) + "\n")
        return 0
    if a.rows is None:
        parser.error("--rows is missing")
    if a.what == "nets":
        # In the order given, so that the quick ones can come first.
        paths = [a.nets / f"{name}.onnx" for name in a.names] or sorted(a.nets.glob("*.onnx"))
        nets(paths, a.config.split(","), [int(x) for x in a.levels.split(",")], a.place, a.rows)
    elif a.out is None:
        parser.error("--out is missing")
    else:
        from deploy_table import write_table

        write_table(read_rows(a.rows), a.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
