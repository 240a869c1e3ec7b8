"""Proofs of the whole network: what they read, and of which networks there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.errors import DataError
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


def test_a_network_of_nan_is_not_proven(tmp_path: Path) -> None:
    """The root of a negative number is NaN before and after: equal, and nothing is shown."""
    nodes = [node("Div", "x two", "h"), node("Sub", "h big", "n"), node("Sqrt", "n", "y")]
    constants = {"two": np.array([2], np.float32), "big": np.array([1e6], np.float32)}
    path = save(onnx_model(nodes, constants=constants), tmp_path / "m.onnx")
    found = edgedla.fix(path, target="agx-orin-64gb", purpose="strict")
    assert found.applied
    assert found.network.within is None
    assert found.network.detail == "output y is NaN on sample 1, before any rewrite: nothing is shown"
    shape = tuple(d.dim_value for d in onnx.load(str(path)).graph.input[0].type.tensor_type.shape.dim)
    np.save(tmp_path / "x.npy", np.ones((2, *shape[1:]), np.float32))
    with pytest.raises(DataError, match="output y is NaN on sample 1"):
        edgedla.fix(path, target="agx-orin-64gb", purpose="strict", data=tmp_path / "x.npy")
