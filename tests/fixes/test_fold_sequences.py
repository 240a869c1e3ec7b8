"""Constants that are sequences are not folded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from edgedla.cli.main import exit_code_of
from tests.hostile.nasty_models import model

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx_ir", reason="onnx-ir is not installed")


def test_a_sequence_output_of_constants_exits_with_3(tmp_path: Path) -> None:
    nodes = [helper.make_node("SequenceConstruct", ["k", "k"], ["s"]), helper.make_node("Relu", ["x"], ["y"])]
    # Both outputs are read by a later node, so that the sequence is asked for.
    nodes.append(helper.make_node("SequenceInsert", ["s", "y"], ["z"]))
    net = model(nodes, constants=[numpy_helper.from_array(np.ones(3, np.float32), "k")])
    net.graph.output.append(helper.make_tensor_sequence_value_info("z", TensorProto.FLOAT, None))
    save(net, str(tmp_path / "m.onnx"))
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run", "--no-prove"]) == 3
