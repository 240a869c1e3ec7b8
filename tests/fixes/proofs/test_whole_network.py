"""Proofs of the whole network: what they read, and of which networks there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgedla
from tests.models import node, onnx_model, save

pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")


def test_a_network_with_random_operators_is_proven_per_site_only(tmp_path: Path) -> None:
    nodes = [node("Div", "x two", "h"), node("RandomNormalLike", "h", "n"), node("Add", "h n", "y")]
    path = save(onnx_model(nodes, constants={"two": np.array([2], np.float32)}), tmp_path / "m.onnx")
    found = edgedla.fix(path, target="agx-orin-64gb", purpose="strict")
    assert found.applied
    assert all(site.proof.status == "proved" for site in found.applied)
    assert found.network.within is None
    assert found.network.detail == "not run: it draws random numbers (RandomNormalLike)"


def test_an_empty_constant_in_an_external_file_is_read(tmp_path: Path) -> None:
    """Exporters put the empty regions of a Resize there too."""
    constants = {"two": [2], "none": [], "sizes": [1, 1, 2, 2]}
    nodes = [node("Div", "x two", "h"), node("Resize", "h none sizes", "y")]
    model = onnx_model(nodes, constants={k: np.array(v, np.float32) for k, v in constants.items()})
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    found = edgedla.fix(tmp_path / "m.onnx", target="agx-orin-64gb", purpose="strict")
    assert found.applied
    assert found.network.within
