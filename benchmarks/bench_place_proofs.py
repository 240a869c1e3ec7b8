"""Which placements are proven within the time limit, over a folder of networks, on two chips.

    python benchmarks/bench_place_proofs.py NETS [--time-limit 10] [--pairs 20] [--only throughput,pairs] [-o FILE.json]
    python benchmarks/bench_place_proofs.py NETS --only random-pairs [--time-limit 3.3] -o FILE.json
    python benchmarks/bench_place_proofs.py NETS --target agx-xavier-32gb --only pairs --part 1/4 -o PART.json
    python benchmarks/bench_place_proofs.py --merge PART.json... --measured "COMMIT, MACHINE" -o FILE.json

Latency, energy and throughput of every network and the makespan of pairs, on AGX Orin at INT8 and AGX Xavier at FP16. A
row per case: value, gap, wall and processor seconds of the whole call. `random-pairs` are 20 pairs per chip drawn with a
seed that was fixed before the search that they judge. A limit divided by 3 stands for a processor three times slower. Run
it on two versions of the package with PYTHONPATH to compare them. All values are predictions. A case that raises is a row
with its error. `--part K/N` takes each N-th case beginning with the K-th, for several machines or cores; `--merge` joins
their files.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from itertools import combinations, islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from provenance import loop_seconds, provenance, write_lines

from edgedla.errors import EdgedlaError
from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.targets import platform_for

CHIPS = (("agx-orin-64gb", "int8"), ("agx-xavier-32gb", "fp16"))
OBJECTIVES = ("latency", "energy", "throughput")
KINDS = [(target, objective) for target, _ in CHIPS for objective in (*OBJECTIVES, "makespan")]

#: Seed of the random pairs. It is never changed, so that no search can be fitted to what it draws.
SEED = 20261128

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


def random_pairs(names: List[str], target: str) -> List[Tuple[str, str]]:
    """20 pairs of different networks, drawn with a fixed seed per chip."""
    return random.Random(f"{SEED} {target}").sample(list(combinations(sorted(names), 2)), 20)


def cases(folder: Path, pairs: int, only: List[str], chip: str) -> Iterator[Tuple[str, str, str, str, List[Any]]]:
    for target, precision in CHIPS:
        if chip not in ("", target):
            continue
        read = networks(folder, target)
        for objective in OBJECTIVES:
            for name, graph in read.items():
                if not only or objective in only:
                    yield target, precision, objective, name, [graph]
        two = pairs_of(list(read), pairs) if not only or "pairs" in only else []
        if "random-pairs" in only:
            two += random_pairs(list(read), target)
        for a, b in two:
            yield target, precision, "makespan", f"{a} + {b}", [read[a], read[b]]


def row_of(target: str, precision: str, objective: str, name: str, graphs: List[Any], limit_s: float) -> Dict[str, Any]:
    row: Dict[str, Any] = {"target": target, "precision": precision, "objective": objective, "network": name}
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        placed = place(graphs, target=target, precision=precision, objective=objective, time_limit_s=limit_s, gap=PROVEN / 2)
    except EdgedlaError as e:
        row["error"] = str(e)
    else:
        proof = placed.proof
        row.update(value=round(proof.value, 4), gap=round(proof.gap, 6), proven=proof.gap <= PROVEN, solver=proof.solver)
    row.update(wall_s=round(time.perf_counter() - wall, 2), cpu_s=round(time.process_time() - cpu, 2))
    print(json.dumps(row), flush=True)
    return row


def summaries(rows: List[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
    by_kind: Dict[Tuple[str, str], List[Dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_kind[row["target"], row["objective"]].append(row)
    for (target, objective), kind in by_kind.items():
        answered = [r for r in kind if "gap" in r]
        yield {
            "target": target,
            "objective": objective,
            "cases": len(answered),
            "proven": sum(r["proven"] for r in answered),
            "largest_gap": max((r["gap"] for r in answered), default=None),
            "most_wall_s": max((r["wall_s"] for r in answered), default=None),
            "most_cpu_s": max((r["cpu_s"] for r in answered), default=None),
            "no_answer": len(kind) - len(answered),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path, nargs="?")
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="", choices=["", *(target for target, _ in CHIPS)])
    parser.add_argument("--part", default="1/1", help="K/N: each N-th case from the K-th")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="join the files of parts; nothing is placed")
    parser.add_argument("--measured", default="", help="commit and machine of the parts, for the joined file")
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    if a.merge:
        documents = [json.loads(file.read_text()) for file in a.merge]
        rows = [row for document in documents for row in document["rows"]]
        order = {(target, objective): i for i, (target, objective) in enumerate(KINDS)}
        rows.sort(key=lambda r: (order[r["target"], r["objective"]], r["network"]))
        head = {
            "basis": "predicted",
            "command": "python benchmarks/bench_place_proofs.py NETS (in parts)",
            "measured": a.measured,
            **{key: documents[0][key] for key in ("time_limit_s", "clock", "versions", "loop_s")},
        }
    elif a.nets is None or not any(a.nets.glob("*.onnx")):
        parser.error(f"name a folder of networks, or --merge the files of parts: no .onnx in {a.nets}")
    else:
        k, n = (int(text) for text in a.part.split("/"))
        selected = cases(a.nets, a.pairs, [o for o in a.only.split(",") if o], a.target)
        rows = [row_of(*case, a.time_limit) for case in islice(selected, k - 1, None, n)]
        head = {
            "basis": "predicted",
            **provenance(("numpy", "onnx", "highspy")),
            "time_limit_s": a.time_limit,
            "clock": "processor",
            "loop_s": loop_seconds(),
        }
    summary = list(summaries(rows))
    for line in summary:
        print(json.dumps(line))
    if a.output:
        write_lines(a.output, {**head, "summary": summary}, rows)


if __name__ == "__main__":
    main()
