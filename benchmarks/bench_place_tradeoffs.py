"""What is proven where two objectives meet: Pareto fronts, energy and streams within a latency, energy at frame rates.

    python benchmarks/bench_place_tradeoffs.py NETS [--time-limit 10] [--only front,pace] [-o FILE.json]

Twelve networks on AGX Orin at INT8 and AGX Xavier at FP16, and pairs of neighbours among them. A front is that of latency
and energy; its row counts points and those proven, and holds the widest gap. Bounds are 1.2 times the least latency of each
model; frame rates keep the GPU busy for 0.6 s per second if all stood there. A row per case with value, gap, wall and
processor seconds. The limits count processor seconds, so that other work on the machine decides no proof. All values are
predictions.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List

from bench_place_proofs import CHIPS, PROVEN
from provenance import loop_seconds, provenance, write_lines

from edgedla.errors import EdgedlaError
from edgedla.placement.api import place_request
from edgedla.placement.pareto import pareto
from edgedla.placement.request import PlacementRequest

NETWORKS = (
    "tv_resnet18",
    "tv_resnet50",
    "tv_mobilenet_v2",
    "tv_googlenet",
    "tv_squeezenet1_1",
    "timm_gernet_s",
    "tv_efficientnet_b0",
    "tv_densenet121",
    "tv_inception_v3",
    "yolo_yolov8n",
    "timm_hrnet_w18_small",
    "seg_fcn_resnet50",
)

#: What the bounds are, times the least latency; what the GPU would be busy for, seconds per second.
WITHIN, DUTY = 1.2, 0.6

KINDS = ("front", "bounded energy", "bounded throughput", "pace", "pair bounded throughput", "pair pace")


def least_us(file: Path, request: PlacementRequest) -> float:
    return place_request(str(file), replace(request, objective="latency")).figures.latency.latency_us


def on_gpu_us(file: Path, request: PlacementRequest) -> float:
    return place_request(str(file), replace(request, objective="latency", devices="GPU")).figures.latency.latency_us


def fronts(files: List[Path], request: PlacementRequest) -> Dict[str, Any]:
    front = pareto([str(f) for f in files], request)
    gaps = [p.placement.proof.gap for p in front.points]
    return {
        "points": len(front.points),
        "points_proven": sum(p.proven for p in front.points),
        "complete": front.complete,
        "gap": round(max(gaps), 6),
        "proven": front.complete,
    }


def placed(files: List[Path], request: PlacementRequest) -> Dict[str, Any]:
    proof = place_request([str(f) for f in files], request).proof
    row = {"value": round(proof.value, 4), "gap": round(proof.gap, 6), "proven": proof.gap <= PROVEN}
    return {**row, "solver": proof.solver}


def row_of(kind: str, files: List[Path], request: PlacementRequest) -> Dict[str, Any]:
    """The answer for one case; what the bounds and rates rest on is found first and counts for no time."""
    row: Dict[str, Any] = {"target": request.target, "kind": kind, "network": " + ".join(f.stem for f in files)}
    try:
        if "bounded" in kind:
            bounds = tuple(WITHIN * least_us(f, request) for f in files)
            request = replace(request, latency_bound_us=bounds)
        if "pace" in kind:
            rates = tuple(DUTY / len(files) * 1e6 / on_gpu_us(f, request) for f in files)
            request = replace(request, objective="energy", frames_per_second=rates)
        if "throughput" in kind or "energy" in kind:
            request = replace(request, objective=kind.split()[-1])
        wall, cpu = time.perf_counter(), time.process_time()
        row.update(fronts(files, request) if kind == "front" else placed(files, request))
        row.update(wall_s=round(time.perf_counter() - wall, 2), cpu_s=round(time.process_time() - cpu, 2))
    except EdgedlaError as e:
        row["error"] = str(e)
    print(json.dumps(row), flush=True)
    return row


def cases(nets: Path, only: List[str], limit_s: float) -> Iterator[Dict[str, Any]]:
    files = [nets / f"{name}.onnx" for name in NETWORKS]
    for target, precision in CHIPS:
        request = PlacementRequest(target, precision=precision, time_limit_s=limit_s, gap=PROVEN / 2)
        for kind in KINDS:
            if only and kind not in only:
                continue
            for k, file in enumerate(files):
                several = [file, files[(k + 1) % len(files)]] if "pair" in kind else [file]
                yield row_of(kind, several, request)


def summary(rows: List[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
    for target, _ in CHIPS:
        for kind in KINDS:
            of_kind = [r for r in rows if r["target"] == target and r["kind"] == kind]
            answered = [r for r in of_kind if "gap" in r]
            if answered:
                yield {
                    "target": target,
                    "kind": kind,
                    "cases": len(answered),
                    "proven": sum(r["proven"] for r in answered),
                    "largest_gap": max(r["gap"] for r in answered),
                    "most_cpu_s": max(r["cpu_s"] for r in answered),
                    "no_answer": len(of_kind) - len(answered),
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--only", default="", help=f"of {', '.join(KINDS)}")
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    if not a.nets.is_dir():
        parser.error("name the folder of networks")
    rows = list(cases(a.nets, [o for o in a.only.split(",") if o], a.time_limit))
    lines = list(summary(rows))
    for line in lines:
        print(json.dumps(line), file=sys.stderr)
    head = {
        "basis": "predicted",
        **provenance(("numpy", "onnx", "highspy")),
        "time_limit_s": a.time_limit,
        "clock": "processor",
        "loop_s": loop_seconds(),
    }
    if a.output:
        write_lines(a.output, {**head, "summary": lines}, rows)


if __name__ == "__main__":
    main()
