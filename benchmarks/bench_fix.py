"""What `edgedla fix` gains on real networks, as predicted, and how long it takes.

    python benchmarks/bench_fix.py NETS [--config X16,O16,O8] [--objective latency] [--for hybrid] [--out FILE] [NAME...]

NETS is a folder of ONNX files; weights are not needed, nothing is proven here. A row per network and configuration (X16:
AGX Xavier, FP16, TensorRT 8.5.2; O16 and O8: AGX Orin, FP16 and INT8, TensorRT 10.3), then a summary of each
configuration. All figures are predictions; `seconds` is CPU time of the whole call. Rows of the same commit that `--out` holds
are not run again; it is written after each.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from provenance import provenance, write_rows

import edgedla
from edgedla.errors import EdgedlaError

CONFIGS = {
    "X16": {"target": "agx-xavier-32gb", "trt": "8.5.2", "precision": "fp16"},
    "O16": {"target": "agx-orin-64gb", "trt": "10.3", "precision": "fp16"},
    "O8": {"target": "agx-orin-64gb", "trt": "10.3", "precision": "int8"},
}
SHOWN = ("loadables", "dropped", "transitions", "layers", "layers_dla", "layers_unknown", "share_macs_dla", "latency_us")


def row_of(path: Path, config: str, objective: str, purpose: str) -> Dict[str, Any]:
    start = time.process_time()
    result = edgedla.fix(path, **CONFIGS[config], objective=objective, purpose=purpose, prove=False)
    before, after = result.before.to_dict(), result.after.to_dict()
    return {
        "net": path.stem,
        "config": config,
        "before": {k: before[k] for k in SHOWN},
        "after": {k: after[k] for k in SHOWN},
        "refused_before": before["refused"],
        "refused_after": after["refused"],
        "passes_before": before["passes"],
        "passes": after["passes"],
        "offenders": len(after["offenders"]),
        "applied": result.counts,
        "trials": result.trials,
        "seconds": round(time.process_time() - start, 2),
    }


def summary_of(rows: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    parsed = [r for r in rows if not r["refused_before"]]
    ratios = [r["before"]["latency_us"] / r["after"]["latency_us"] for r in parsed if r["after"]["latency_us"]] or [1.0]
    shares = [r["after"]["share_macs_dla"] for r in rows]
    return {
        "networks": len(rows),
        "parser_refusals": [sum(bool(r[f"refused_{when}"]) for r in rows) for when in ("before", "after")],
        "loadables": [sum(r[when]["loadables"] for r in parsed) for when in ("before", "after")],
        "loadables_after_all": sum(r["after"]["loadables"] for r in rows),
        "transitions": [sum(r[when]["transitions"] for r in parsed) for when in ("before", "after")],
        "in_one_loadable": [sum(r[when]["loadables"] == 1 for r in rows) for when in ("before", "after")],
        "mean_share_macs_dla_after": round(sum(shares) / len(shares), 4),
        "geometric_mean_speedup": round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4),
        "slower_by_over_1_percent": [r["net"] for r, gain in zip(parsed, ratios) if gain < 0.99],
        "passes": sum(bool(r["passes"]) for r in rows),
        "seconds": round(sum(r["seconds"] for r in rows), 1),
    }


def known_rows(out: Optional[Path], asked: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Rows of an earlier run of the same question on the same commit."""
    if out is None or not out.is_file():
        return []
    earlier = json.loads(out.read_text(encoding="utf-8"))
    asked = {"commit": provenance()["commit"], **asked}
    return list(earlier["rows"]) if {key: earlier.get(key) for key in asked} == asked else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--config", default="X16,O16,O8")
    parser.add_argument("--objective", default="latency")
    parser.add_argument("--for", dest="purpose", default="hybrid")
    parser.add_argument("--skip-names", default="tv_swin_t", help="by default the one network that is all attention")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    left_out = options.skip_names.split(",")
    asked: Dict[str, Any] = {"objective": options.objective, "for": options.purpose}
    rows = known_rows(options.out, asked)
    known = {(row["net"], row["config"]) for row in rows}
    summaries: Dict[str, Any] = {}
    for path in sorted(options.nets.glob("*.onnx")):
        if (options.names and path.stem not in options.names) or (not options.names and path.stem in left_out):
            continue
        for config in options.config.split(","):
            if (path.stem, config) in known:
                continue
            try:
                row = row_of(path, config, options.objective, options.purpose)
            except EdgedlaError as e:
                print(f"{path.stem} {config}: {e}", file=sys.stderr)
                continue
            rows.append(row)
            b, a = row["before"], row["after"]
            print(
                f"{row['net']:36} {config:4} loadables {b['loadables']:3} -> {a['loadables']:3}  "
                f"us {b['latency_us'] or 0:8.0f} -> {a['latency_us'] or 0:8.0f}  passes {row['passes']}  {row['seconds']} s  "
                + ", ".join(f"{n} {k}" for k, n in row["applied"].items()),
                flush=True,
            )
            summaries = {c: summary_of(of) for c in CONFIGS if (of := [r for r in rows if r["config"] == c])}
            if options.out:
                write_rows(options.out, rows, "predicted", **asked, summary=summaries)
    print(json.dumps(summaries, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
