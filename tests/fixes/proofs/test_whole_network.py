"""Proofs of the whole network: of which networks there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgedla
from tests.models import node, onnx_model, save

pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")


def test_a_network_that_draws_random_numbers_is_proven_site_by_site_alone(tmp_path: Path) -> None:
    nodes = [node("Div", "x two", "h"), node("RandomNormalLike", "h", "n"), node("Add", "h n", "y")]
    path = save(onnx_model(nodes, constants={"two": np.array([2], np.float32)}), tmp_path / "m.onnx")
    found = edgedla.fix(path, target="agx-orin-64gb", purpose="strict")
    assert found.applied
    assert all(site.proof.status == "proved" for site in found.applied)
    assert found.network.within is None
    assert found.network.detail == "not run: it draws random numbers (RandomNormalLike)"
