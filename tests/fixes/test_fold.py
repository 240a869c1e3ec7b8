"""A node that cannot be evaluated is tried in one round only."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx_ir as ir
import pytest

from edgedla.fixes import fold
from edgedla.quantization import session
from tests.models import node, onnx_model


def test_constants_that_cannot_be_folded_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Six elements make no row of four; the Neg is evaluated all the same.
    count = 5
    nodes = [node("Reshape", "six four", f"r{i}") for i in range(count)]
    nodes += [node("Neg", "six", "m"), node("Sum", f"x m {' '.join(f'r{i}' for i in range(count))}", "y")]
    constants = {"six": np.ones(6, np.float32), "four": np.array([1, 4], np.int64)}
    model = ir.from_proto(onnx_model(nodes, {"x": (1, 6)}, {"y": None}, constants))
    opened: List[bytes] = []
    open_session = session.open_session

    def counted(data: bytes, **options: Any) -> Any:
        opened.append(data)
        return open_session(data, **options)

    monkeypatch.setattr(session, "open_session", counted)
    assert fold.fold_constants(model) == 1
    assert [n.op_type for n in model.graph] == ["Reshape"] * count + ["Sum"]
    # All at once and each alone; then, without the one that became a constant, all and each again.
    assert len(opened) == (1 + count + 1) + (1 + count)


def test_an_unnamed_shape_applies_to_the_only_input() -> None:
    model = ir.from_proto(onnx_model([node("Relu", "x", "y")]))
    fold.set_shapes(model, {"": (1, 3, 4, 4)}, None)
    assert list(model.graph.inputs[0].shape or []) == [1, 3, 4, 4]
