"""ONNX Runtime: options of its TensorRT execution provider, and a Python file that runs the model with them.

Options: "TensorRT Execution Provider" of ONNX Runtime's manual.
"""

from __future__ import annotations

import json
from typing import Any, Dict

from edgedla.export.handover import Export, Files, Handover

READ_BY = "ONNX Runtime with the TensorRT execution provider, built for the board's TensorRT"

_RUN = '''"""Runs {name} in ONNX Runtime with the options of provider_options.json, on random input, and says where it ran."""

import json
import os
import sys
from pathlib import Path

# ONNX Runtime 1.29 and later report usage unless this is set before the import.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime as ort

here = Path(__file__).resolve().parent
options = json.loads((here / "provider_options.json").read_text(encoding="utf-8"))
if "trt_engine_cache_path" in options:
    options["trt_engine_cache_path"] = str(here / options["trt_engine_cache_path"])
    Path(options["trt_engine_cache_path"]).mkdir(exist_ok=True)
available = ort.get_available_providers()
providers = [("TensorrtExecutionProvider", options), "CUDAExecutionProvider", "CPUExecutionProvider"]
providers = [p for p in providers if (p if isinstance(p, str) else p[0]) in available]
model = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "{onnx}"
session = ort.InferenceSession(str(model), providers=providers)
kinds = {{"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}}
rng = np.random.default_rng(0)
feed = {{}}
for i in session.get_inputs():
    shape = [d if isinstance(d, int) else 1 for d in i.shape]
    feed[i.name] = (rng.random(shape) * 2).astype(kinds.get(i.type, np.int64))
for o, array in zip(session.get_outputs(), session.run(None, feed)):
    print(o.name, array.dtype, list(array.shape))
print("providers:", ", ".join(session.get_providers()))
if "TensorrtExecutionProvider" not in session.get_providers():
    print("no TensorRT here: nothing of this ran on a DLA")
'''


def export(handover: Handover, number: int = 1) -> Export:
    """provider_options.json and run.py."""
    options: Dict[str, Any] = {"device_id": 0, "trt_fp16_enable": 1}
    files: Files = {}
    missing: Dict[str, str] = {}
    gaps = ["the placement by layer: the provider knows DLA with GPU fallback, no layer's device"]
    if handover.core is not None:
        options.update(trt_dla_enable=1, trt_dla_core=handover.core)
    if handover.core == 1:
        # The provider sets the core where it builds, and not where it loads a cached engine, which then runs on core 0
        # (microsoft/onnxruntime issue 26680).
        options["trt_engine_cache_enable"] = 0
        gaps.append(
            "an engine cache on DLA core 1: ONNX Runtime loads a cached engine onto core 0, so each start builds"
        )
    else:
        options.update(trt_engine_cache_enable=1, trt_engine_cache_path="engine_cache")
    if handover.precision == "int8":
        options.update(
            trt_int8_enable=1,
            trt_int8_calibration_table_name="calibration.cache",
            # TensorRT's own format, which edgedla writes, and not ONNX Runtime's.
            trt_int8_use_native_calibration_table=1,
        )
        if handover.calibration is not None:
            files["calibration.cache"] = handover.calibration
        else:
            missing["calibration.cache"] = "the calibration cache: edgedla quantize MODEL --data DATA -o SCALES"
    if handover.onnx is not None:
        files[handover.onnx_name] = handover.onnx
    else:
        missing[handover.onnx_name] = "the ONNX model (or give it: --onnx)"
    files["provider_options.json"] = json.dumps(options, indent=1) + "\n"
    files["run.py"] = _RUN.format(name=handover.name, onnx=handover.onnx_name)
    if handover.engine is not None:
        gaps.append("the engine that edgedla built: the provider builds its own of the parts that it takes")
    gaps.append("pictures and decoding: sessions take prepared arrays")
    return Export(files, missing, READ_BY, ("python3 run.py",), tuple(gaps))
