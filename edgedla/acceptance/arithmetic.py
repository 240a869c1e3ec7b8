"""P14: which arithmetic the DLA uses where tensor types decide: one stack of 3x3 convolutions in FP16, INT8 Q/DQ and UINT8 Q/DQ, timed.

INT8 on Orin's DLA is some ten times as fast as FP16: Q/DQ that only stores in INT8 shows as FP16's time.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgedla.acceptance.builds import own_trtexec
from edgedla.acceptance.steps import Context
from edgedla.acceptance.values import Finding, Skip
from edgedla.builder.tensorrt.bindings import installed_version
from edgedla.builder.tensorrt.log_causes import read_log
from edgedla.builder.trtexec.options import options_of
from edgedla.importers.model_file.float16_types import in_float16
from edgedla.quantization.qdq import with_qdq

#: Form -> options of trtexec that it needs, where the release has them.
FORMS: Mapping[str, List[str]] = {
    "fp16": [],
    "int8 Q/DQ": ["--adjustForDLA"],
    "uint8 Q/DQ": ["--adjustForDLA", "--uint8AsymmetricQuantizationDLA"],
}
#: Layers, channels and side of the stack: large enough that arithmetic outweighs the start of a loadable.
LAYERS, CHANNELS, SIDE = 8, 128, 56
#: Of every tensor: values behind 3x3 convolutions of standard normal ones keep their size.
RANGE = 3.8
LIMIT_S = 120
_MEDIAN = re.compile(r"Latency:.*?median = ([\d.]+) ms")


def arithmetic(context: Context) -> List[Finding]:
    """P14: builds and times each form with the board's trtexec, without GPU fallback where it builds so."""
    version = installed_version()
    if version is None or int(version.split(".")[0]) < 11:
        raise Skip("up to TensorRT 10 the builder's flags decide, not tensor types")
    program = own_trtexec()
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
            lists = read_log(log)
            # With fallback the GPU may compute it: its time says nothing of the DLA.
            on_gpu = {conv for layer in lists.gpu_layers for conv in re.findall(r"conv\d+", layer.name)}
            placed = f"{len(on_gpu)} of {LAYERS} convolutions on the GPU" if lists.has_dla else "its log places no layer"
            text = "refused" if median is None else f"built, {median} ms" + (f", {placed}" if fallback else "")
            findings.append(Finding(name, text, None, "rules/layers/quantize.yaml", {"median_ms": median}))
            if median is not None and (not fallback or (lists.dla_layers and not on_gpu)):
                medians[form] = median
            if median is not None:
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
    """LAYERS 3x3 convolutions of CHANNELS channels; Q/DQ on every tensor and every weight, as `edgedla quantize --qdq-form` writes it."""
    rng = np.random.default_rng(7)
    names = ["x", *(f"y{i}" for i in range(LAYERS - 1)), "y"]
    nodes, weights = [], []
    for i, (source, made) in enumerate(zip(names, names[1:])):
        nodes.append(helper.make_node("Conv", [source, f"w{i}"], [made], name=f"conv{i}", pads=[1, 1, 1, 1]))
        values = rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / np.sqrt(9 * CHANNELS)
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{i}"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, CHANNELS, SIDE, SIDE]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], weights)
    plain = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13 if form == "uint8 Q/DQ" else 19)], ir_version=9)
    if form == "uint8 Q/DQ":
        return with_qdq(plain, dict.fromkeys(names, RANGE), unsigned=True)
    halved = in_float16(plain, own_ends=False)
    assert halved is not None
    return halved.model if form == "fp16" else with_qdq(halved.model, dict.fromkeys(names, RANGE), half=True)
