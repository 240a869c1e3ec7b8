"""Resident memory of one process that calls check, predict, place and fix again and again; and what its collector did.

    python benchmarks/bench_loop.py [--calls 10000] [-o benchmarks/results/loop.txt]

`fix` is called a twentieth as often: it writes and proves a model each time.
"""

from __future__ import annotations

import argparse
import gc
import platform
import tempfile
from pathlib import Path
from typing import Callable, Dict, List

import numpy as np
import onnx
from onnx import helper

import edgedla

TARGET = "orin-nx-16gb"
#: Calls of each function before the first look: caches fill, and the allocator takes what it keeps.
WARM = 0.1


def network(path: Path, layers: int) -> Path:
    """`layers` convolutions, each with a HardSwish that a rewrite turns into other operators."""
    nodes, weights, value, channels = [], {}, "x", 3
    for i in range(layers):
        weights[f"w{i}"] = np.full((8, channels, 3, 3), 0.01, np.float32)
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4))
        nodes.append(helper.make_node("HardSwish", [f"c{i}"], [f"h{i}"], name=f"swish{i}"))
        value, channels = f"h{i}", 8
    graph = helper.make_graph(
        nodes,
        "loop",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 16, 16))],
        [helper.make_tensor_value_info(value, onnx.TensorProto.FLOAT, (1, 8, 16, 16))],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))


def measured(call: Callable[[], object], calls: int) -> List[int]:
    """Resident kB after a tenth of the calls, and after each further tenth."""
    marks = []
    for i in range(calls):
        call()
        if (i + 1) % max(1, int(WARM * calls)) == 0:
            marks.append(resident_kb())
    return marks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = str(network(Path(folder) / "loop.onnx", 2))
        calls: Dict[str, Callable[[], object]] = {
            "check": lambda: edgedla.check(model, target=TARGET),
            "predict": lambda: edgedla.predict(model, target=TARGET),
            "place": lambda: edgedla.place(model, target=TARGET),
            "fix": lambda: edgedla.fix(model, target=TARGET),
        }
        lines = [f"Python {platform.python_version()}; resident kB after each tenth of the calls of one process"]
        for name, call in calls.items():
            count = options.calls if name != "fix" else options.calls // 20
            marks = measured(call, count)
            lines.append(f"{name:8} {count:6} calls: {' '.join(map(str, marks))}; +{marks[-1] - marks[0]} kB since the first")
            print(lines[-1], flush=True)
        collections = [stats["collections"] for stats in gc.get_stats()]
        lines.append(f"collections by generation: {collections}; thresholds {gc.get_threshold()}; frozen {gc.get_freeze_count()}")
        print(lines[-1])
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
