"""The work of a layer: multiply-accumulates and bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgedla.costs.engines import Clocks, GpuEngine, dla_engine
from edgedla.costs.features import dla_features, gpu_features, reload_bytes, rounded_macs, widened_macs
from edgedla.costs.work import Work, work_of, works_of
from edgedla.graph import Layer, LayerGraph, Tensor
from tests.costs.cost_graphs import Builder

CLOCKS = Clocks(1600, 1300, 3199, 204.8)


def last_work(b: Builder, element_bytes: float = 1) -> Work:
    graph = b.graph()
    return work_of(graph.layers[-1], graph, element_bytes)


def test_a_convolution_counts_macs_input_output_and_weights() -> None:
    b = Builder()
    b.conv("in", 128, kernel=3, stride=2)
    work = last_work(b)
    assert work.kind == "dense"
    assert work.macs == 128 * 28 * 28 * 64 * 9
    assert (work.read_bytes, work.write_bytes, work.weight_bytes) == (64 * 56 * 56, 128 * 28 * 28, 128 * 64 * 9)


@pytest.mark.parametrize(
    ("channels", "groups", "kind"),
    [(3, 1, "first"), (4, 1, "first"), (5, 1, "dense"), (64, 64, "depthwise"), (64, 8, "dense"), (128, 2, "dense")],
)
def test_convolutions_of_each_kind_have_their_own_rate(channels: int, groups: int, kind: str) -> None:
    b = Builder((1, channels, 56, 56))
    b.conv("in", 64, groups=groups)
    assert last_work(b).kind == kind


def test_fp16_moves_twice_the_bytes_of_int8() -> None:
    b = Builder()
    b.conv("in", 64)
    assert last_work(b, 2).traffic_bytes == 2 * last_work(b, 1).traffic_bytes


def test_an_add_reads_both_operands() -> None:
    b = Builder()
    b.plus(b.relu("in"), "in")
    work = last_work(b)
    assert (work.read_bytes, work.operand_bytes) == (64 * 56 * 56, 64 * 56 * 56)


def test_matmul_counts_a_constant_operand_as_weights() -> None:
    def matmul(constant: bool) -> Work:
        tensors = {"a": Tensor("a", (1, 512)), "b": Tensor("b", (1000, 512), is_constant=constant), "c": Tensor("c", (1, 1000))}
        layer = Layer(0, "MATRIX_MULTIPLY", "fc", "", "Gemm", ("a", "b"), ("c",), {"op0": "NONE", "op1": "TRANSPOSE"})
        graph = LayerGraph("net", (layer,), tensors, ("a",) if constant else ("a", "b"), ("c",))
        return work_of(layer, graph, 1)

    for constant in (True, False):
        assert (matmul(constant).macs, matmul(constant).weight_bytes) == (512_000, 512_000)


def test_a_reshape_is_free_and_a_transpose_moves_data() -> None:
    b = Builder()
    b.add("SHUFFLE", ["in"], (1, 64 * 56 * 56), reshape=[1, -1])
    assert last_work(b).kind == "free"
    b.add("SHUFFLE", ["in"], (1, 56, 56, 64), first_transpose=[0, 2, 3, 1])
    assert last_work(b).traffic_bytes == 2 * 64 * 56 * 56


def test_a_slice_reads_only_what_it_cuts_out() -> None:
    b = Builder()
    b.add("SLICE", ["in"], (1, 16, 56, 56), start=[0, 0, 0, 0])
    assert last_work(b).read_bytes == 16 * 56 * 56


def test_an_einsum_of_two_operands_costs_its_sums_and_one_of_a_single_operand_only_moves() -> None:
    b = Builder((1, 8, 100, 32))
    b.tensors["k"] = Tensor("k", (1, 8, 50, 32))
    b.add("EINSUM", ["in", "k"], (1, 8, 100, 50), equation="bhid,bhjd->bhij")
    work = last_work(b, 2)
    assert work.known
    assert (work.macs, work.in_channels) == (8 * 100 * 50 * 32, 32)
    product = Builder((1, 8, 100, 32))
    product.tensors["k"] = Tensor("k", (1, 8, 32, 50))
    product.add("MATRIX_MULTIPLY", ["in", "k"], (1, 8, 100, 50), op0="NONE", op1="NONE")
    gpu = GpuEngine("orin", "fp16", 16384)
    assert gpu_features(work, gpu, CLOCKS) == pytest.approx(gpu_features(last_work(product, 2), gpu, CLOCKS))
    turned = Builder((1, 8, 100, 32))
    turned.add("EINSUM", ["in"], (1, 100, 8, 32), equation="bhid->bihd")
    moved = gpu_features(last_work(turned, 2), gpu, CLOCKS)
    assert set(moved) == {"kernel", "memory"}


@pytest.mark.parametrize(
    ("dims", "weights", "out", "samples"),
    [
        ((850, 256), (256, 128), (850, 128), 850),
        ((1, 850, 256), (256, 128), (1, 850, 128), 850),
        ((2, 8, 10, 256), (256, 128), (2, 8, 10, 128), 160),
    ],
)
def test_the_rows_of_a_product_with_a_constant_are_samples(dims, weights, out, samples: int) -> None:
    b = Builder()
    b.tensors["in"] = Tensor("in", dims)
    b.tensors["w"] = Tensor("w", weights, is_constant=True)
    b.add("MATRIX_MULTIPLY", ["in", "w"], out, op0="NONE", op1="NONE")
    assert last_work(b).samples == samples


def test_the_batch_is_samples_of_every_layer() -> None:
    for kind in ("conv", "pool"):
        b = Builder((3, 64, 56, 56))
        if kind == "conv":
            b.conv("in", 128)
        else:
            b.add("POOLING", ["in"], (3, 64, 28, 28), kernel=[2, 2], stride=[2, 2], op="MAX")
        work = last_work(b)
        assert work.samples == 3
        assert work.scaled(4).samples == 12
        engine = dla_engine(2, "int8")
        assert engine is not None
        assert dla_features(work, engine, CLOCKS)["sample"] == 2


def test_integer_tensors_keep_their_own_width() -> None:
    b = Builder()
    b.tensors["in"] = Tensor("in", (1, 10), "INT64")
    b.add("GATHER", ["in"], (1, 10))
    assert last_work(b).read_bytes == 80


def test_an_unknown_layer_type_is_counted_and_marked() -> None:
    b = Builder()
    b.add("PLUGIN_V3", ["in"], (1, 64, 56, 56))
    assert not last_work(b).known
    assert last_work(b).traffic_bytes == 2 * 64 * 56 * 56


def test_channels_and_columns_are_rounded_up_to_the_engines_vectors() -> None:
    engine = dla_engine(2, "int8")
    work = Work("dense", macs=65 * 65 * 17, in_channels=65, out_channels=65, out_columns=17)
    assert engine.align == (64, 64, 16)
    assert rounded_macs(work, engine) == pytest.approx(128 * 128 * 32)


@pytest.mark.parametrize(("channels_a_group", "factor"), [(1, 64), (4, 16), (32, 2), (64, 1), (65, 128 / 65)])
def test_a_narrow_group_wastes_the_rest_of_a_vector_on_the_dla(channels_a_group: int, factor: float) -> None:
    kind = "depthwise" if channels_a_group == 1 else "dense"
    work = Work(kind, macs=1000, in_channels=channels_a_group, out_channels=64, out_columns=16, groups=32)
    assert rounded_macs(work, dla_engine(2, "int8")) == pytest.approx(1000 * factor)


@pytest.mark.parametrize(
    ("channels_a_group", "groups", "factor"),
    [(64, 1, 1), (32, 2, 2), (4, 32, 32), (32, 32, 32), (33, 32, 1024 / 33), (2048, 2, 1)],
)
def test_a_gpu_works_on_groups_as_on_one_convolution(channels_a_group: int, groups: int, factor: float) -> None:
    work = Work("dense", macs=1000, in_channels=channels_a_group, groups=groups)
    assert widened_macs(work) == pytest.approx(1000 * factor)
    assert widened_macs(replace(work, kind="depthwise", in_channels=1)) == 1000


@pytest.mark.parametrize(
    ("channels_a_group", "out_channels", "factor"),
    [(2, 64, 54 * 54 / 4), (3, 96, 54 * 54 / 9), (2, 32 * 64, 32), (4, 128, 32), (16, 512, 32)],
)
def test_a_group_of_two_or_three_channels_fills_a_tile_on_the_gpu(
    channels_a_group: int, out_channels: int, factor: float
) -> None:
    work = Work("dense", macs=1000, in_channels=channels_a_group, out_channels=out_channels, groups=32)
    features = {p: gpu_features(work, GpuEngine("orin", p, 1), CLOCKS) for p in ("fp16", "int8")}
    macs = {p: f["mac.dense"] * CLOCKS.gpu_mhz for p, f in features.items()}
    assert macs["fp16"] == pytest.approx(1000 * factor)
    # A tile is as slow at INT8, where one clock does twice as much.
    assert macs["int8"] / macs["fp16"] == (2 if channels_a_group < 4 else 1)


def test_input_or_weights_within_the_convolution_buffer_are_read_once() -> None:
    buffer = 512 * 1024
    fits = Work("dense", read_bytes=buffer, weight_bytes=10 * buffer)
    too_large = Work("dense", read_bytes=2 * buffer, weight_bytes=10 * buffer)
    assert reload_bytes(fits, buffer) == 0
    # The weights once more for the second half of the input is less than the input nine times more? No: 10 < 18.
    assert reload_bytes(too_large, buffer) == 10 * buffer
    # Two groups of it take turns.
    assert reload_bytes(replace(too_large, read_bytes=4 * buffer, weight_bytes=20 * buffer, groups=2), buffer) == 20 * buffer
    assert reload_bytes(replace(too_large, groups=2), buffer) == 0


sizes = st.integers(min_value=1, max_value=4096)


@given(sizes, sizes, st.integers(min_value=1, max_value=512), st.integers(min_value=1, max_value=64), st.sampled_from([1, 2]))
def test_more_of_anything_never_costs_less_on_the_dla(c: int, k: int, w: int, extra: int, version: int) -> None:
    def cost(c: int, k: int, w: int) -> float:
        work = Work("dense", c * k * w * 9, c, k, w, c * w * w, 0, k * w * w, c * k * 9)
        return sum(dla_features(work, dla_engine(version, "int8"), CLOCKS).values())

    base = cost(c, k, w)
    assert cost(c + extra, k, w) >= base - 1e-9
    assert cost(c, k + extra, w) >= base - 1e-9
    assert cost(c, k, w + extra) >= base - 1e-9


@pytest.mark.parametrize("gate_op", ["SIGMOID", "HARD_SIGMOID"])
def test_silu_and_hard_swish_after_a_convolution_are_a_separate_gpu_pass_but_relu_is_fused(gate_op: str) -> None:
    """At INT8 too: the figures of YOLOv5s at six batches and of YOLOv7 show it (rows p623 to p633)."""
    from edgedla.costs.fit.yolox import _Net

    net = _Net(64, False)
    x = net.bare("@0", 16, 3)
    relu, sigmoid = (net.add("ACTIVATION", [x], net.tensors[x].chw, op=op) for op in ("RELU", gate_op))
    gate = net.add("ELEMENTWISE", [x, sigmoid], net.tensors[x].chw, op="PROD")
    again = net.add("ACTIVATION", [gate], net.tensors[x].chw, op=gate_op)
    graph = net.graph([relu, again], "gated")
    passes = [work_of(layer, graph, 2).gpu_pass_bytes for layer in graph.layers]
    size = 2 * 16 * 64 * 64
    # The last one follows another pointwise layer, which runs in the same kernel.
    assert passes == [0.0, 0.0, 2.0 * size, 0.0, 0.0]
    assert work_of(graph.layers[2], graph, 2).scaled(4).gpu_pass_bytes == 8.0 * size
    assert [work_of(layer, graph, 1).gpu_pass_bytes for layer in graph.layers] == [p / 2 for p in passes]


def test_equal_layers_share_one_work_which_the_graph_keeps() -> None:
    b = Builder()
    for _ in range(3):
        b.conv("in", 64, kernel=3)
    graph = b.graph()
    first, second, *_ = works = works_of(graph, 2)
    assert works == tuple(work_of(layer, graph, 2) for layer in graph.layers)
    assert works_of(graph, 2) is works
    assert works_of(graph, 1) != works
    assert first is second
    assert hash(replace(first, macs=1)) != hash(first)
