"""Which placements are proven within the time limit, over a folder of networks, on two chips.

    python benchmarks/bench_place_proofs.py NETS [--time-limit 10] [--pairs 20] [--only throughput,pairs] [-o FILE.json]

Latency, energy and throughput of every network and the makespan of pairs, on AGX Orin at INT8 and AGX Xavier at FP16. A
row a case: value, gap, wall and processor seconds of the whole call. Run it on two versions of the package with PYTHONPATH
to compare them. All values are predictions. A case that raises is a row with its error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from edgedla.errors import EdgedlaError
from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.targets import platform_for

try:
    from edgedla.placement.solvers.highs import LinearModel
except ImportError:  # an older version of the package
    from edgedla.placement.highs import LinearModel  # type: ignore[import-not-found,no-redef]

CHIPS = (("agx-orin-64gb", "int8"), ("agx-xavier-32gb", "fp16"))
OBJECTIVES = ("latency", "energy", "throughput")

#: Gap at which a placement counts as proven, as `proof.optimal` has it.
PROVEN = 2e-4


def networks(folder: Path, target: str) -> Dict[str, Any]:
    """The networks of a folder that the target's parser reads, by name."""
    read: Dict[str, Any] = {}
    for file in sorted(folder.glob("*.onnx")):
        try:
            read[file.stem] = load_onnx(file, trt=platform_for(target).release.trt)
        except EdgedlaError as e:
            print(f"{file.name} on {target}: {e}", file=sys.stderr)
    return read


def pairs_of(names: List[str], count: int) -> List[Tuple[str, str]]:
    """Pairs of different networks, the same for the same names."""
    n = len(names)
    stride = max(n // 3, 1)
    return [(names[k % n], names[(k + stride + k // n) % n]) for k in range(count)]


def cases(folder: Path, pairs: int, only: List[str]) -> Iterator[Tuple[str, str, str, str, List[Any]]]:
    for target, precision in CHIPS:
        read = networks(folder, target)
        for objective in OBJECTIVES:
            for name, graph in read.items():
                if not only or objective in only:
                    yield target, precision, objective, name, [graph]
        for a, b in pairs_of(list(read), pairs) if not only or "pairs" in only else []:
            yield target, precision, "makespan", f"{a} + {b}", [read[a], read[b]]


def count_processor_time() -> None:
    """Time limits count processor seconds, so that other work on the machine decides no proof.

    HiGHS has a wall clock: its limit is stretched by how long a processor second lasted so far.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    solve = LinearModel.solve

    def stretched(model: LinearModel, time_limit_s: float, relative_gap: float) -> Any:
        lasts = (time.perf_counter() - wall) / max(time.process_time() - cpu, 0.1)
        return solve(model, time_limit_s * max(lasts, 1.0), relative_gap)

    LinearModel.solve = stretched  # type: ignore[method-assign]
    time.monotonic = time.process_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--processor-time", action="store_true", help="the limit is in processor seconds (busy machines)"
    )
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    if a.processor_time:
        count_processor_time()
    rows: List[Dict[str, Any]] = []
    by_kind: Dict[Tuple[str, str], List[Dict[str, Any]]] = defaultdict(list)
    for target, precision, objective, name, graphs in cases(a.nets, a.pairs, [o for o in a.only.split(",") if o]):
        row: Dict[str, Any] = {"target": target, "precision": precision, "objective": objective, "network": name}
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            placed = place(graphs, target=target, precision=precision, objective=objective, time_limit_s=a.time_limit)
        except EdgedlaError as e:
            row["error"] = str(e)
        else:
            proof = placed.proof
            row.update(value=round(proof.value, 4), gap=round(proof.gap, 6), proven=proof.gap <= PROVEN)
        row.update(wall_s=round(time.perf_counter() - wall, 2), cpu_s=round(time.process_time() - cpu, 2))
        print(json.dumps(row), flush=True)
        rows.append(row)
        by_kind[target, objective].append(row)
    summary = []
    for (target, objective), found in by_kind.items():
        answered = [r for r in found if "gap" in r]
        summary.append(
            {
                "target": target,
                "objective": objective,
                "cases": len(answered),
                "proven": sum(r["proven"] for r in answered),
                "largest_gap": max((r["gap"] for r in answered), default=None),
                "most_cpu_s": max((r["cpu_s"] for r in answered), default=None),
                "no_answer": len(found) - len(answered),
            }
        )
        print(json.dumps(summary[-1]))
    if a.output:
        a.output.write_text(
            json.dumps({"time_limit_s": a.time_limit, "summary": summary, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
