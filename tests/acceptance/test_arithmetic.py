"""P14: three forms of one stack; its models are sound and compute the same, and a fake trtexec's times show the arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from edgedla.acceptance import arithmetic
from edgedla.acceptance.builds import own_trtexec
from edgedla.acceptance.steps import STEPS, Context
from edgedla.acceptance.values import Skip
from edgedla.quantization.session import open_session

TRTEXEC = """#!/bin/sh
case "$*" in
  *stack-int8*allowGPUFallback*)
    echo "[I] [TRT] ---------- Layers Running on DLA ----------"
    echo "[I] [TRT] [DlaLayer] {ForeignNode[conv0...$LAST]}"
    echo "[I] [TRT] ---------- Layers Running on GPU ----------"
    echo "[I] [TRT] [GpuLayer] $OTHERS"
    echo "[I] Latency: min = 0.4 ms, max = 1 ms, mean = 0.5 ms, median = 0.5 ms, percentile(90%) = 1 ms";;
  *stack-int8*) exit 1;;
  *stack-uint8*uint8AsymmetricQuantizationDLA*) echo "[I] Latency: min = 4.9 ms, mean = 5 ms, median = 5 ms";;
  *stack-uint8*) exit 1;;
  *) echo "[I] Latency: min = 4.9 ms, mean = 5 ms, median = 5 ms";;
esac
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LAYERS", 2), ("CHANNELS", 8), ("SIDE", 8)):
        monkeypatch.setattr(arithmetic, name, value)


@pytest.fixture
def trtexec(tmp_path: Path) -> Path:
    """The program of TRTEXEC, in a folder of its own."""
    program = tmp_path / "trtexec"
    program.write_text(TRTEXEC)
    program.chmod(0o755)
    return program


def test_the_forms_are_sound_and_compute_the_same() -> None:
    results = {}
    for form in arithmetic.FORMS:
        model = arithmetic.stack(form)
        onnx.checker.check_model(model, full_check=True)
        x = np.random.default_rng(0).standard_normal((1, 8, 8, 8))
        kind = np.float32 if form == "uint8 Q/DQ" else np.float16
        results[form] = open_session(model.SerializeToString()).run(["y"], {"x": x.astype(kind)})[0].astype(np.float64)
    for form in ("int8 Q/DQ", "uint8 Q/DQ"):
        assert np.linalg.norm(results[form] - results["fp16"]) < 0.15 * np.linalg.norm(results["fp16"])


def test_times_show_which_form_is_faster(trtexec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTEXEC", str(trtexec))
    monkeypatch.setenv("LAST", "conv1")
    monkeypatch.setenv("OTHERS", "CAST: x_cast")
    monkeypatch.setattr(arithmetic, "installed_version", lambda: "11.4.1")
    context = Context(str(tmp_path), str(tmp_path), False, "")
    seen = {f.name: f.seen for f in arithmetic.arithmetic(context)}
    assert (seen["int8 Q/DQ"], seen["int8 Q/DQ with fallback"]) == ("refused", "built, 0.5 ms, 0 of 2 convolutions on the GPU")
    assert (seen["int8 Q/DQ against fp16"], seen["uint8 Q/DQ against fp16"]) == ("10.00 times as fast", "1.00 times as fast")
    monkeypatch.setenv("OTHERS", "CONVOLUTION: conv1")
    seen = {f.name: f.seen for f in arithmetic.arithmetic(context)}
    assert seen["int8 Q/DQ with fallback"] == "built, 0.5 ms, 1 of 2 convolutions on the GPU"
    assert "int8 Q/DQ against fp16" not in seen
    monkeypatch.setattr(arithmetic, "installed_version", lambda: "10.3.0")
    with pytest.raises(Skip):
        arithmetic.arithmetic(context)
    assert STEPS["P14"].function == "edgedla.acceptance.arithmetic:arithmetic"


def test_trtexec_is_found_on_the_path_as_scripts_find_it(trtexec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRTEXEC", raising=False)
    monkeypatch.setenv("PATH", str(trtexec.parent))
    assert own_trtexec() == str(trtexec)
    trtexec.unlink()
    with pytest.raises(Skip, match="libnvinfer-bin"):
        own_trtexec()
