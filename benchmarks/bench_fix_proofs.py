"""Random instances of every rewrite's pattern, run before and after in ONNX Runtime without optimisation.

    python benchmarks/bench_fix_proofs.py [--count 2000] [--out FILE] [REWRITE...]

A row per rewrite: instances it applied to, refused, and left alone as no pattern; sites whose numbers differ by more than
their class allows (`wrong`), that did not run (`unproved`), and models that onnx.checker refuses (`malformed`). Exits
with 1 if there is any of the last three.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
from provenance import write_rows

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.network import Goal
from edgedla.fixes.rewrites import all_rewrites
from edgedla.fixes.site import Rewrite
from edgedla.processes.python_files import import_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.fixes.rewrite_examples import example_model, outcome


def generators() -> Dict[str, Any]:
    path = Path(__file__).resolve().parents[1] / "tests" / "fixes" / "instances.py"
    module = import_file(path, "instances")
    return dict(module.GENERATORS)


def row_of(rewrite: Rewrite, generate: Any, count: int) -> Dict[str, Any]:
    start = time.process_time()
    tally: collections.Counter = collections.Counter()
    opsets = set()
    worst = 0.0
    for seed in range(count):
        example = generate(np.random.default_rng([seed, 1]))
        opsets.add(example.opset)
        found = outcome(rewrite, example_model(example), Goal(**dict(example.goal)))
        kind = "applied" if found.changes.applied else "refused" if found.changes.refused else "no_pattern"
        tally[kind] += 1
        for proof in found.proofs:
            worst = max(worst, proof.rel_l2 or 0.0)
            if proof.status != "proved":
                tally["wrong" if proof.status == "failed" else "unproved"] += 1
                print(f"  {rewrite.id} seed {seed}: {proof.status} {proof.detail}\n  {example}", file=sys.stderr)
        try:
            onnx.checker.check_model(onnx_ir().to_proto(found.model), full_check=True)
        except onnx.checker.ValidationError as e:
            tally["malformed"] += 1
            print(f"  {rewrite.id} seed {seed}: {e}", file=sys.stderr)
    keys = ("applied", "refused", "no_pattern", "wrong", "unproved", "malformed")
    return {
        "rewrite": rewrite.id,
        **{key: tally[key] for key in keys},
        "worst_rel_l2": float(f"{worst:.2g}"),
        "opsets": [min(opsets), max(opsets)],
        "seconds": round(time.process_time() - start, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rewrites", nargs="*")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    generate = generators()
    rows = []
    for rewrite in all_rewrites():
        if not options.rewrites or rewrite.id in options.rewrites:
            rows.append(row_of(rewrite, generate[rewrite.id], options.count))
            print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_rows(options.out, rows, "measured", count=options.count)
    return int(any(row[key] for row in rows for key in ("wrong", "unproved", "malformed")))


if __name__ == "__main__":
    sys.exit(main())
