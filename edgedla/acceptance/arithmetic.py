"""P14: which arithmetic the DLA uses where tensor types decide: one stack of 3x3 convolutions in FP16, INT8 Q/DQ and UINT8 Q/DQ, timed.

INT8 on Orin's DLA is some ten times as fast as FP16: Q/DQ that only stores in INT8 shows as FP16's time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.tensorrt.bindings import installed_version
from edgedla.builder.trtexec.options import options_of
from edgedla.builder.trtexec.script import DEFAULT_TRTEXEC

#: Form -> options of trtexec that it needs, where the release has them.
FORMS: Mapping[str, List[str]] = {
    "fp16": [],
    "int8 Q/DQ": ["--adjustForDLA"],
    "uint8 Q/DQ": ["--adjustForDLA", "--uint8AsymmetricQuantizationDLA"],
}
#: Layers, channels and side of the stack: large enough that arithmetic outweighs the start of a loadable.
LAYERS, CHANNELS, SIDE = 8, 128, 56
LIMIT_S = 120
_MEDIAN = re.compile(r"Latency:.*?median = ([\d.]+) ms")


def arithmetic(context: Context) -> List[Finding]:
    """P14: builds and times each form with the board's trtexec, without GPU fallback where it builds so."""
    version = installed_version()
    if version is None or int(version.split(".")[0]) < 11:
        raise Skip("up to TensorRT 10 the builder's flags decide, not tensor types")
    program = os.environ.get("TRTEXEC") or shutil.which("trtexec") or DEFAULT_TRTEXEC
    if not Path(program).exists():
        raise Skip(f"no {program} (package libnvinfer-bin)")
    known = options_of(tuple(int(n) for n in version.split(".")[:3]))
    findings: List[Finding] = []
    medians: Dict[str, float] = {}
    for form, options in FORMS.items():
        path = Path(context.work) / f"stack-{form.split()[0]}.onnx"
        onnx.save(stack(form), str(path))
        needed = [option for option in options if option in known]
        for fallback in ([], ["--allowGPUFallback"]):
            command = [program, f"--onnx={path}", "--useDLACore=0", *fallback, *needed, "--iterations=50"]
            median, log = _timed(command)
            name = f"{form}{' with fallback' if fallback else ''}"
            (Path(context.files) / f"{name.replace(' ', '-').replace('/', '')}.log").write_text(log, encoding="utf-8")
            text = "refused" if median is None else f"built, {median} ms"
            findings.append(Finding(name, text, None, "rules/layers/quantize.yaml", {"median_ms": median}))
            if median is not None:
                medians[form] = median
                break
    for form in ("int8 Q/DQ", "uint8 Q/DQ"):
        if form in medians and "fp16" in medians:
            ratio = medians["fp16"] / max(medians[form], 1e-6)
            findings.append(Finding(f"{form} against fp16", f"{ratio:.2f} times as fast", None, "", {"ratio": ratio}))
    return findings


def _timed(command: List[str]) -> Tuple[Optional[float], str]:
    """(median latency in ms as trtexec states it, None where it did not build; its log)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"no end within {LIMIT_S} s"
    log = done.stdout + done.stderr
    found = _MEDIAN.search(log)
    return (float(found[1]) if done.returncode == 0 and found else None), log


def stack(form: str) -> Any:
    """LAYERS 3x3 convolutions of CHANNELS channels; with Q/DQ on every tensor and every weight, by the rules of each form.

    INT8: zero points 0, FP16 scales (operator set 19). UINT8: zero point 128 for activations, FLOAT scales (operator set 13).
    """
    half = form != "uint8 Q/DQ"
    kind, dtype = (TensorProto.FLOAT16, np.float16) if half else (TensorProto.FLOAT, np.float32)
    zero = {"int8 Q/DQ": np.int8(0), "uint8 Q/DQ": np.uint8(128)}.get(form)
    rng = np.random.default_rng(7)
    nodes, constants, shape = [], [], [1, CHANNELS, SIDE, SIDE]

    def constant(name: str, value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def quantised(source: str, scale: float) -> str:
        if zero is None:
            return source
        ends = [constant(f"{source}_s", dtype(scale)), constant(f"{source}_z", zero)]
        nodes.append(helper.make_node("QuantizeLinear", [source, *ends], [f"{source}_q"], name=f"{source}_quantize"))
        nodes.append(
            helper.make_node("DequantizeLinear", [f"{source}_q", *ends], [f"{source}_d"], name=f"{source}_dequantize")
        )
        return f"{source}_d"

    at = quantised("x", 0.03)
    for i in range(LAYERS):
        weights = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / np.sqrt(9 * CHANNELS)
        if zero is None:
            read = constant(f"w{i}", weights.astype(dtype))
        else:
            steps = np.max(np.abs(weights), axis=(1, 2, 3)) / 127
            ends = [constant(f"w{i}_s", steps.astype(dtype)), constant(f"w{i}_z", np.zeros(CHANNELS, np.int8))]
            whole = constant(
                f"w{i}", np.clip(np.round(weights / steps[:, None, None, None]), -127, 127).astype(np.int8)
            )
            nodes.append(
                helper.make_node("DequantizeLinear", [whole, *ends], [f"w{i}_d"], name=f"w{i}_dequantize", axis=0)
            )
            read = f"w{i}_d"
        made = f"y{i}" if i < LAYERS - 1 or zero is not None else "y"
        nodes.append(helper.make_node("Conv", [at, read], [made], name=f"conv{i}", pads=[1, 1, 1, 1]))
        at = quantised(made, 0.03)
    if zero is not None:
        nodes[-1].output[0] = "y"
    inputs, outputs = ([helper.make_tensor_value_info(n, kind, shape)] for n in ("x", "y"))
    graph = helper.make_graph(nodes, "stack", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19 if half else 13)], ir_version=9)
