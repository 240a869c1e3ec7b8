"""A Conv whose channels are cut apart: one Conv for each part, the same numbers, and no slice left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, List, Sequence

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import edgedla
from edgedla.fixes.network.library import onnx_ir
from edgedla.fixes.proofs.sites import prove_sites
from edgedla.fixes.rewrites import all_rewrites
from edgedla.importers import load_onnx
from edgedla.placement.check_cost import with_cost
from edgedla.quantization.session import open_session
from edgedla.regions import check_graph
from edgedla.targets import platform_for
from tests.amounts import examples
from tests.fixes.rewrite_examples import outcome
from tests.models import constant, ints, node, onnx_model
from tests.placement.cut_blocks import c2f

REWRITE = next(rewrite for rewrite in all_rewrites() if rewrite.id == "conv-per-part")
SIDE = 6
#: Nodes from `c` to `m`.
ACTIVATIONS = {
    "none": [node("Identity", "c", "m")],
    "relu": [node("Relu", "c", "m")],
    "leaky": [node("LeakyRelu", "c", "m", alpha=0.1)],
    "clip": [node("Clip", "c low high", "m")],
    "silu": [node("Sigmoid", "c", "s"), node("Mul", "c s", "m")],
    "hard swish": [node("HardSigmoid", "c", "s"), node("Mul", "s c", "m")],
    "hard swish as a chain": [
        node("Add", "c three", "t"),
        node("Clip", "t low high", "u"),
        node("Mul", "c u", "v"),
        node("Div", "v six", "m"),
    ],
    "batch norm, silu": [node("BatchNormalization", "c k k k k", "b"), node("Sigmoid", "b", "s"), node("Mul", "b s", "m")],
    "one number for all": [node("Mul", "c one", "t"), node("Max", "t c", "m")],
    "slope per channel": [node("PRelu", "c slope", "m")],
    "depthwise": [node("Conv", "c taps k", "m", pads=[1, 1, 1, 1], group=0)],
}


def cut_network(
    sizes: Sequence[int], activation: str = "silu", kernel: int = 1, group: int = 1, slices: bool = False, extra: Any = ()
) -> onnx.ModelProto:
    """x -> Conv -> activation -> parts p0, p1 ..., each an output of the network."""
    channels, rng = sum(sizes), np.random.default_rng(len(sizes))
    ends = np.cumsum([0, *sizes]).tolist()
    shapes = {
        "one": (1, 1, 1, 1),
        "w": (channels, 4, kernel, kernel),
        "k": (channels,),
        "slope": (channels, 1, 1),
        "taps": (channels, 1, 3, 3),
    }
    numbers = [constant(name, rng.uniform(0.2, 1.0, dims).astype(np.float32)) for name, dims in shapes.items()]
    numbers += [constant(n, np.float32(v)) for n, v in (("low", 0), ("high", 6), ("three", 3), ("six", 6))]
    numbers += [ints("sizes", *sizes), ints("axis", 1), *(ints(f"e{i}", n) for i, n in enumerate(ends))]
    behind = [onnx.NodeProto.FromString(n.SerializeToString()) for n in ACTIVATIONS[activation]]
    for step in behind:
        for attribute in [a for a in step.attribute if a.name == "group"]:
            attribute.i = channels
    names = [f"p{i}" for i in range(len(sizes))]
    cuts = [node("Split", "m sizes", " ".join(names), axis=1)]
    if slices:
        cuts = [node("Slice", f"m e{i} e{i + 1} axis", name) for i, name in enumerate(names)]
    conv = node("Conv", "x w k", "c", pads=[kernel // 2] * 4, group=group)
    outputs = {name: (1, size, SIDE, SIDE) for name, size in zip(names, sizes)}
    inputs = {"x": (1, 4 * group, SIDE, SIDE)}
    return onnx_model([conv, *behind, *cuts, *extra], inputs, outputs, numbers, opset=17)


def run(model: onnx.ModelProto) -> List[np.ndarray]:
    names = [o.name for o in model.graph.output]
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(1).standard_normal(dims).astype(np.float32)}
    return list(open_session(model.SerializeToString(), optimize=False).run(names, feeds))


def operators(model: onnx.ModelProto) -> List[str]:
    return sorted(n.op_type for n in model.graph.node)


@settings(max_examples=examples(40), deadline=None)
@given(
    some.lists(some.integers(1, 40), min_size=1, max_size=5),
    some.sampled_from(sorted(ACTIVATIONS)),
    some.sampled_from([1, 3]),
    some.booleans(),
)
def test_parts_are_the_same_numbers_under_the_same_names(sizes: List[int], activation: str, kernel: int, slices: bool) -> None:
    model = cut_network(sizes, activation, kernel, slices=slices)
    found = outcome(REWRITE, model)
    assert [(site.rewrite, proof.status) for site, proof in zip(found.changes.applied, found.proofs)] == [
        ("conv-per-part", "proved")
    ]
    fixed = onnx_ir().to_proto(found.model)
    onnx.checker.check_model(fixed, full_check=True)
    assert not {"Split", "Slice", "Concat"} & set(operators(fixed))
    convolutions = 2 if activation == "depthwise" else 1
    assert operators(fixed).count("Conv") == convolutions * len(sizes)
    assert [o.name for o in fixed.graph.output] == [o.name for o in model.graph.output]
    for part, whole in zip(run(fixed), run(model)):
        np.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)


def test_the_proof_compares_every_part() -> None:
    model = cut_network([4, 4])
    work = onnx_ir().from_proto(model)
    (site,) = outcome(REWRITE, model).changes.applied
    assert site.fragment is not None
    (first, made), (second, _) = site.fragment.outputs
    wrong = replace(site, fragment=replace(site.fragment, outputs=((first, made), (second, made))))
    feeds = [{"x": np.random.default_rng(1).standard_normal((1, 4, SIDE, SIDE)).astype(np.float32)}]
    proofs = prove_sites(work, [site, wrong], {REWRITE.id: "round"}, feeds, False)
    assert [proof.status for proof in proofs] == ["proved", "failed"]


def test_a_part_that_nobody_reads_is_left_out() -> None:
    model = cut_network([3, 5, 2])
    del model.graph.output[1]
    fixed = onnx_ir().to_proto(outcome(REWRITE, model).model)
    assert operators(fixed).count("Conv") == 2
    for part, whole in zip(run(fixed), run(model)):
        np.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)


def test_weights_that_another_convolution_shares_stay_for_it() -> None:
    model = cut_network([3, 5], extra=[node("Conv", "x w k", "z")])
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, (1, 8, SIDE, SIDE)))
    fixed = onnx_ir().to_proto(outcome(REWRITE, model).model)
    assert operators(fixed).count("Conv") == 3
    for part, whole in zip(run(fixed), run(model)):
        np.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)


def test_weights_in_a_file_beside_the_model_are_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    model = cut_network([16, 16], kernel=3)
    before = run(model)
    onnx.save(model, str(path), save_as_external_data=True, location="net.data", size_threshold=1024)
    result = edgedla.fix(path, target="agx-orin-64gb", only="conv-per-part", prove=True)
    assert {proof.proof.status for proof in result.applied} <= {"proved"}
    found = outcome(REWRITE, onnx.load(str(path)))
    for part, whole in zip(run(onnx_ir().to_proto(found.model)), before):
        np.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)


def test_cuts_of_both_kinds_become_convolutions_and_one_of_rows_keeps_the_whole() -> None:
    more = [node("Slice", "m e0 e1 axis", "z")]
    both = cut_network([3, 5], extra=more)
    both.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, (1, 3, SIDE, SIDE)))
    fixed = onnx_ir().to_proto(outcome(REWRITE, both).model)
    assert operators(fixed).count("Conv") == 3
    for part, whole in zip(run(fixed), run(both)):
        np.testing.assert_allclose(part, whole, rtol=1e-4, atol=1e-5)
    rows = cut_network([3, 5], extra=[node("Split", "m", "z u", axis=2)])
    rows.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, (1, 8, SIDE // 2, SIDE)))
    assert [r.reason for r in outcome(REWRITE, rows).changes.refused] == ["m is read whole too"]


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The Conv's weights as INT8 with a scale."""
    weights = next(t for t in model.graph.initializer if t.name == "w")
    stored = np.round(onnx.numpy_helper.to_array(weights) * 100).astype(np.int8)
    model.graph.initializer.remove(weights)
    model.graph.initializer.extend([constant("stored", stored), constant("scale", np.float32(0.01))])
    model.graph.node.insert(0, node("DequantizeLinear", "stored scale", "w"))
    return model


def grouped_in_pairs() -> onnx.ModelProto:
    """A Conv whose groups make one channel of two each, so that no part reads a part of its input."""
    weights = {"w": np.ones((8, 4, 1, 1), np.float32), "v": np.ones((4, 2, 1, 1), np.float32)}
    nodes = [node("Conv", "x w", "c"), node("Conv", "c v", "m", group=4), node("Split", "m", "p0 p1", axis=1)]
    return onnx_model(nodes, {"x": (1, 4, SIDE, SIDE)}, ("p0", "p1"), weights)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (cut_network([4, 4], group=2), "c comes from 2 groups: each part would read a cut of their input"),
        (grouped_in_pairs(), "c has other channels than the 4 that it cuts"),
        (cut_network([1] * 9), "it is cut into 9 parts, more than 8"),
        (cut_network([4, 4], extra=[node("Relu", "m", "p2")]), "m is read whole too"),
        (cut_network([4, 4], extra=[node("Relu", "c", "p2")]), "c is read whole too"),
        (cut_network([4, 4], extra=[node("Relu", "s", "p2")]), "s is read whole too"),
        (cut_network([3, 0, 5]), "p1 has no channels"),
        (cut_network([3, 0, 5], slices=True), "p1 has no channels"),
        (quantized(cut_network([4, 4])), "w is quantized: `edgedla quantize` turns Q/DQ into scales first"),
    ],
)
def test_what_stays_is_named_with_its_reason(model: onnx.ModelProto, reason: str) -> None:
    extra = [n for n in model.graph.node if n.output[0] == "p2"]
    model.graph.output.extend(onnx.helper.make_tensor_value_info("p2", 1, (1, 8, SIDE, SIDE)) for _ in extra)
    found = outcome(REWRITE, model)
    assert ([a.output for a in found.changes.applied], [r.reason for r in found.changes.refused]) == ([], [reason])


@pytest.mark.parametrize("name", ["c", "m"])
def test_a_tensor_that_is_an_output_of_the_network_stays_whole(name: str) -> None:
    model = cut_network([4, 4])
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, (1, 8, SIDE, SIDE)))
    assert [r.reason for r in outcome(REWRITE, model).changes.refused] == [f"{name} is read whole too"]


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        ("x", "it cuts an input of the network, not of a convolution"),
        ("MaxPool", "it cuts the output of MaxPool, not of a convolution"),
    ],
)
def test_a_cut_of_something_else_stays(operator: str, reason: str) -> None:
    nodes = [node("Split", "m sizes", "p q", axis=1), node("Add", "p q", "y")]
    if operator != "x":
        nodes.insert(0, node(operator, "x", "m", kernel_shape=[1, 1]))
    source = {"m" if operator == "x" else "x": (1, 4, SIDE, SIDE)}
    found = outcome(REWRITE, onnx_model(nodes, source, ("y",), [ints("sizes", 2, 2)]))
    assert [r.reason for r in found.changes.refused] == [reason]


def test_a_sum_of_two_convolutions_stays() -> None:
    nodes = [
        node("Conv", "x w", "a"),
        node("Conv", "x w", "b"),
        node("Add", "a b", "c"),
        node("Split", "c", "p q", axis=1),
        node("Mul", "p q", "y"),
    ]
    model = onnx_model(nodes, {"x": (1, 4, SIDE, SIDE)}, ("y",), {"w": np.ones((8, 4, 1, 1), np.float32)})
    assert [r.reason for r in outcome(REWRITE, model).changes.refused] == ["it cuts a result of 2 convolutions"]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_fix_gains_what_the_ranked_change_of_check_says(precision: str) -> None:
    fixed = edgedla.fix(c2f(160), target="agx-orin-64gb", precision=precision, prove=False)
    assert fixed.counts == {"conv-per-part": 2}
    graph = load_onnx(c2f(160), trt=(10, 3))
    (change,) = with_cost(check_graph(graph, platform_for("agx-orin-64gb"), precision), graph).ranking
    assert fixed.after.latency_us == pytest.approx(change.latency_us, rel=0.1)


def test_a_module_without_a_figure_keeps_its_slices() -> None:
    kept = edgedla.fix(c2f(160), target="xavier-nx-8gb", prove=False)
    reasons = [r.reason for r in kept.refused if r.rewrite == "conv-per-part"]
    assert (kept.counts, [r.partition(":")[0] for r in reasons]) == (
        {},
        ["what a slice takes on the DLA of this module is not known"] * 2,
    )
