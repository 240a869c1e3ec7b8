"""What `edgedla check` costs: CPU time and peak memory of whole processes, as ratios against references in one run.

usage: python benchmarks/bench_check.py [--nets FOLDER] [--polygraphy COMMAND] [--repeat N] [--before CHECKOUT]

1. against a process that only loads the same model (without external data) and runs ONNX shape inference:
   ResNet-50 at most 2.0 times its CPU time, swin_t at most 3.0;
2. against `polygraphy inspect model`, which only prints the graph, on the same networks with 100 MB of weights in the file:
   no more memory, and at most 1.25 and 1.5 times its CPU time;
3. with --before: against an older checkout of edgedla, text with cost, as a user runs it: ResNet-50 at most as long as there.
   Its row is written to benchmarks/results/check_before.json, and nothing else is measured;
4. generated chains of 1,000, 10,000 and 40,000 nodes (more than 50,000 layers are refused): as many times the nodes, about as
   many times the time over start-up.

The smallest of N runs counts; runs of both sides alternate, so that a busy machine hits both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
CHECK = [sys.executable, "-m", "edgedla", "check", "--format", "json", "--fail-on", "never"]
REFERENCE = [
    sys.executable,
    "-c",
    "import sys, onnx, onnx.shape_inference\n"
    "onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1], load_external_data=False))",
]
#: A check as a user types it: text, with cost.
PLAIN = [sys.executable, "-m", "edgedla", "check", "--target", "orin-nx-16gb"]
RESULT = ROOT / "benchmarks" / "results" / "check_before.json"
#: (network, limit against shape inference, limit against polygraphy)
NETS = (("tv_resnet50", 2.0, 1.25), ("tv_swin_t", 3.0, 1.5))


#: Runs a command and prints its usage. A process of its own: a child begins with its parent's peak memory, and ours is
#: large after making models.
LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_WRONLY)
actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions), 0)
print(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def measure(
    command: Sequence[str], environment: Dict[str, str], folder: Optional[Path] = None, expected: str = "0"
) -> Tuple[float, float]:
    """(CPU seconds, peak memory in MB) of one process and what it starts; `folder` is where it runs."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launcher, env=environment, capture_output=True, text=True, check=True, cwd=folder)
    status, seconds, megabytes = done.stdout.split()
    if status != expected:
        raise SystemExit(f"{' '.join(command)} ended with status {status}")
    return float(seconds), float(megabytes)


def as_installed() -> Dict[str, str]:
    """The environment of an installed package: with compiled modules, kept out of the checkout."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")}
    environment["PYTHONPYCACHEPREFIX"] = str(ROOT / "build" / "pycache")
    return environment


def rivals(commands: Sequence[Sequence[str]], repeat: int) -> List[Tuple[float, float]]:
    """The smallest CPU time and memory of each command; the commands take turns."""
    environment = as_installed()
    for command in commands:
        measure(command, environment)
    runs = [[measure(command, environment) for command in commands] for _ in range(repeat)]
    return [(min(r[i][0] for r in runs), min(r[i][1] for r in runs)) for i in range(len(commands))]


def against_checkout(before: Path, net: Path, repeat: int) -> bool:
    """CPU time of a check with cost, here and in an older checkout by turns; each imports the package of its folder."""
    environment, command = as_installed(), [*PLAIN, str(net.resolve())]
    # The answer is no: one layer of ResNet-50 is refused.
    folders = (ROOT, before.resolve())
    runs = [[measure(command, environment, folder, "256")[0] for folder in folders] for _ in range(repeat + 1)][1:]
    ours, theirs = zip(*runs)
    ratio = statistics.median(ours) / statistics.median(theirs)
    row = {
        "network": net.stem,
        "command": " ".join(PLAIN[1:]),
        "before": git(before, "rev-parse", "--short", "HEAD"),
        "commit": git(ROOT, "rev-parse", "--short", "HEAD"),
        "runs": repeat,
        "python": ".".join(map(str, sys.version_info[:3])),
        "cpu_s": [round(statistics.median(ours), 4), round(statistics.median(theirs), 4)],
        "cpu_s_smallest": [round(min(ours), 4), round(min(theirs), 4)],
        "ratio": round(ratio, 3),
        "ratio_of_smallest": round(min(ours) / min(theirs), 3),
        "limit": 1.0,
    }
    RESULT.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(row, indent=1))
    return ratio <= 1.0


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def with_weights(source: Path, target: Path) -> None:
    """The same network with random weights in the file, where the source only names them."""
    model = onnx.load(str(source), load_external_data=False)
    random = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            values = (random.standard_normal(tuple(tensor.dims), dtype=np.float32) * 0.05).astype(dtype)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, str(target))


def chain(nodes: int, target: Path) -> None:
    """conv, relu, conv, relu, ...: every convolution reads the same weights."""
    made = []
    for i in range(nodes):
        inputs = [f"t{i}"] if i % 2 else [f"t{i}", "w"]
        made.append(helper.make_node("Relu" if i % 2 else "Conv", inputs, [f"t{i + 1}"], name=f"n{i}"))
    shape = [1, 8, 16, 16]
    graph = helper.make_graph(
        made,
        "chain",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"t{nodes}", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.ones((8, 8, 1, 1), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(target))


def row(name: str, ours: Tuple[float, float], other: Tuple[float, float], limit: Optional[float]) -> bool:
    ratio, memory = ours[0] / other[0], ours[1] / other[1]
    good = limit is None or ratio <= limit
    verdict = "" if limit is None else f"  (limit {limit:.2f}: {'kept' if good else 'MISSED'})"
    print(f"{name:34} CPU {ours[0]:.3f} s / {other[0]:.3f} s = {ratio:.2f}{verdict}; ", end="")
    print(f"memory {ours[1]:.0f} MB / {other[1]:.0f} MB = {memory:.2f}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=Path, default=ROOT.parent / "shared" / "corpus" / "nets")
    parser.add_argument("--polygraphy", default=shutil.which("polygraphy"), help="the command; skipped where absent")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--before", type=Path, help="an older checkout of edgedla (git clone)")
    options = parser.parse_args()
    if options.before:
        return 0 if against_checkout(options.before, options.nets / "tv_resnet50.onnx", options.repeat) else 1
    nets = [net for net in NETS if (options.nets / f"{net[0]}.onnx").exists()]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        if not nets:
            print(f"skipped: {options.nets} holds no tv_resnet50.onnx or tv_swin_t.onnx")
        for name, limit, _ in nets:
            path = str(options.nets / f"{name}.onnx")
            ours, reference = rivals([[*CHECK, path], [*REFERENCE, path]], options.repeat)
            good &= row(f"{name} against shape inference", ours, reference, limit)
        if not options.polygraphy:
            print("skipped: polygraphy is not here (pip install polygraphy)")
        for name, _, limit in nets if options.polygraphy else ():
            path = str(Path(folder) / f"{name}.onnx")
            with_weights(options.nets / f"{name}.onnx", Path(path))
            ours, other = rivals([[*CHECK, path], [options.polygraphy, "inspect", "model", path]], options.repeat)
            good &= row(f"{name} ({os.path.getsize(path) >> 20} MB) against polygraphy", ours, other, limit)
            if ours[1] > other[1]:
                print(f"{'':34} memory: MISSED, must be no more")
                good = False
        start = None
        for nodes in (1, 1_000, 10_000, 40_000):
            path = Path(folder) / f"chain{nodes}.onnx"
            chain(nodes, path)
            ((seconds, memory),) = rivals([[*CHECK, str(path)]], 2 if nodes < 40_000 else 1)
            if start is None:
                start = seconds
                continue
            each = (seconds - start) / nodes * 1e6
            print(f"chain of {nodes} nodes: CPU {seconds:.2f} s, {each:.0f} us a node over start-up; memory {memory:.0f} MB")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
