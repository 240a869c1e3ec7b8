"""TensorRT's fusions before it places layers, one case per pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence

import pytest

from edgedla.graph import LayerGraph
from edgedla.regions.fusions import UnitGraph, fuse
from edgedla.regions.shuffles import layer_steps, simplified

Net = Callable[..., LayerGraph]


def reshape(*dims: int) -> Dict[str, Any]:
    return {"first_transpose": None, "reshape": list(dims), "second_transpose": None}


def transpose(*order: int) -> Dict[str, Any]:
    return {"first_transpose": list(order), "reshape": None, "second_transpose": None}


MATMUL = {"op0": "NONE", "op1": "TRANSPOSE"}
SUM = {"op": "SUM"}
RELU = {"op": "RELU"}


def names(graph: LayerGraph, units: UnitGraph) -> List[str]:
    """Each unit as its layers' names; an added reshape as `reshape of X`."""
    return [
        "+".join(graph.layers[i].name for i in unit.layers)
        or "reshape of " + "+".join(graph.layers[i].name for i in unit.reshape_of)
        for unit in units.units
    ]


def test_gemm_becomes_a_convolution_between_two_reshapes_and_takes_its_bias(net: Net) -> None:
    graph = net(
        [
            ("MATRIX_MULTIPLY", "gemm", ["x", "=256x512"], (850, 256), MATMUL),
            ("ELEMENTWISE", "bias", ["gemm", "=1x256"], (850, 256), SUM),
        ],
        x=(850, 512),
    )
    units = fuse(graph)
    assert names(graph, units) == ["reshape of gemm", "gemm+bias", "reshape of gemm"]
    assert [u.batch for u in units.units] == [850, 850, 850], "one row of the matrix is one image of the batch"


def test_flatten_of_n_c_1_1_before_gemm_is_erased(net: Net) -> None:
    graph = net(
        [
            ("POOLING", "pool", ["x"], (1, 512, 1, 1), {}),
            ("SHUFFLE", "flatten", ["pool"], (1, 512), reshape(1, 512)),
            ("MATRIX_MULTIPLY", "fc", ["flatten", "=10x512"], (1, 10), MATMUL),
        ],
        x=(1, 512, 7, 7),
    )
    units = fuse(graph)
    assert names(graph, units) == ["pool", "fc", "reshape of fc"]
    assert units.erased == (1,)
    assert units.predecessors[1] == (0,), "the convolution reads the pooling directly"


def test_flatten_of_a_larger_map_before_gemm_stays(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "flatten", ["x"], (1, 25088), reshape(1, 25088)),
            ("MATRIX_MULTIPLY", "fc", ["flatten", "=10x25088"], (1, 10), MATMUL),
        ],
        x=(1, 512, 7, 7),
    )
    units = fuse(graph)
    assert names(graph, units) == ["flatten", "fc", "reshape of fc"]
    assert units.units[0].reshape_of == (1,), "the flatten and reshape_before are one shuffle"


def test_transpose_merges_with_the_reshape_that_changes_the_rank(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "heads", ["x"], (1, 850, 8, 32), reshape(1, 850, 8, 32)),
            ("SHUFFLE", "transpose", ["heads"], (1, 8, 850, 32), transpose(0, 2, 1, 3)),
            ("ELEMENTWISE", "scale", ["transpose", "=1x1x1x1"], (1, 8, 850, 32), {"op": "PROD"}),
        ],
        x=(850, 256),
    )
    assert names(graph, fuse(graph)) == ["heads+transpose", "scale"]


def test_merged_shuffles_have_the_batch_of_their_output(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "apart", ["x"], (1, 2, 58, 28, 28), reshape(1, 2, 58, 28, 28)),
            ("SHUFFLE", "mixed", ["apart"], (1, 58, 2, 28, 28), transpose(0, 2, 1, 3, 4)),
            ("SHUFFLE", "together", ["mixed"], (1, 116, 28, 28), reshape(1, 116, 28, 28)),
        ],
        x=(1, 116, 28, 28),
    )
    units = fuse(graph)
    assert names(graph, units) == ["apart+mixed+together"]
    assert units.batches == (1,), "the 5-D tensors inside, of batch 2 and 58, are gone"


def test_a_shuffle_with_two_readers_merges_with_neither(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "heads", ["x"], (1, 850, 8, 32), reshape(1, 850, 8, 32)),
            ("SHUFFLE", "q", ["heads"], (1, 8, 850, 32), transpose(0, 2, 1, 3)),
            ("SHUFFLE", "k", ["heads"], (1, 8, 32, 850), transpose(0, 2, 3, 1)),
            ("MATRIX_MULTIPLY", "attention", ["q", "k"], (1, 8, 850, 850), MATMUL),
        ],
        x=(850, 256),
    )
    assert names(graph, fuse(graph)) == ["heads", "q", "k", "attention"]


def test_a_shuffle_that_is_a_network_output_does_not_merge(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "a", ["x"], (1, 56, 64, 56), transpose(0, 2, 1, 3)),
            ("SHUFFLE", "b", ["a"], (1, 3584, 56, 1), reshape(1, 3584, 56, 1)),
        ],
        outputs=["a", "b"],
    )
    assert names(graph, fuse(graph)) == ["a", "b"]


def test_the_reshape_behind_a_softmax_is_erased(net: Net) -> None:
    graph = net(
        [
            ("SOFTMAX", "softmax", ["x"], (1, 8, 400, 400), {"axes": [3]}),
            ("SHUFFLE", "same", ["softmax"], (1, 8, 400, 400), reshape(1, 8, 400, 400)),
            ("ACTIVATION", "relu", ["same"], (1, 8, 400, 400), RELU),
        ],
        x=(1, 8, 400, 400),
    )
    units = fuse(graph)
    assert names(graph, units) == ["softmax", "relu"]
    assert units.units[1].inputs == ((0, "softmax"),)


def test_two_opposite_transposes_cancel(net: Net) -> None:
    graph = net(
        [
            ("SHUFFLE", "there", ["x"], (1, 56, 56, 64), transpose(0, 2, 3, 1)),
            ("SHUFFLE", "back", ["there"], (1, 64, 56, 56), transpose(0, 3, 1, 2)),
            ("ACTIVATION", "relu", ["back"], (1, 64, 56, 56), RELU),
        ]
    )
    units = fuse(graph)
    assert names(graph, units) == ["relu"]
    assert units.units[0].network_inputs == ("x",)


def test_a_copy_of_an_input_to_an_output_keeps_its_layer(net: Net) -> None:
    graph = net([("SHUFFLE", "copy", ["x"], (1, 64, 56, 56), reshape(1, 64, 56, 56))])
    assert names(graph, fuse(graph)) == ["copy"]


@pytest.mark.parametrize(
    ("why", "inputs", "constant"),
    [
        ("two activations", ["x", "x"], None),
        ("the first operand is constant", ["=850x512", "x"], None),
        ("a stack of different matrices", ["x", "=4x512x256"], None),
    ],
)
def test_matmul_that_cannot_be_a_convolution_stays(net: Net, why: str, inputs: Sequence[str], constant: Optional[str]) -> None:
    graph = net([("MATRIX_MULTIPLY", "matmul", inputs, (4, 512, 256), MATMUL)], x=(4, 512, 512))
    assert names(graph, fuse(graph)) == ["matmul"], why


@pytest.mark.parametrize(
    ("why", "constant", "params"),
    [
        ("it multiplies", "=1x256", {"op": "PROD"}),
        ("one constant a row, not a column", "=850x1", SUM),
        ("a full matrix", "=850x256", SUM),
    ],
)
def test_elementwise_that_cannot_be_a_bias_stays(net: Net, why: str, constant: str, params: Dict[str, Any]) -> None:
    graph = net(
        [
            ("MATRIX_MULTIPLY", "gemm", ["x", "=256x512"], (850, 256), MATMUL),
            ("ELEMENTWISE", "other", ["gemm", constant], (850, 256), params),
        ],
        x=(850, 512),
    )
    assert names(graph, fuse(graph))[-1] == "other", why


def test_a_second_addition_is_no_bias(net: Net) -> None:
    graph = net(
        [
            ("MATRIX_MULTIPLY", "gemm", ["x", "=256x512"], (850, 256), MATMUL),
            ("ELEMENTWISE", "bias", ["gemm", "=1x256"], (850, 256), SUM),
            ("ELEMENTWISE", "again", ["bias", "=1x256"], (850, 256), SUM),
        ],
        x=(850, 512),
    )
    assert names(graph, fuse(graph)) == ["reshape of gemm", "gemm+bias", "reshape of gemm", "again"]


def test_effective_batch_is_all_but_the_last_three_dims(net: Net) -> None:
    graph = net([("ACTIVATION", "relu", ["x"], (2, 3, 4, 5, 6), RELU)], x=(2, 3, 4, 5, 6))
    assert fuse(graph).units[0].batch == 6


@pytest.mark.parametrize(
    ("dims", "steps", "left"),
    [
        ((1, 64, 1, 1), [("reshape", (1, 64)), ("reshape", (1, 64, 1, 1))], []),
        ((1, 64, 1, 1), [("transpose", (0, 2, 3, 1))], [("reshape", (1, 1, 1, 64))]),
        ((1, 2, 3, 4), [("transpose", (0, 2, 3, 1)), ("transpose", (0, 3, 1, 2))], []),
        ((1, 2, 3, 4), [("transpose", (0, 2, 1, 3)), ("transpose", (0, 1, 3, 2))], [("transpose", (0, 2, 3, 1))]),
        ((1, 2, 3, 4), [("reshape", (1, 6, 4)), ("reshape", (1, 24))], [("reshape", (1, 24))]),
        ((6, 4), [("reshape", (2, 3, 4)), ("transpose", (1, 0, 2)), ("reshape", (6, 4))], None),
    ],
)
def test_a_chain_of_shuffle_steps_is_simplified_to_its_shortest_form(dims: Sequence[int], steps: Any, left: Any) -> None:
    result = simplified(tuple(dims), steps)
    assert result == (steps if left is None else left)


@pytest.mark.parametrize(
    ("why", "dims", "outputs"),
    [("the sum has more dims", (1, 850, 256), ()), ("the product is an output of the network", (850, 256), ("gemm",))],
)
def test_an_addition_is_no_bias_if_it_adds_dims_or_its_product_is_an_output(
    net: Net, why: str, dims: Sequence[int], outputs: Sequence[str]
) -> None:
    graph = net(
        [
            ("MATRIX_MULTIPLY", "gemm", ["x", "=256x512"], (850, 256), MATMUL),
            ("ELEMENTWISE", "bias", ["gemm", "=1x256"], dims, SUM),
        ],
        x=(850, 512),
    )
    graph = replace(graph, outputs=(*graph.outputs, *outputs))
    assert "gemm+bias" not in names(graph, fuse(graph)), why


def test_a_shuffle_is_a_transpose_a_reshape_and_a_transpose(net: Net) -> None:
    params = {"first_transpose": [0, 2, 3, 1], "reshape": [4, 6, 5], "second_transpose": [2, 0, 1]}
    graph = net([("SHUFFLE", "s", ["x"], (5, 4, 6), params)], x=(1, 5, 4, 6))
    # out[i] = between[second[i]]: between is 4 x 6 x 5.
    expected = [("transpose", (0, 2, 3, 1)), ("reshape", (4, 6, 5)), ("transpose", (2, 0, 1))]
    assert layer_steps(graph.layers[0], graph) == expected


def test_a_shuffle_with_dynamic_dims_has_no_steps(net: Net) -> None:
    graph = net([("SHUFFLE", "s", ["x"], (-1, 6), reshape(-1, 6))], x=(2, 3, -1))
    assert layer_steps(graph.layers[0], graph) is None
