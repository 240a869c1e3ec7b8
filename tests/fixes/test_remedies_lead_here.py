"""The remedy that `check` names for a refused layer, and that its rewrite brings the layer to the DLA."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from tests.models import node, onnx_model, save

INT8 = {"target": "agx-orin-64gb", "trt": "10.3", "precision": "int8"}


def weights(**dims: Any) -> Dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in dims.items()}


def conv(inputs: str, output: str) -> Any:
    return node("Conv", inputs, output, pads=[1, 1, 1, 1])


DILATED = onnx_model(
    [
        conv("x w1", "a"),
        node("Relu", "a", "b"),
        node("ConvTranspose", "b w2", "c", strides=[2, 2], dilations=[2, 2]),
        conv("c w3", "y"),
    ],
    {"x": (1, 16, 32, 32)},
    {"y": (1, 16, 67, 67)},
    weights(w1=(64, 16, 3, 3), w2=(64, 32, 3, 3), w3=(16, 32, 3, 3)),
)
LONE = onnx_model(
    [conv("x w1", "a"), node("Relu", "a", "b"), node("Concat", "b", "c", axis=1), conv("c w2", "y")],
    {"x": (1, 16, 32, 32)},
    {"y": (1, 16, 32, 32)},
    weights(w1=(64, 16, 3, 3), w2=(16, 64, 3, 3)),
)
PATCHES = onnx_model(
    [node("Conv", "x w1", "a", strides=[16, 16]), node("Relu", "a", "b"), conv("b w2", "y")],
    {"x": (1, 3, 224, 224)},
    {"y": (1, 64, 14, 14)},
    weights(w1=(64, 3, 16, 16), w2=(64, 64, 3, 3)),
)


@pytest.mark.parametrize(
    ("model", "rule", "remedy", "purpose"),
    [
        (DILATED, "DECV010", "kernel-with-zeros", "hybrid"),
        (LONE, "CONC002", "no-lone-concat", "hybrid"),
        # Predicted slower there; a strict build needs it.
        (PATCHES, "CONV006", "split-stride", "strict"),
    ],
)
def test_the_remedy_that_check_names_makes_the_layer_accepted(
    model: Any, rule: str, remedy: str, purpose: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, fixed = tmp_path / "model.onnx", tmp_path / "fixed.onnx"
    save(model, path)
    refused = [f for layer in edgedla.check(path, **INT8).layers for f in layer.findings if str(f.effect) == "reject"]
    assert [(f.rule, f.fixes) for f in refused] == [(rule, (remedy,))]
    mode = ["--mode", "strict"] if purpose == "strict" else []
    exit_code_of(["check", str(path), "--target", "agx-orin-64gb", "--precision", "int8", *mode])
    shown = capsys.readouterr().out
    assert f"({remedy}, by `edgedla fix`: " in " ".join(shown.split())
    assert "`edgedla fix" in shown
    arguments = ["fix", str(path), "-o", str(fixed), "--only", remedy, "--target", "agx-orin-64gb", "--precision", "int8"]
    assert exit_code_of([*arguments, "--for", purpose]) == 0
    assert {str(layer.support) for layer in edgedla.check(fixed, **INT8).layers} == {"dla"}
