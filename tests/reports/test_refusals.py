"""Layers off the DLA by remedy: the first screen names the same one as every other form."""

from __future__ import annotations

import edgedla
from edgedla.reports import layer_groups, words
from edgedla.reports.check.text import screen
from tests.models import node, onnx_model


def test_a_product_of_two_activations_says_to_leave_it_to_the_gpu() -> None:
    model = onnx_model([node("Sigmoid", "x", "a"), node("Tanh", "x", "b"), node("MatMul", "a b", "y")])
    report = edgedla.check(model, target="orin")
    (group,) = layer_groups.refused(report)
    (remedies,) = {entry.fixes for entry in group.entries}
    text = "\n".join(line for _, _, line in screen(report, "m.onnx"))
    assert remedies == ("product-on-gpu",)
    assert f"{words.fix_text(report, remedies)} (1 layer refused, MATM001)" in text
    assert "No remedy is known" not in text
