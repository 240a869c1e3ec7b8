"""Steps of the region walk that no larger network of the tests shows: each with a minimal network."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Tuple

import pytest

from edgedla.graph import LayerGraph
from edgedla.regions import Placed, check_graph, predict, subgraphs_per_core
from edgedla.regions.fusions import batch_of, fuse
from edgedla.regions.strict import check_strict
from edgedla.regions.values import Cause
from edgedla.rules import load_rules
from edgedla.rules.verdict import Support
from edgedla.targets import Platform, platform_for

RELU = {"op": "RELU"}
MAP = (1, 64, 56, 56)
Net = Callable[..., LayerGraph]


def transpose(*axes: int) -> dict:
    return {"first_transpose": list(axes), "reshape": None}


def reshape(*dims: int) -> dict:
    return {"first_transpose": None, "reshape": list(dims)}


def chain(net: Net, *middle: Tuple[Any, ...], x: Sequence[int] = MAP) -> LayerGraph:
    return net([("ACTIVATION", "first", ["x"], x, RELU), *middle], x=x)


@pytest.mark.parametrize("refused", ["there", "further"])
def test_second_look_refusal_of_half_a_merged_shuffle_removes_it_whole(
    net: Net, judge: Any, xavier: Platform, refused: str
) -> None:
    graph = chain(
        net,
        ("SHUFFLE", "there", ["first"], (1, 56, 64, 56), transpose(0, 2, 1, 3)),
        ("SHUFFLE", "further", ["there"], (1, 56, 56, 64), transpose(0, 1, 3, 2)),
        ("ACTIVATION", "last", ["further"], (1, 56, 56, 64), RELU),
    )
    prediction = predict(graph, judge(graph, validation={refused: "beside a slice"}), xavier, "fp16")
    assert [str(p.placed) for p in prediction.layers] == ["dla", "gpu", "gpu", "dla"]
    assert prediction.layers[1 if refused == "there" else 2].cause is Cause.VALIDATION
    assert len(prediction.kept) == 2


def test_a_no_op_shuffle_before_an_output_is_erased(net: Net, judge: Any, orin: Platform) -> None:
    graph = chain(net, ("SHUFFLE", "same", ["first"], MAP, reshape(*MAP)))
    units = fuse(graph)
    assert [u.layers for u in units.units] == [(0,)]
    assert units.erased == (1,)
    prediction = predict(graph, judge(graph), orin, "fp16")
    assert [str(p.placed) for p in prediction.layers] == ["dla", "folded"]
    assert prediction.transitions == ()


def test_a_shuffle_between_two_network_outputs_stays(net: Net) -> None:
    graph = net(
        [("SHUFFLE", "a", ["x"], (1, 56, 64, 56), transpose(0, 2, 1, 3)), ("SHUFFLE", "b", ["a"], MAP, transpose(0, 2, 1, 3))],
        outputs=["a", "b"],
    )
    assert [u.layers for u in fuse(graph).units] == [(0,), (1,)], "a is handed out: b cannot undo it for nothing"


@pytest.mark.parametrize(
    ("dims", "batch"),
    [((2, 3, 8, 4, 4), 6), ((-1, 8, 4, 4), 1), ((-1, 3, 8, 4, 4), 3), ((8, 4, 4), 1), ((4,), 1), ((5, 8, 4, 4), 5)],
)
def test_a_dynamic_dim_counts_as_one_in_the_batch(net: Net, dims: Sequence[int], batch: int) -> None:
    graph = net([("ACTIVATION", "a", ["x"], dims, RELU)], x=dims)
    assert batch_of(graph.layers[0], graph) == batch


def test_a_low_rank_matmul_fails_strict_builds_by_its_reshapes_only(net: Net, judge: Any, orin: Platform) -> None:
    graph = net([("MATRIX_MULTIPLY", "fc", ["x", "=10x512"], (1, 10), {"op1": "TRANSPOSE"})], x=(1, 512))
    prediction = predict(graph, judge(graph), orin, "fp16")
    result = check_strict(graph, prediction, orin, "strict")
    assert result.offenders == ("fc.1", "reshape_before_fc", "reshape_after_fc")
    assert "fc" not in result.offenders, "as a convolution it has four dims"
    rows = net([("ACTIVATION", "a", ["x"], (8, 16), RELU)], x=(8, 16))
    assert check_strict(rows, predict(rows, judge(rows), orin, "fp16"), orin, "strict").offenders == ("a",)


@pytest.mark.parametrize(
    ("target", "trt", "cap"),
    [
        ("agx-xavier-32gb", "7.1.3", 8),
        ("agx-xavier-32gb", "8.0.1", 8),
        ("agx-xavier-32gb", "8.2.1", 8),
        ("agx-xavier-32gb", "8.4.1", 8),
        ("agx-xavier-32gb", "8.5.2", 16),
        ("agx-orin-64gb", "8.4.1", 8),
        ("agx-orin-64gb", "8.6.2", 16),
        ("agx-orin-64gb", "10.3", 16),
        ("agx-orin-64gb", "11.4.1", 16),
    ],
)
def test_loadables_of_one_core_by_release(net: Net, judge: Any, target: str, trt: str, cap: int) -> None:
    platform = platform_for(target, trt=trt)
    assert subgraphs_per_core(platform) == cap
    lines, source = [], "x"
    for i in range(20):
        lines += [("ACTIVATION", f"a{i}", [source], MAP, RELU), ("REDUCE", f"r{i}", [f"a{i}"], MAP, {"op": "AVG"})]
        source = f"r{i}"
    graph = net(lines)
    prediction = predict(graph, judge(graph, gpu={f"r{i}": "no" for i in range(20)}), platform, "fp16")
    assert (len(prediction.kept), len(prediction.dropped)) == (cap, 20 - cap)


@pytest.mark.parametrize(
    ("target", "trt", "cap"),
    [
        ("agx-xavier", "7.1", 8),
        ("agx-xavier", "8.0", 4),
        ("agx-xavier", "8.4", 4),
        ("agx-xavier", "8.5", 16),
        ("agx-orin-64gb", "10.3", 16),
        ("orin-nano-8gb", "10.3", 0),
    ],
)
def test_loadables_of_several_engines_by_release(target: str, trt: str, cap: int) -> None:
    assert subgraphs_per_core(platform_for(target, trt=trt), engines=2) == cap
    assert subgraphs_per_core(platform_for(target, trt=trt), engines=3) == cap


def test_a_rejection_overrides_an_unknown_finding(net: Net, xavier: Platform) -> None:
    """A window that is too large, with a flag that nobody knows about."""
    params = {"op": "AVERAGE", "window": [9, 9], "stride": [1, 1], "average_count_excludes_padding": True}
    graph = net([("POOLING", "p", ["x"], (1, 64, 48, 48), params)])
    (verdict,) = load_rules().check(graph, xavier, "fp16")
    assert {str(f.effect) for f in verdict.findings} == {"reject", "unknown"}
    assert verdict.support is Support.GPU
    report = check_graph(graph, xavier, "fp16")
    assert (report.layers[0].placed, report.layers[0].cause) == (Placed.GPU, Cause.RULE)
    assert report.totals.layers_unknown == 0
