"""rules/fixes.yaml: the list of remedies and rewrites, and the document generated from it."""

from __future__ import annotations

import re
from typing import Tuple

import numpy as np
import pytest

from edgedla.errors import UsageError
from edgedla.importers import load_onnx
from edgedla.io.data import rules_dir
from edgedla.regions import check_graph
from edgedla.rules.docs import all_rules, explain
from edgedla.rules.remedies import fixes_markdown, remedies, rewrite_entries, rewrites_named
from edgedla.targets import platform_for
from tests.models import node, onnx_model


def test_fixes_md_is_up_to_date():
    path = rules_dir() / "FIXES.md"
    assert path.read_text(encoding="utf-8") == fixes_markdown(), "run: edgedla fix --list --format markdown > rules/FIXES.md"


def test_rules_named_by_a_rewrite_exist_and_name_its_remedy():
    """What `check` names as the next command follows from the remedies of a rule, not from the words of `helps`."""
    rules = {rule.id: rule for rule in all_rules()}
    astray = []
    for entry in rewrite_entries().values():
        for rule in re.findall(r"\b[A-Z]{3,4}[0-9]{3}\b", entry.helps):
            named = {r for fix in rules[rule].fixes for r in remedies()[fix].rewrites} if rule in rules else set()
            astray += [] if entry.id in named else [f"{entry.id} helps {rule}"]
    assert astray == [], "no such rule, or none of its remedies lists the rewrite: add it to `rewrites` of one (rules/fixes.yaml)"


def test_a_remedy_id_expands_to_its_rewrites():
    assert rewrites_named(["average-pool", "int32-slice"], "--only") == (*remedies()["average-pool"].rewrites, "int32-slice")


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean int32-slice") as caught:
        rewrites_named(["int32-slices"], "--only")
    assert (caught.value.where, caught.value.allowed) == ("--only", "ids of `edgedla fix --list`")
    with pytest.raises(UsageError, match="no rewrite does 'smaller-batch' yet"):
        rewrites_named(["smaller-batch"], "--only")


def test_explaining_a_rule_names_the_command():
    assert "edgedla fix MODEL -o OUT --only average-pool" in explain("REDU001")


@pytest.mark.parametrize(("size", "fixes"), [(28, ("centre-tap",)), (64, ())])
def test_a_dilation_as_large_as_the_map_has_the_centre_tap_remedy(size: int, fixes: Tuple[str, ...]) -> None:
    """`edgedla fix` moves it to the DLA, and `check` said that no remedy is known."""
    weights = {"w": np.ones((4, 8, 3, 3), np.float32)}
    conv = node("Conv", "x w", "y", dilations=[36, 36], pads=[36] * 4)
    graph = load_onnx(onnx_model([conv], {"x": (1, 8, size, size)}, {"y": None}, weights))
    (layer,) = check_graph(graph, platform_for("orin"), "fp16").layers
    assert [f.fixes for f in layer.findings if f.rule == "CONV007"] == [fixes]


def test_all_rules_on_comparisons_have_the_same_remedy() -> None:
    """One without a remedy made the layer one that nothing helps, though it is the comparison that has to go."""
    rules = {rule.id: rule for rule in all_rules()}
    assert [tuple(rules[name].fixes) for name in ("ELEM003", "ELEM004", "ELEM005", "CAST002")] == [("reconstruct",)] * 4


def _conv(dilation: int) -> object:
    return node("Conv", "x w", "y", dilations=[dilation] * 2, pads=[dilation] * 4)


@pytest.mark.parametrize(
    ("operator", "rule", "fixes"),
    [
        (node("HardSigmoid", "x", "y"), "ACT001", ("clip-for-hard-sigmoid",)),
        (node("Elu", "x", "y"), "ACT001", ("relu-family",)),
        (node("Erf", "x", "y"), "UNRY002", ("sigmoid-for-gelu", "end-early")),
        (
            node("AveragePool", "x", "y", kernel_shape=[17, 17], pads=[8] * 4, count_include_pad=1),
            "POOL004",
            ("average-by-convolution",),
        ),
        (node("AveragePool", "x", "y", kernel_shape=[9, 9]), "POOL003", ("average-by-convolution",)),
        (node("MaxPool", "x", "y", kernel_shape=[9, 9]), "POOL003", ("chain-pooling",)),
        (_conv(4), "CONV005", ("board-decides",)),
        (_conv(32), "CONV005", ("centre-tap",)),
        (_conv(32), "CONV003", ("centre-tap",)),
        (node("Neg", "x", "y"), "UNRY002", ("reconstruct", "end-early")),
        (node("Exp", "x", "y"), "UNRY002", ("end-early",)),
    ],
)
def test_a_remedy_is_one_that_helps_this_layer(operator: object, rule: str, fixes: Tuple[str, ...]) -> None:
    """Padding that equals a dilation cannot be lowered, and what `edgedla fix` writes exactly needs no other function."""
    weights = {"w": np.ones((4, 8, 3, 3), np.float32)}
    graph = load_onnx(onnx_model([operator], {"x": (1, 8, 32, 32)}, {"y": None}, weights))
    layers = check_graph(graph, platform_for("orin"), "fp16").layers
    assert [f.fixes for layer in layers for f in layer.findings if f.rule == rule] == [fixes]


def test_indices_and_loops_have_advice_of_their_own() -> None:
    """No export folds the indices of a TopK, and no part of a DLA stands in a loop."""
    top = [node("TopK", "x k", "v i"), node("Add", "i k", "y")]
    graph = load_onnx(onnx_model(top, {"x": (1, 8, 4, 4)}, {"y": None}, {"k": np.array([2], np.int64)}))
    added = check_graph(graph, platform_for("orin"), "fp16").layers[-1]
    assert "indices-on-gpu" in {fix for f in added.findings for fix in f.fixes}
    assert "float-tensors" not in {fix for f in added.findings for fix in f.fixes}
    weights = {"w": np.ones((1, 12, 8), np.float32), "r": np.ones((1, 12, 4), np.float32)}
    gru = onnx_model([node("GRU", "x w r", "y", hidden_size=4)], {"x": (5, 1, 8)}, {"y": None}, weights)
    layers = check_graph(load_onnx(gru), platform_for("orin"), "fp16").layers
    fixes = [f.fixes for layer in layers for f in layer.findings if f.rule in ("GEN006", "NEVR008")]
    assert fixes
    assert {fix for some in fixes for fix in some} <= {"control-flow-on-gpu", "keep-4d"}
