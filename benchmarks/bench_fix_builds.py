"""Host builds in INT8 of networks before and after `edgedla fix`: the error against FP32, simulated.

    python benchmarks/bench_fix_builds.py NETS [--out FILE] [--max-memory 3G] [--limit 600] [NAME...]

NETS is a folder of ONNX files; missing weights become seeded numbers, scales come from seeded random input. Each build is a
process with limits of its own. `--out` is read first, and what it holds is not run again. A row holds where the fixed network
is within the INT8 tolerance, or the exported one is not either: random weights make some networks chaotic, and what no rewrite
caused is no fault of one. Exits with 1 where a row does not hold, and where none ran.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import onnx
from provenance import write_rows

import edgedla
from edgedla.errors import EdgedlaError
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.seeded import with_seeded_weights

PLATFORM: Dict[str, Any] = {"target": "agx-orin-64gb", "trt": "10.3"}


def built(model: Path, folder: Path, options: argparse.Namespace) -> Dict[str, Any]:
    """Error of one build, or why there is none."""
    line = [
        sys.executable,
        "-m",
        "edgedla",
        "build",
        str(model),
        "--target",
        PLATFORM["target"],
        "--trt",
        PLATFORM["trt"],
        "--precision",
        "int8",
        "--backend",
        "host",
        "--max-memory",
        options.max_memory,
        "--format",
        "json",
        "-o",
        str(folder),
    ]
    start = time.monotonic()
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"within": None, "why": f"stopped after {options.limit} s"}
    seconds = round(time.monotonic() - start, 1)
    if done.returncode:
        return {"within": None, "why": done.stderr.strip().splitlines()[-1][:300], "exit": done.returncode}
    accuracy = json.loads(done.stdout)["accuracy"]
    return {"within": accuracy["within"], "worst_rel_l2": accuracy["worst_rel_l2"], "nodes": accuracy["nodes"], "wall_s": seconds}


def row_of(path: Path, options: argparse.Namespace) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="edgedla-builds-") as name:
        folder = Path(name)
        before, after = folder / "exported.onnx", folder / "fixed.onnx"
        onnx.save(onnx_ir().to_proto(with_seeded_weights(open_model(path))), str(before))
        row: Dict[str, Any] = {"net": path.stem}
        try:
            result = edgedla.fix(before, **PLATFORM, precision="int8", prove=False)
        except EdgedlaError as e:
            return {**row, "why": str(e)[:300], "holds": False}
        onnx.save(result.to_proto(), str(after))
        row["sites"] = len(result.applied)
        row["exported"] = built(before, folder / "a", options)
        row["fixed"] = built(after, folder / "b", options)
        ran = row["fixed"]["within"] is not None
        row["holds"] = bool(row["fixed"]["within"] or row["exported"]["within"] is False) if ran else None
        return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--max-memory", default="3G")
    parser.add_argument("--limit", type=int, default=600, help="seconds of one build")
    options = parser.parse_args()
    rows: List[Dict[str, Any]] = []
    if options.out and options.out.is_file():
        rows = json.loads(options.out.read_text(encoding="utf-8"))["rows"]
    known = {row["net"] for row in rows}
    # Small ones first: what a stop leaves out is little.
    for path in sorted(options.nets.glob("*.onnx"), key=lambda p: p.stat().st_size):
        if path.stem in known or (options.names and path.stem not in options.names):
            continue
        rows.append(row_of(path, options))
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            write_rows(options.out, rows)
    held = [row["holds"] for row in rows if row["holds"] is not None]
    return int(not held or not all(held))


if __name__ == "__main__":
    sys.exit(main())
