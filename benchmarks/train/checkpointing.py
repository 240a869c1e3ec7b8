"""Peak memory and time of a QAT step of ResNet-50 with and without activation checkpointing.

    python benchmarks/train/checkpointing.py --batch 64 --out checkpointing.json     on a GPU; timm has the network

Each row is a process of its own, so that one row's memory is not another's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from edgedla.io.files import write_atomic  # noqa: E402
from edgedla.torch import prepare_qat  # noqa: E402

ROWS = ("fp32", "fp32 checkpointed", "qat", "qat checkpointed")


def measured(row: str, given: Any) -> Dict[str, Any]:
    import timm

    torch.manual_seed(0)
    module = timm.create_model(given.network, num_classes=10)
    one = torch.zeros(1, 3, given.side, given.side)
    if "checkpointed" in row:
        module.set_grad_checkpointing(True)
    if row.startswith("qat"):
        module = prepare_qat(module.eval(), one, "agx-orin-64gb", calibration=[torch.rand(2, 3, given.side, given.side)])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module.to(device).train()
    x = torch.rand(given.batch, 3, given.side, given.side, device=device)
    y = torch.randint(0, 10, (given.batch,), device=device)
    times = []
    for _ in range(given.steps + 3):
        start = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(module(x).flatten(1), y)
        loss.backward()
        module.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None
    middle = sorted(times[3:])[given.steps // 2]
    return {"row": row, "peak_mib": peak, "step_ms": 1000 * middle, "batch": given.batch, "loss": float(loss)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--row", choices=ROWS, help="this row only, on standard output")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.row is not None:
        print(json.dumps(measured(given.row, given)))
        return
    rows = []
    for row in ROWS:
        command = [sys.executable, __file__, *sys.argv[1:], "--row", row]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    if given.out is not None:
        name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        write_atomic(
            given.out, json.dumps({"command": sys.argv, "device": name, "torch": torch.__version__, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
