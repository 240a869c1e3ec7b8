"""Random heads of detectors in INT8: the worst part of each, with and without the repair of channels.

    python benchmarks/bench_quantize_channels.py [--count 200] [--out FILE]

Parts of ranges from 1e-2 to 1e4 in one output, joined in eight ways (tests/accuracy/random_heads.py). A row a kind: heads, heads with
a dead part (below 6 dB, measured apart from quantize's own figures, from the text of its cache) as the whole outputs show it and after
the repair, the worst part, and CPU seconds per head. Simulated.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from provenance import write_rows

from edgedla.accuracy.channels import repair
from edgedla.accuracy.quantize import quantize
from edgedla.accuracy.request import QuantizeRequest
from tests.accuracy.random_heads import KINDS, head, samples
from tests.accuracy.test_channels import FAST, part_db


def figures(seed: int) -> Dict[str, float]:
    """One head: SQNR of the outputs and of the worst part in dB, and what quantize calls dead."""
    case, held_out = head(seed), samples(8, seed + 1000)
    started = time.process_time()
    result = quantize(case.model, samples(16, seed), QuantizeRequest(**FAST), holdout=held_out)
    cpu_s = time.process_time() - started
    return {
        "db": result.sqnr_db,
        "part_db": min(part_db(case, result, held_out)),
        "dead": len(result.dead),
        "cpu_s": cpu_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    found: Dict[str, List[List[Dict[str, float]]]] = {kind: [[], []] for kind in KINDS}
    choices = repair._choices
    for seed in range(options.count):
        for k, allowed in enumerate((lambda *_: [], choices)):
            repair._choices = allowed  # type: ignore[assignment]
            found[KINDS[seed % len(KINDS)]][k].append(figures(seed))
    rows: List[Dict[str, Any]] = []
    for kind, (plain, repaired) in found.items():
        rows.append({
            "heads": kind, "count": len(plain),
            "dead_without": sum(f["part_db"] < 6 for f in plain),
            "dead_without_unsaid": sum(f["part_db"] < 6 and not f["dead"] for f in plain),
            "dead": sum(f["part_db"] < 6 for f in repaired), "refused": sum(bool(f["dead"]) for f in repaired),
            "worst_part_db": round(min(f["part_db"] for f in repaired), 1),
            "outputs_db_without": round(min(f["db"] for f in plain), 1),
            "cpu_s_per_head": round(sum(f["cpu_s"] for f in repaired) / len(repaired), 2),
        })  # fmt: skip
    for row in rows:
        print(row)
    if options.out is not None:
        write_rows(options.out, rows)


if __name__ == "__main__":
    main()
