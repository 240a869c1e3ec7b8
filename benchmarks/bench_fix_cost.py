"""What `edgedla fix` takes: CPU time of three networks with weights and proofs, memory for weights in external files.

    python benchmarks/bench_fix_cost.py NETS [--repeat 3] [--out FILE]

NETS is a folder of ONNX files; missing weights become seeded numbers first. Each row is a process of the command line, CPU
seconds of the user and the system, the best of the repeats; the first row compiles the modules, as an installation does. The
external model is a Conv network with dense layers of 2.4 GB in one sparse file, edited without proofs and with one of each layer,
which runs both forms. `loop_s` of a row is the CPU time of a plain Python loop beside it (provenance.py), which says how fast the
machine is. Exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
from provenance import loop_seconds, write_rows

from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.network.model_file import open_model
from edgedla.fixes.seeded import with_seeded_weights

#: Network -> limit in CPU seconds.
NETS = {"tv_resnet50": 3.0, "yolo_yolov8n": 3.0, "tv_swin_t": 10.0}
MOST_MIB = 250.0
#: Dense layers of WIDTH x WIDTH FP32 numbers: 144 of 17 MB.
WIDTH, DENSE = 2048, 144


def fixed(model: Path, out: Path, *options: str) -> Tuple[float, float]:
    """(CPU seconds, peak MiB) of one `edgedla fix`."""
    line = [
        sys.executable,
        "-m",
        "edgedla",
        "fix",
        str(model),
        "-o",
        str(out),
        "--target",
        "agx-orin-64gb",
        "--trt",
        "10.3",
        "--precision",
        "int8",
        *options,
    ]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(model.parent / "compiled")
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{model}: exit code {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def external_model(folder: Path) -> Path:
    """A small convolution, an average and dense layers of 2.4 GB in one sparse file."""
    names = [f"w{i}" for i in range(DENSE)]
    layers = "".join(f"d{i} = Gemm<transB = 1>(r{i - 1}, w{i}) r{i} = Relu(d{i}) " for i in range(DENSE))
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> net (float[1,3,32,32] x) => (float[1,{WIDTH}] r{DENSE - 1}) '
        f"{{ c = Conv(x, k) a = Relu(c) g = GlobalAveragePool(a) f = Flatten(g) s = Gemm(f, first) r = Relu(s) "
        f"{layers.replace('r-1', 'r')} }}"
    )
    small = {"k": (16, 3, 3, 3), "first": (16, WIDTH)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.full(dims, 0.01, np.float32), name) for name, dims in small.items()
    )
    size = WIDTH * WIDTH * 4
    for i, name in enumerate(names):
        tensor = onnx.TensorProto(name=name, dims=(WIDTH, WIDTH), data_type=onnx.TensorProto.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", i * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        model.graph.initializer.append(tensor)
    path = folder / "external.onnx"
    path.write_bytes(model.SerializeToString())
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(DENSE * size)
    return path


def row(what: str, model: Path, repeat: int, seconds: Optional[float], mib: Optional[float], *options: str) -> Dict[str, Any]:
    runs = [fixed(model, model.with_name("out.onnx"), *options) for _ in range(repeat)]
    cpu, peak = min(r[0] for r in runs), max(r[1] for r in runs)
    kept = (seconds is None or cpu <= seconds) and (mib is None or peak <= mib)
    entry = {
        "what": what,
        "cpu_s": round(cpu, 2),
        "loop_s": loop_seconds(),
        "limit_s": seconds,
        "peak_mib": round(peak),
        "limit_mib": mib,
        "kept": kept,
    }
    print(json.dumps(entry), flush=True)
    return entry


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="edgedla-fix-cost-") as name:
        folder = Path(name)
        # First: a process counts the memory of the one that starts it, which grows with the networks.
        model = external_model(folder)
        size = f"{DENSE * WIDTH * WIDTH * 4 / 1e9:.1f} GB external"
        rows.append(row(f"{size}, edited", model, 1, None, MOST_MIB, "--no-prove"))
        rows.append(row(f"{size}, {DENSE} layers proven", model, 1, None, MOST_MIB))
        for net, limit in NETS.items():
            model = folder / f"{net}.onnx"
            onnx.save(onnx_ir().to_proto(with_seeded_weights(open_model(options.nets / f"{net}.onnx"))), str(model))
            rows.append(row(f"{net} with weights", model, options.repeat, limit, None))
    if options.out:
        write_rows(options.out, rows, "measured")
    return int(not all(r["kept"] for r in rows))


if __name__ == "__main__":
    sys.exit(main())
