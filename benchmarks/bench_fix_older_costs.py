"""What `edgedla fix` would gain if an older version of the costs judged: the same rewrites, other prices.

    python benchmarks/bench_fix_older_costs.py NETS CHECKOUT [--out FILE] [NAME...]

CHECKOUT is a clone of this repository at another commit (8d4fd2e, version 0.1). A process of it prices each form of a network as
TensorRT would place it; today's import, rules and rewrites make the forms, and the search goes by the other's latency. AGX Orin,
FP16, TensorRT 10.3. A row per network: microseconds before and after by the older costs, and of the same two forms by today's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import edgedla
from edgedla.fixes.judge import Figures, Judge

PLATFORM = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "fp16"}

#: Runs under the older checkout: serialised models in, a line with microseconds out.
PRICER = """
import struct, sys
import onnx
from edgedla.costs.model import CostModel
from edgedla.errors import EdgedlaError
from edgedla.importers import load_onnx
from edgedla.placement.baselines import baselines
from edgedla.placement.evaluate import evaluate
from edgedla.placement.inputs import Model, problem_of
from edgedla.placement.problem import GPU, Limits
from edgedla.regions.cap import subgraphs_per_core
from edgedla.rules import load_rules
from edgedla.targets import platform_for

platform = platform_for("agx-orin-64gb", trt="10.3")
costs = CostModel.load(platform, "fp16", None)
limits = Limits(loadables_per_core=subgraphs_per_core(platform))
while head := sys.stdin.buffer.read(8):
    data = sys.stdin.buffer.read(struct.unpack("<Q", head)[0])
    try:
        graph = load_onnx(onnx.ModelProto.FromString(data), trt=platform.release.trt)
        verdicts = tuple(load_rules().check(graph, platform, "fp16"))
        problem = problem_of((Model(graph, verdicts, {}, 1.0),), costs, (GPU, "DLA0"), limits, False)
        print(evaluate(problem, baselines(problem)["tensorrt"]).latency(0).latency_us, flush=True)
    except EdgedlaError as e:
        print("none", str(e).splitlines()[0], flush=True)
"""


def pricer(checkout: Path) -> Any:
    """A process that answers with the older latency of a model."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return subprocess.Popen(
        [sys.executable, "-c", PRICER], cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def commit(checkout: Path) -> str:
    line = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--skip-names", default="tv_swin_t", help="by default the one network that is all attention")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    process = pricer(options.checkout)
    todays = Judge.figures
    asked: List[Tuple[Optional[float], Optional[float]]] = []

    def figures(self: Judge, model: Any, with_gpu: bool = False) -> Figures:
        answer = todays(self, model, with_gpu)
        data = model.SerializeToString()
        process.stdin.write(struct.pack("<Q", len(data)) + data)
        process.stdin.flush()
        text = process.stdout.readline().split()[0]
        older = None if text == b"none" else float(text)
        asked.append((older, answer.latency_us))
        return replace(answer, latency_us=older)

    Judge.figures = figures
    rows: List[Dict[str, Any]] = []
    for path in sorted(options.nets.glob("*.onnx")):
        if path.stem in (options.skip_names.split(",")) or (options.names and path.stem not in options.names):
            continue
        asked.clear()
        edgedla.fix(path, **PLATFORM, prove=False)
        older, today = ([round(asked[i][kind] or 0.0, 1) for i in (0, -1)] for kind in (0, 1))
        rows.append({"net": path.stem, "older_us": older, "today_us": today})
        print(json.dumps(rows[-1]), flush=True)
    process.stdin.close()
    process.wait()
    head: Dict[str, Any] = {
        "command": "python benchmarks/bench_fix_older_costs.py NETS CHECKOUT",
        "commits": {"today": commit(Path(__file__).parent), "older": commit(options.checkout)},
        "platform": PLATFORM,
        "basis": "predicted",
        "networks": len(rows),
    }
    for kind in ("older_us", "today_us"):
        # 0: one of the two imports refuses the network.
        ratios = [row[kind][0] / row[kind][1] for row in rows if all(row[kind])]
        head[f"geometric_mean_{kind}"] = round(math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1)), 4)
    print(json.dumps(head))
    if options.out:
        lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        options.out.write_text(f'{{"head": {json.dumps(head)},\n "rows": [\n{lines}\n ]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
