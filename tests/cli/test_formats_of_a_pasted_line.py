"""--inputIOFormats and --outputIOFormats of a pasted trtexec line: `check` and `build` judge alike."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

import onnx
import pytest

from edgedla.cli.main import exit_code_of
from tests.models import node, ones, onnx_model, save

CONV = onnx_model(
    [node("Conv", "x w", "c", pads=[1] * 4), node("Relu", "c", "y")],
    {"x": (1, 3, 16, 16)},
    {"y": (1, 8, 16, 16)},
    [ones("w", 8, 3, 3, 3)],
)
CLASSES = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["" : 17]> net (float[1,8,16,16] x) => (int64[1,1,16,16] y)
    { c = Relu(x) y = ArgMax<axis = 1, keepdims = 1>(c) }""")
ALONE = ("--buildDLAStandalone",)


@pytest.mark.parametrize(
    ("model", "line", "said"),
    [
        (CONV, ("--inputIOFormats=fp16:chw16", *ALONE), ""),
        (CONV, ("--inputIOFormats=fp32:chw",), ""),
        (CONV, ("--inputIOFormats=fp32:chw", *ALONE), "IOFM002"),
        (CONV, ("--outputIOFormats=fp16:dla_hwc4",), "cannot hold 8 channels"),
        (CONV, ("--outputIOFormats=fp16:dla_hwc4", *ALONE), "IOFM003"),
        (CONV, ("--inputIOFormats=fp16:chw,fp16:chw",), "2 input formats for 1 input"),
        (CONV, ("--inputIOFormats=fp16:chw7",), "unknown tensor format"),
        (CONV, ("--inputIOFormats=int8:chw32",), "int8-scale"),
        (CONV, ("--inputIOFormats=fp16:dla_linear", "--trt=11.4.1"), "typed-border"),
        (CLASSES, ("--outputIOFormats=int64:chw",), ""),
        (CLASSES, ("--outputIOFormats=int32:chw",), ""),
        (CLASSES, ("--outputIOFormats=int32:chw32",), "integer-border"),
        (CLASSES, ("--outputIOFormats=fp16:chw",), "integer-border"),
        (CLASSES, ("--outputIOFormats=int8:chw32",), "integer-border: y as INT8 CHW32: the network has INT64"),
    ],
)
def test_check_and_build_judge_formats_alike(
    model: onnx.ModelProto, line: Tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(save(model, tmp_path / "m.onnx"))
    words = ["trtexec", f"--onnx={file}", "--useDLACore=0", "--fp16", *line, "--target", "orin-nx-16gb"]
    if not set(ALONE) & set(line):
        words.append("--allowGPUFallback")
    codes = []
    for verb, more in (("check", ["--fail-on", "never"]), ("build", ["-o", str(tmp_path / "b")])):
        codes.append(exit_code_of([verb, *words, *more]))
        assert said in capsys.readouterr().err
    assert codes == [2 if said else 0] * 2
    assert (tmp_path / "b" / "manifest.json").exists() != bool(said), "a refused build leaves no artifact"
