"""What placing gains on real networks, and how long the proof takes.

    python benchmarks/bench_place.py NETS [--target agx-orin-64gb --precision int8 --objective latency] [NAME...]

NETS is a folder of ONNX files, or a file of recorded layers (one `edgedla layers` document a line, .jsonl or .jsonl.gz).
A row per network: the placement's value, the solver's time and gap, and how much lower the value is than each baseline's
under the same cost model. A baseline that breaks a limit is marked with `*`: nothing can be built like that. All numbers
are predictions. Exits with 1 if a legal baseline is better than the placement.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List

from edgedla.errors import ModelError
from edgedla.graph import LayerGraph
from edgedla.graph.document import from_document
from edgedla.importers import load_onnx
from edgedla.placement.api import place
from edgedla.placement.result.placement import Figures, Placement
from edgedla.targets import platform_for
from edgedla.vocabulary import OBJECTIVES

UNIT = {"latency": "us", "throughput": "us a frame", "energy": "mJ", "makespan": "us"}


def networks(path: Path, target: str) -> Iterator[LayerGraph]:
    if path.is_dir():
        for file in sorted(path.glob("*.onnx")):
            try:
                yield load_onnx(file, trt=platform_for(target).release.trt)
            except ModelError as e:
                print(f"{file.name}: {e.what}", file=sys.stderr)
        return
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as f:
        for document in map(json.loads, f):
            if document["parsed"]:
                yield from_document(document)


def value_of(objective: str, figures: Figures) -> float:
    if objective == "energy":
        return figures.energy.energy_mj
    return (figures.period if objective == "throughput" else figures.latency).latency_us


def gains(objective: str, placement: Placement) -> Dict[str, str]:
    """By baseline, how much lower the placement's value is: 50% is half of the baseline's."""
    found = {}
    for b in placement.baselines:
        value = value_of(objective, b.figures)
        found[b.name] = f"{1 - placement.proof.value / value:.1%}" + ("*" if b.broken else "") if value else "-"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("names", nargs="*", help="only these networks")
    parser.add_argument("--target", default="agx-orin-64gb")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--objective", default="latency", choices=[o for o in OBJECTIVES if o != "makespan"])
    parser.add_argument("--latency", type=float, metavar="X", help="for energy: bound of X times the least latency")
    parser.add_argument("--time-limit", type=float, default=10.0)
    a = parser.parse_args()
    table: List[List[str]] = []
    worse = 0
    for graph in networks(a.nets, a.target):
        if a.names and graph.name not in a.names:
            continue
        options = {"target": a.target, "precision": a.precision, "time_limit_s": a.time_limit}
        bound = a.latency * place(graph, **options).proof.value if a.latency else None
        started = time.perf_counter()
        found = place(graph, objective=a.objective, latency_bound_us=bound, **options)
        seconds = time.perf_counter() - started
        better = gains(a.objective, found)
        worse += any(not b.broken and value_of(a.objective, b.figures) < found.proof.value * (1 - 1e-9) for b in found.baselines)
        regions = sum(found.figures.regions.values())
        row = [graph.name, str(len(graph.layers)), f"{found.proof.value:.1f}", str(regions)]
        row += [f"{found.solve_time_s:.2f}", f"{seconds:.2f}", f"{found.proof.gap:.2%}"]
        table.append(row + [better.get(n, "-") for n in ("gpu", "dla-fallback", "tensorrt")])
    head = ["network", "layers", UNIT[a.objective], "loadables", "solve s", "in all s", "gap"]
    head += ["over GPU only", "over all legal on DLA", "over TensorRT's defaults"]
    print(f"{a.objective} on {a.target}, {a.precision}; value, then how much lower than the baselines")
    widths = [max(len(r[i]) for r in [head, *table]) for i in range(len(head))]
    for row in [head, *table]:
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
    proven = sum(r[6] in ("0.00%", "0.01%") for r in table)
    slowest = max((float(r[4]) for r in table), default=0.0)
    print(f"{len(table)} networks, {proven} proven to 0.01%, slowest solve {slowest:.2f} s, {worse} worse than a baseline")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
