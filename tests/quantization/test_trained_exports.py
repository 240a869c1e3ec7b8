"""Exports of other libraries after INT8 training, made by benchmarks/train/third_party_qat.py: read, built, and equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.accuracy.evaluate import open_network
from edgedla.accuracy.translate import translate
from edgedla.builder.request import BuildRequest
from edgedla.targets import platform_for

EXPORTS = Path(__file__).resolve().parents[1] / "data" / "qat"
#: Library -> (layers in FP16 because the library gave them no scale, largest relative L2 error of its own outputs).
LIBRARIES: Dict[str, Any] = {"torchao": (3, 0.02), "modelopt": (5, 0.02)}


@pytest.mark.parametrize("library", LIBRARIES)
def test_qat_exports_build_to_artifacts_with_equal_outputs(library: str, tmp_path: Path) -> None:
    half, tolerance = LIBRARIES[library]
    result = translate(onnx.load(str(EXPORTS / f"{library}.onnx")), platform_for("agx-orin-64gb"))
    assert result.form == "cache"
    assert len(result.fp16_layers) == half
    result.save(tmp_path)
    request = BuildRequest(target="agx-orin-64gb", precision="int8", calib=tmp_path, backend="host")
    edgedla.build(str(tmp_path / "model.onnx"), tmp_path / "artifact", request)
    stored = np.load(EXPORTS / f"{library}.npz")
    found = open_network(tmp_path / "artifact").run({"x": stored["x"]})["y"]
    assert np.linalg.norm(found - stored["y"]) / np.linalg.norm(stored["y"]) < tolerance
