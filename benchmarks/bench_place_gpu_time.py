"""The objective gpu-time over networks: value against the GPU alone and against the shortest frame, proof, seconds.

    python benchmarks/bench_place_gpu_time.py FOLDER -o FILE [--part K/N]

Each network as FP16 on JetPack 7.2.2 and in INT8 on JetPack 6.2, AGX Orin 64GB: free, and within twice the frame of the GPU alone.
Predicted. Exits with 1 where an answer is not proven, or frees less with more time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

from provenance import write_rows

import edgedla

PLATFORMS: List[Dict[str, Any]] = [
    {"target": "agx-orin-64gb", "jetpack": "7.2.2", "precision": "fp16"},
    {"target": "agx-orin-64gb", "jetpack": "6.2.2", "precision": "int8"},
]


def row_of(path: Path, platform: Dict[str, Any]) -> Dict[str, Any]:
    began = time.process_time()
    free = edgedla.place(path, objective="gpu-time", batch=1, **platform)
    cpu_s = time.process_time() - began
    gpu = next(b for b in free.baselines if b.name == "gpu").figures
    bounded = edgedla.place(path, objective="gpu-time", batch=1, latency_bound_us=2 * gpu.latency.latency_us, **platform)
    alone_us = float(gpu.busy_gpu_us or 0.0)
    return {
        "model": path.stem,
        **platform,
        "gpu_alone_us": round(alone_us, 1),
        "freed": round(1 - float(free.figures.busy_gpu_us or 0.0) / alone_us, 4),
        "frame_times_gpu": round(free.figures.latency.latency_us / gpu.latency.latency_us, 2),
        "freed_within_twice": round(1 - float(bounded.figures.busy_gpu_us or 0.0) / alone_us, 4),
        "proven": free.proof.optimal and bounded.proof.optimal,
        "cpu_s": round(cpu_s, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--part", default="1/1", metavar="K/N")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    rows: List[Dict[str, Any]] = []
    for path in sorted(given.folder.glob("*.onnx"))[part - 1 :: parts]:
        for platform in PLATFORMS:
            rows.append(row_of(path, platform))
            print(json.dumps(rows[-1]), flush=True)
    write_rows(given.output, rows, "predicted")
    return int(not all(r["proven"] and r["freed"] >= r["freed_within_twice"] - 1e-3 for r in rows))


if __name__ == "__main__":
    sys.exit(main())
