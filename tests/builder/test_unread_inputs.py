"""Network inputs that nothing reads, in a standalone loadable: `check` and `build` answer alike."""

from __future__ import annotations

from pathlib import Path
from typing import Tuple

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.builder.building import build
from edgedla.builder.request import BuildRequest
from edgedla.errors import BuildError
from tests.models import node, onnx_model


@pytest.mark.parametrize(
    ("dims", "dtype", "rule"),
    [
        ((4,), onnx.TensorProto.FLOAT, "IOFM011"),
        ((1, 4), onnx.TensorProto.FLOAT, "IOFM011"),
        ((1, 4, 8, 8), onnx.TensorProto.INT64, "IOFM012"),
        ((4, 8, 8), onnx.TensorProto.FLOAT, ""),
        ((1, 4, 8, 8), onnx.TensorProto.FLOAT, ""),
    ],
)
def test_check_and_build_agree(dims: Tuple[int, ...], dtype: int, rule: str, tmp_path: Path) -> None:
    image = (1, 8, 16, 16)
    weights = {"w": np.ones((8, 8, 1, 1), "f4")}
    model = onnx_model([node("Conv", "x w", "y")], {"x": image, "unread": dims}, {"y": image}, weights)
    model.graph.input[1].type.tensor_type.elem_type = dtype
    report = edgedla.check(model.SerializeToString(), target="orin", mode="standalone")
    assert report.strict is not None
    assert report.strict.passes is (not rule)
    request = BuildRequest(target="orin", mode="standalone", backend="host")
    if rule:
        assert rule in {f.rule for f in report.strict.findings}
        assert report.strict.beside_findings == ()
        with pytest.raises(BuildError, match="if nothing reads it, remove it"):
            build(model, tmp_path / "a", request)
    else:
        build(model, tmp_path / "a", request)
