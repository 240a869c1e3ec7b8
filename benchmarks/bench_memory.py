"""What sessions of ONNX Runtime take of memory, against the estimate that `--max-memory` goes by.

usage: python benchmarks/bench_memory.py NETS -o benchmarks/results/session_memory.json

NETS is a folder of ONNX models with weights. Each one is opened and run twice in a process of its own; the peak of its memory
(VmHWM) above what it held before is compared with the estimate. Above 1 the estimate would be no bound. Tensors of unknown size
are left out of the estimate, and counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import numpy as np

from edgedla.processes.guard import resident_bytes
from edgedla.quantization.samples import NUMPY_OF_ORT
from edgedla.quantization.session import import_onnxruntime, memory_of, open_session

MIB = 1 << 20


def peak_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(path: str) -> Dict[str, Any]:
    """Of this process, which does nothing else."""
    import_onnxruntime()
    data = Path(path).read_bytes()
    memory = memory_of(data)
    gc.collect()
    held = resident_bytes(os.getpid())
    # The peak begins anew: reading the model had one of its own.
    Path("/proc/self/clear_refs").write_text("5")
    session = open_session(data)
    rng = np.random.default_rng(0)
    feed = {}
    for entry in session.get_inputs():
        dims = [d if isinstance(d, int) else 1 for d in entry.shape]
        feed[entry.name] = rng.standard_normal(dims).astype(NUMPY_OF_ORT[entry.type])
    for _ in range(2):
        session.run(None, feed)
    peak = peak_bytes() - held
    return {
        "estimate_mib": round(memory.total_bytes / MIB, 1),
        "peak_mib": round(peak / MIB, 1),
        "unknown": memory.unknown,
        "ratio": round(peak / memory.total_bytes, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.nets.is_file():
        print(json.dumps(measured(str(options.nets))))
        return 0
    rows = {}
    for net in sorted(options.nets.glob("*.onnx")):
        done = subprocess.run([sys.executable, __file__, str(net)], capture_output=True, text=True)
        if done.returncode:
            print(f"{net.name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            continue
        rows[net.stem] = json.loads(done.stdout)
        print(net.stem, rows[net.stem], flush=True)
    worst = max(rows, key=lambda name: rows[name]["ratio"])
    document = {"networks": len(rows), "worst": {"network": worst, **rows[worst]}, "rows": rows}
    if options.output is not None:
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if rows[worst]["ratio"] > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
