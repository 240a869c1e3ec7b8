"""Layers off the DLA by remedy: the first screen names the same one as every other form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import edgedla
from edgedla.regions.values import FixGain
from edgedla.reports import layer_groups, words
from edgedla.reports.check.refusals import by_remedy
from edgedla.reports.check.text import one_line, screen
from edgedla.rules.verdict import Effect
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


def test_what_refuses_is_named_before_what_no_rule_decides() -> None:
    model = onnx_model([node("HardSigmoid", "x", "y")])
    report = edgedla.check(model, target="orin")
    (layer,) = report.layers
    refusal = next(f for f in layer.findings if f.effect is Effect.REJECT)
    # What no remedy moves, and only a board decides.
    unknown = replace(refusal, rule="CONV099", effect=Effect.UNKNOWN, message="a board decides", fixes=("board-decides",))
    (group,) = by_remedy(replace(report, layers=(replace(layer, findings=(unknown, refusal)),)))
    assert (group.rules[0], group.message) == (refusal.rule, refusal.message)
    assert group.remedy in refusal.fixes


def test_the_line_of_quiet_says_what_fix_gains_where_the_screen_does() -> None:
    weights = {"w": np.ones((64, 64, 3, 3), np.float32)}
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("HardSigmoid", "a", "b"),
        node("Conv", "b w", "y", pads=[1, 1, 1, 1]),
    ]
    report = edgedla.check(onnx_model(nodes, {"x": (1, 64, 32, 32)}, {"y": (1, 64, 32, 32)}, weights), target="orin", cost=True)
    pays = replace(report, fix_gain=FixGain(True, 10.0))
    (told,) = (line for _, _, line in screen(pays, "m.onnx") if line.startswith("`edgedla fix` brings a frame from"))
    assert one_line(pays).endswith(f"; {told[:-1]}")
    assert "edgedla fix" not in one_line(replace(report, fix_gain=FixGain(False, None)))
