"""Asks TensorRT's own ONNX parser what it makes of models: one line of JSON for each, for score_real.py.

Needs a CUDA GPU, and TensorRT 8 to 10 as the module `tensorrt`; nothing is built or run on it, so that a PC's GPU answers for
the parser of a Jetson's release. A model that crashes the library costs its own answer alone.
Standard library only: the Python that a wheel is for may have nothing else.

usage: ask_parser.py FOLDER -o RECORD.jsonl.gz [--jobs N]     all *.onnx below FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

#: Properties that a layer's record holds, by the class that its type is cast to.
PROPERTIES = {
    "ACTIVATION": ("IActivationLayer", "type alpha beta"),
    "CONCATENATION": ("IConcatenationLayer", "axis"),
    "CONVOLUTION": (
        "IConvolutionLayer",
        "num_output_maps kernel_size_nd stride_nd dilation_nd pre_padding post_padding padding_mode num_groups",
    ),
    "DECONVOLUTION": (
        "IDeconvolutionLayer",
        "num_output_maps kernel_size_nd stride_nd dilation_nd pre_padding post_padding padding_mode num_groups",
    ),
    "ELEMENTWISE": ("IElementWiseLayer", "op"),
    "FILL": ("IFillLayer", "operation"),
    "GATHER": ("IGatherLayer", "mode axis"),
    "LRN": ("ILRNLayer", "window_size alpha beta k"),
    "MATRIX_MULTIPLY": ("IMatrixMultiplyLayer", "op0 op1"),
    "NORMALIZATION": ("INormalizationLayer", "axes num_groups epsilon"),
    "POOLING": (
        "IPoolingLayer",
        "type window_size_nd stride_nd pre_padding post_padding padding_mode average_count_excludes_padding",
    ),
    "REDUCE": ("IReduceLayer", "op axes keep_dims"),
    "RESIZE": ("IResizeLayer", "resize_mode scales coordinate_transformation selector_for_single_pixel nearest_rounding"),
    "SCALE": ("IScaleLayer", "mode channel_axis"),
    "SHUFFLE": ("IShuffleLayer", "first_transpose second_transpose"),
    "SLICE": ("ISliceLayer", "mode"),
    "SOFTMAX": ("ISoftMaxLayer", "axes"),
    "TOPK": ("ITopKLayer", "op axes k"),
    "UNARY": ("IUnaryLayer", "op"),
}


def plain(value: Any) -> Any:
    """A property as JSON: enum members by name, dims as lists."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if hasattr(value, "name"):
        return value.name
    return [plain(x) for x in value]


def dims(tensor: Any) -> Any:
    try:
        return list(tensor.shape)
    except ValueError:
        return None


def described(trt: Any, layer: Any) -> Dict[str, Any]:
    kind = layer.type.name
    inputs = [layer.get_input(i) for i in range(layer.num_inputs)]
    outputs = [layer.get_output(i) for i in range(layer.num_outputs)]
    row: Dict[str, Any] = {
        "type": kind,
        "name": layer.name,
        "inputs": [tensor and [tensor.name, dims(tensor)] for tensor in inputs],
        "outputs": [[tensor.name, dims(tensor), tensor.dtype.name] for tensor in outputs],
    }
    name, properties = PROPERTIES.get(kind, ("", ""))
    if hasattr(trt, name):
        layer.__class__ = getattr(trt, name)
        found = {}
        for key in properties.split():
            try:
                found[key] = plain(getattr(layer, key))
            except (AttributeError, TypeError, ValueError, RuntimeError):
                # Not a property in this release, or none that this layer has, such as dims given by a tensor.
                continue
        row["params"] = found
    return row


def answer_of(trt: Any, logger: Any, builder: Any, path: str) -> Dict[str, Any]:
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    network = builder.create_network(flags)
    parser = trt.OnnxParser(network, logger)
    with open(path, "rb") as f:
        parsed = parser.parse(f.read())
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    row: Dict[str, Any] = {
        "parsed": bool(parsed),
        "errors": [{"code": str(e.code()).rpartition(".")[2], "node": e.node(), "desc": e.desc()} for e in errors],
    }
    if parsed:
        row["layers"] = [described(trt, network.get_layer(i)) for i in range(network.num_layers)]
    return row


def ask(paths: List[str]) -> None:
    """The worker: for each path a line that names it, before its library can crash, and its answer."""
    import tensorrt as trt

    class Logger(trt.ILogger):
        def log(self, severity: Any, message: str) -> None:
            if severity <= trt.ILogger.Severity.ERROR:
                print(f"[{severity.name}] {message}", file=sys.stderr)

    logger = Logger()
    trt.init_libnvinfer_plugins(logger, "")
    builder = trt.Builder(logger)
    for path in paths:
        print(json.dumps({"begins": path}), flush=True)
        print(json.dumps({"model": path, **answer_of(trt, logger, builder, path)}), flush=True)


def ask_all(paths: List[str]) -> List[Dict[str, Any]]:
    """Answers for paths, by workers: a new one goes on behind the model that ended the last."""
    rows: List[Dict[str, Any]] = []
    while paths:
        done = subprocess.run([sys.executable, __file__, "--worker"], input="\n".join(paths), capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        answers = [line for line in lines if "model" in line]
        rows += answers
        begun = [line["begins"] for line in lines if "begins" in line]
        if not begun:
            print(done.stderr[-3000:], file=sys.stderr)
            return rows
        if len(begun) > len(answers):
            rows.append({"model": begun[-1], "crashed": done.returncode, "errors": [], "log": done.stderr[-300:]})
        paths = paths[len(begun) :]
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    (parser.add_argument("folder", nargs="?"), parser.add_argument("-o"), parser.add_argument("--jobs", type=int, default=2))
    parser.add_argument("--worker", action="store_true")
    given = parser.parse_args()
    if given.worker:
        ask(sys.stdin.read().splitlines())
        return 0
    start = time.time()
    paths = [os.path.join(at, name) for at, _, names in os.walk(given.folder) for name in names if name.endswith(".onnx")]
    paths.sort()
    with ThreadPoolExecutor(given.jobs) as pool:
        rows = [row for rows in pool.map(ask_all, [paths[i :: given.jobs] for i in range(given.jobs)]) for row in rows]
    for row in rows:
        row["model"] = os.path.relpath(row["model"], given.folder)
    rows.sort(key=lambda row: row["model"])
    with gzip.open(given.o, "wt", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
    crashed = sum("crashed" in row for row in rows)
    print(f"models {len(paths)}, answers {len(rows)}, crashes {crashed}, {time.time() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
