"""Forms of INT8 scales: Q/DQ to cache to Q/DQ on models of three tools, caches of five releases, coverage of real networks.

    python benchmarks/bench_quantize_forms.py [--trained FOLDER] [--nets FOLDER] [--out FILE]

--trained: a folder of ONNX models with an input x of 3 channels, which ONNX Runtime and, where it is installed, ModelOpt
quantise here; PyTorch, where it is installed, exports a small network with fake quantisation. A row per model: `equal` is true
where the network with Q/DQ and the one that came back through a cache of each release give the same bits. --nets: a folder of
ONNX files, weights not needed: every tensor that a layer reads or writes has to have a scale. Exits with 1 where a row does not
hold, and where there is none.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import onnx
from join_rows import write
from provenance import provenance

from edgedla.errors import ModelError
from edgedla.importers import load_onnx
from edgedla.importers.model_file.tensor_types import float_activations
from edgedla.quantization.calibration_cache import parse_cache, write_cache
from edgedla.quantization.coverage import coverage
from edgedla.quantization.qdq import strip_qdq, with_qdq
from edgedla.quantization.session import open_session
from edgedla.quantization.unify import dla_scales
from edgedla.targets import platform_for

RELEASES = ((8, 4, 1), (8, 5, 2), (8, 6, 1), (10, 0, 0), (10, 3, 0))


def inputs(model: Any, count: int) -> np.ndarray:
    dims = [d.dim_value or 1 for d in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(7).standard_normal((count, *dims[1:])).astype(np.float32)


def by_onnxruntime(path: Path, folder: Path) -> Tuple[str, Path]:
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    model = onnx.load(str(path))
    feeds = [{model.graph.input[0].name: x[None]} for x in inputs(model, 8)]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(feeds)

        def get_next(self) -> Any:
            return next(self.rest, None)

    out = folder / f"{path.stem}_ort.onnx"
    quantize_static(
        str(path),
        str(out),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
    )
    return f"ONNX Runtime {onnxruntime.__version__}", out


def by_modelopt(path: Path, folder: Path) -> Tuple[str, Path]:
    import modelopt
    from modelopt.onnx.quantization import quantize

    model = onnx.load(str(path))
    out = folder / f"{path.stem}_modelopt.onnx"
    quantize(
        str(path),
        quantize_mode="int8",
        calibration_data={model.graph.input[0].name: inputs(model, 8)},
        calibration_method="max",
        calibration_eps=["cpu"],
        high_precision_dtype="fp32",
        output_path=str(out),
    )
    return f"ModelOpt {modelopt.__version__}", out


def by_torch(folder: Path) -> Tuple[str, Path]:
    import torch

    def weights(values: Any) -> Any:
        scale = values.detach().abs().amax((1, 2, 3)) / 127
        zeros = torch.zeros(len(values), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(values, scale, zeros, 0, -128, 127)

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3)

        def forward(self, x: Any) -> Any:
            rounded, conv = torch.fake_quantize_per_tensor_affine, torch.nn.functional.conv2d
            x = rounded(x, 0.03, 0, -128, 127)
            x = rounded(torch.relu(conv(x, weights(self.a.weight), self.a.bias, padding=1)), 0.02, 0, -128, 127)
            return rounded(conv(x, weights(self.b.weight), self.b.bias), 0.05, 0, -128, 127)

    torch.manual_seed(0)
    out = folder / "torch.onnx"
    torch.onnx.export(
        Net().eval(),
        (torch.zeros(1, 3, 16, 16),),
        str(out),
        opset_version=17,
        dynamo=False,
        input_names=["x"],
        output_names=["y"],
    )
    return f"PyTorch {torch.__version__}", out


def made(trained: Path, folder: Path) -> Iterator[Tuple[str, str, Path]]:
    """(tool, network, path), or (tool, why there is none, no path)."""
    paths = sorted(trained.glob("*.onnx"))
    for make, name in ((by_onnxruntime, "ONNX Runtime"), (by_modelopt, "ModelOpt")):
        for path in paths:
            try:
                tool, out = make(path, folder)
                yield tool, path.stem, out
            except ImportError as e:
                yield name, f"not installed: {e.name}", Path()
                break
    try:
        tool, out = by_torch(folder)
        yield tool, "two convolutions", out
    except ImportError as e:
        yield "PyTorch", f"not installed: {e.name}", Path()


def round_trip(path: Path) -> Dict[str, Any]:
    model = onnx.load(str(path))
    try:
        stripped = strip_qdq(model)
    except ModelError as e:
        return {"equal": False, "refused": str(e)[:200]}
    feed = {model.graph.input[0].name: inputs(model, 1)}
    want = open_session(model.SerializeToString()).run(None, feed)
    equal = {}
    for trt in RELEASES:
        absmax = parse_cache(write_cache(stripped.absmax, trt)).absmax
        back = with_qdq(stripped.model, dict(absmax))
        got = open_session(back.SerializeToString()).run(None, feed)
        equal[".".join(map(str, trt))] = all(np.array_equal(w, g) for w, g in zip(want, got))
    return {
        "pairs": stripped.pairs,
        "weights": stripped.weights,
        "fp16_nodes": len(stripped.fp16_nodes),
        "releases": equal,
        "equal": all(equal.values()),
    }


def covered(path: Path) -> Dict[str, Any]:
    """Every float activation measured, as `quantize` measures it; which tensors of TensorRT's layers have no scale then."""
    platform = platform_for("agx-orin-64gb", trt="10.3")
    graph = load_onnx(path, trt=platform.release.trt)
    names = float_activations(onnx.load(str(path), load_external_data=False))
    found = coverage(graph, dla_scales(graph, dict.fromkeys(names, 1.0), platform))
    return {"counts": dict(found.counts), "missing": [t.tensor for t in found.missing], "whole": not found.missing}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", type=Path)
    parser.add_argument("--nets", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    trips: List[Dict[str, Any]] = []
    nets: List[Dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for tool, network, path in made(options.trained, Path(folder)) if options.trained else ():
            trips.append({"tool": tool, "network": network, **(round_trip(path) if path.name else {})})
            print(json.dumps(trips[-1]), flush=True)
    for path in sorted(options.nets.glob("*.onnx")) if options.nets else ():
        nets.append({"network": path.stem, **covered(path)})
        print(json.dumps(nets[-1]), flush=True)
    if options.out:
        versions = provenance(("numpy", "onnx", "onnxruntime", "nvidia-modelopt", "torch"))
        write(options.out, {"basis": "measured", **versions, "round_trips": trips, "coverage": nets})
    held = [row["equal"] for row in trips if "equal" in row] + [row["whole"] for row in nets]
    return int(not held or not all(held))


if __name__ == "__main__":
    sys.exit(main())
