"""Whether `edgedla place --time-limit` holds for the whole command, and what the time buys, on large networks.

    python benchmarks/bench_time_limit.py NETS [--limits 1,5,10,30] [--only chain_1000,...] [-o FILE.json]
    python benchmarks/bench_time_limit.py --merge PART.json... --measured "COMMIT, MACHINE" -o FILE.json

Networks of about 1,000 layers are generated (a chain, residual blocks, blocks of four branches); large ones are taken
from NETS. Each runs as a command of its own on AGX Orin at INT8 with three engines: a row per run with wall seconds from
start to end, value, gap and how much better than the best baseline the placement is. All values are predictions.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from provenance import loop_seconds, provenance

#: Networks of NETS by name, and pairs of them for the makespan.
LARGE = ("timm_hrnet_w18_small", "det_retinanet_r50_fpn")
PAIRS = (("det_retinanet_r50_fpn", "timm_hrnet_w18_small"), ("tv_densenet121", "tv_shufflenet_v2_x1_0"))
#: Height and width of all activations of the generated networks.
SIZE = 28


class _Network:
    """Convolutions one by one; weights are zeros, and equal ones are one tensor."""

    def __init__(self) -> None:
        self.nodes: List[onnx.NodeProto] = []
        self.weights: Dict[Tuple[int, ...], onnx.TensorProto] = {}
        self.channels = {"x": 64}

    def node(self, op: str, inputs: List[str], channels: int, **attributes: Any) -> str:
        name = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x: str, channels: int, kernel: int = 3) -> str:
        dims = (channels, self.channels[x], kernel, kernel)
        if dims not in self.weights:
            self.weights[dims] = numpy_helper.from_array(np.zeros(dims, np.float32), f"w{len(self.weights)}")
        return self.node("Conv", [x, self.weights[dims].name], channels, pads=[kernel // 2] * 4)

    def model(self, y: str) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, self.channels[y], SIZE, SIZE])]
        start = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, self.channels["x"], SIZE, SIZE])]
        graph = helper.make_graph(self.nodes, "generated", start, ends, list(self.weights.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def chain(layers: int) -> onnx.ModelProto:
    network, x = _Network(), "x"
    for i in range(layers):
        x = network.conv(x, (64, 128, 96)[i % 3])
    return network.model(x)


def residual(layers: int) -> onnx.ModelProto:
    """Blocks of two convolutions, a sum and a ReLU, the channels of each stage twice those of the one before."""
    network, x = _Network(), "x"
    for i in range(layers // 4):
        channels = 64 << (4 * i * 4 // layers)
        if network.channels[x] != channels:
            x = network.conv(x, channels, 1)
        y = network.conv(network.conv(x, channels), channels)
        x = network.node("Relu", [network.node("Add", [x, y], channels)], channels)
    return network.model(x)


def branches(layers: int) -> onnx.ModelProto:
    """Blocks of four branches of one to three convolutions and a maximum pooling, concatenated."""
    network, x = _Network(), "x"
    for _ in range(layers // 10):
        pooled = network.node("MaxPool", [x], network.channels[x], kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        ends = [
            network.conv(x, 32, 1),
            network.conv(network.conv(x, 48, 1), 64),
            network.conv(network.conv(network.conv(x, 16, 1), 32), 32),
            network.conv(pooled, 32, 1),
        ]
        x = network.node("Concat", ends, 160, axis=1)
        x = network.conv(x, 128, 1)
    return network.model(x)


GENERATED = {"chain_1000": chain, "residual_1000": residual, "branches_1000": branches}


def cases(nets: Path, folder: Path, only: List[str]) -> Iterator[Tuple[str, str, List[Path]]]:
    """(name, objective, files) of every case."""
    for name, make in GENERATED.items():
        file = folder / f"{name}.onnx"
        if not only or name in only:
            onnx.save(make(1000), str(file))
            yield name, "throughput", [file]
            yield name, "latency", [file]
    for name in LARGE:
        if not only or name in only:
            yield name, "throughput", [nets / f"{name}.onnx"]
    for pair in PAIRS:
        if not only or " + ".join(pair) in only or "pairs" in only:
            yield " + ".join(pair), "makespan", [nets / f"{name}.onnx" for name in pair]


def row_of(name: str, objective: str, files: List[Path], limit_s: float) -> Dict[str, Any]:
    command = [sys.executable, "-m", "edgedla", "place", *map(str, files), "--objective", objective]
    command += ["--target", "agx-orin-64gb", "--precision", "int8", "--time-limit", f"{limit_s:g}", "--format", "json"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    row: Dict[str, Any] = {"network": name, "objective": objective, "time_limit_s": limit_s}
    row["wall_s"] = round(time.perf_counter() - began, 2)
    if done.returncode:
        row["error"] = done.stderr.strip().splitlines()[-1:]
    else:
        document = json.loads(done.stdout)
        proof, field = (document["proof"], {"throughput": "period", "makespan": "makespan_us"}.get(objective, "latency"))
        reached = [b[field]["latency_us"] if field != "makespan_us" else b[field] for b in document["baselines"] if b["legal"]]
        best = min(reached, default=None)
        row.update(value=round(proof["value"], 4), gap=round(proof["gap"], 6), best_baseline=best)
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path, nargs="?")
    parser.add_argument("--limits", default="1,5,10,30")
    parser.add_argument("--only", default="", help="names of networks, or pairs")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="PART", help="join the files of parts; nothing is placed")
    parser.add_argument("--measured", default="", help="commit and machine of the parts, for the joined file")
    parser.add_argument("-o", "--output", type=Path)
    a = parser.parse_args()
    if a.merge:
        documents = [json.loads(file.read_text()) for file in a.merge]
        rows = [row for document in documents for row in document["rows"]]
        head = {**documents[0], "command": "python benchmarks/bench_time_limit.py NETS (in parts)", "measured": a.measured}
        for key in ("commit", "rows"):
            del head[key]
    elif a.nets is None or not a.nets.is_dir():
        parser.error("name the folder of networks, or --merge the files of parts")
    else:
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                row_of(*case, float(limit))
                for case in cases(a.nets, Path(folder), [o for o in a.only.split(",") if o])
                for limit in a.limits.split(",")
            ]
        head = {"basis": "predicted", **provenance(("numpy", "onnx", "highspy")), "loop_s": loop_seconds()}
    if a.output:
        text = json.dumps(head, indent=1)[:-2]
        text += ',\n "rows": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]\n}\n"
        a.output.write_text(text)


if __name__ == "__main__":
    main()
