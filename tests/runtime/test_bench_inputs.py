"""Inputs that `bench` generates: of every type, and acceptable to any network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from edgedla.cli.main import exit_code_of
from tests.models import save


def test_random_indices_stay_within_the_gathered_table(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> net (int64[1,4] ids, int32[1,4] more, bool[1,4] mask) => (float[1,4,8] y)'
        "{ a = Gather(table, ids) b = Gather(table, more) s = Add(a, b) k = Cast<to = 1>(mask) one = Constant<value_ints = [2]>() "
        "u = Unsqueeze(k, one) y = Mul(s, u) }"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((2, 8), np.float32), "table"))
    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.INT64
    save(model, tmp_path / "m.onnx")
    artifact = str(tmp_path / "a")
    assert exit_code_of(["build", str(tmp_path / "m.onnx"), "-o", artifact]) == 0
    assert exit_code_of(["bench", artifact, "--iterations", "3", "--duration", "0.01"]) == 0
