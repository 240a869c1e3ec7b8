"""What reading an ONNX model costs, without the rules and regions that `edgedla check` adds (bench_check.py measures all).

usage: python benchmarks/bench_import.py [--nets FOLDER] [--repeat N]

1. CPU time of a process that only imports a model, against one that only loads it and runs ONNX shape inference;
2. chains of 1,000, 10,000 and 100,000 nodes;
3. memory on 2 GB of weights: in an external file, and in a model file beyond protobuf's own limit of 2 GB.

The smallest of N runs counts; runs of both sides alternate, so that a busy machine hits both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import onnx
from bench_check import NETS, REFERENCE, ROOT, chain, rivals, row
from onnx import TensorProto, helper

from edgedla.importers.model_file import wire

IMPORT = [sys.executable, "-c", "import sys\nfrom edgedla.importers import load_onnx\nload_onnx(sys.argv[1])"]
WEIGHTS_BYTES = 9 << 28  # 2.25 GiB
#: A matrix of that many bytes.
WEIGHTS_DIMS = (1024, WEIGHTS_BYTES // 4096)


def product(weights: TensorProto) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1024])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def sparse(path: Path, before: bytes, size_bytes: int, after: bytes) -> None:
    """A file with a hole of `size_bytes` zeros, which takes no space on disk."""
    with path.open("wb") as f:
        f.write(before)
        f.seek(size_bytes, 1)
        f.write(after)
        f.truncate(len(before) + size_bytes + len(after))


def with_external_weights(folder: Path) -> Path:
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHTS_DIMS, data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="weights.bin")
    sparse(folder / "weights.bin", b"", WEIGHTS_BYTES, b"")
    path = folder / "external.onnx"
    path.write_bytes(product(weights).SerializeToString())
    return path


def with_weights_inside(folder: Path) -> Path:
    """No protobuf library writes such a file, so its outer fields are written here."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=WEIGHTS_DIMS)
    model = product(weights)
    del model.graph.initializer[:]
    graph = model.graph.SerializeToString()
    model.ClearField("graph")
    tensor = weights.SerializeToString() + b"\x4a" + wire.encoded(WEIGHTS_BYTES)  # raw_data
    tensor_field = b"\x2a" + wire.encoded(len(tensor) + WEIGHTS_BYTES) + tensor  # GraphProto.initializer
    size = len(graph) + len(tensor_field) + WEIGHTS_BYTES
    head = model.SerializeToString() + b"\x3a" + wire.encoded(size) + graph + tensor_field  # ModelProto.graph
    path = folder / "inside.onnx"
    sparse(path, head, WEIGHTS_BYTES, b"")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=Path, default=ROOT.parent / "shared" / "corpus" / "nets")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for net, _, _ in NETS:
            path = options.nets / f"{net}.onnx"
            if not path.exists():
                print(f"skipped: {path} is not here")
                continue
            ours, reference = rivals([[*IMPORT, str(path)], [*REFERENCE, str(path)]], options.repeat)
            row(f"{net} against shape inference", ours, reference, None)
        for nodes in (1_000, 10_000, 100_000):
            path = folder / f"chain{nodes}.onnx"
            chain(nodes, path)
            ((seconds, memory),) = rivals([[*IMPORT, str(path)]], 1)
            print(f"chain of {nodes} nodes: CPU {seconds:.2f} s, memory {memory:.0f} MB")
        good = True
        for what, path in (("external", with_external_weights(folder)), ("in the file", with_weights_inside(folder))):
            ((seconds, memory),) = rivals([[*IMPORT, str(path)]], 1)
            kept = memory <= 300 or what != "external"
            good = good and kept
            print(f"{WEIGHTS_BYTES >> 20} MB of weights {what}: CPU {seconds:.2f} s, memory {memory:.0f} MB", end="")
            print("" if what != "external" else f" (limit 300: {'kept' if kept else 'MISSED'})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
