"""Which layers together count as one operator."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from edgedla.costs.networks import network
from edgedla.costs.operators import operators_of
from edgedla.importers import load_onnx
from tests.costs.cost_graphs import Builder, residual_block


def names(graph) -> list:
    return [tuple(graph.layers[i].name for i in o.layers) for o in operators_of(graph)]


def test_conv_batchnorm_relu_add_run_as_one_operator() -> None:
    assert names(residual_block()) == [("conv0", "activation1"), ("conv1", "bn1", "relu1"), ("conv2", "add", "relu2")]


def test_every_layer_is_in_exactly_one_operator() -> None:
    graph = residual_block()
    assert sorted(i for o in operators_of(graph) for i in o.layers) == list(range(len(graph.layers)))


def test_an_add_joins_the_later_of_two_convolutions() -> None:
    b = Builder()
    early, late = b.conv("in", 64, name="early"), b.conv("in", 64, name="late")
    assert names(b.graph(b.plus(early, late, "add"))) == [("early",), ("late", "add")]


def test_an_operator_fuses_one_addition_only() -> None:
    b = Builder()
    side = b.conv("in", 64, name="side")
    x = b.plus(b.conv("in", 64, name="conv"), side, "add1")
    graph = b.graph(b.plus(x, side, "add2"))
    assert names(graph) == [("side",), ("conv", "add1"), ("add2",)]


def test_a_tensor_with_other_readers_is_not_fused_away() -> None:
    b = Builder()
    x = b.conv("in", 64, name="conv")
    relu = b.relu(x, "relu")
    assert names(b.graph(b.plus(relu, x, "add"))) == [("conv",), ("relu", "add")]


@pytest.mark.parametrize(("op", "together"), [("SIGMOID", True), ("HARD_SIGMOID", True), ("TANH", False)])
def test_silu_and_hard_swish_run_with_their_convolution(op: str, together: bool) -> None:
    """No published figure says what other self-gated products do."""
    b = Builder()
    x = b.conv("in", 64, name="conv")
    gate = b.add("ACTIVATION", [x], b.tensors[x].dims, "gate", op=op)
    graph = b.graph(b.add("ELEMENTWISE", [x, gate], b.tensors[x].dims, "product", op="PROD"))
    assert names(graph) == ([("conv", "gate", "product")] if together else [("conv",), ("gate", "product")])


def test_a_network_output_is_not_fused_away() -> None:
    b = Builder()
    x = b.conv("in", 64, name="conv")
    y = b.relu(x, "relu")
    assert names(b.graph(x, y)) == [("conv",), ("relu",)]


def test_links_of_an_operator_pair_each_layer_with_its_fused_follower() -> None:
    graph = residual_block()
    by_leader = {graph.layers[o.leader].name: o for o in operators_of(graph)}
    found = [(graph.layers[p].name, graph.layers[c].name) for p, c in by_leader["conv2"].links]
    assert found == [("conv2", "add"), ("add", "relu2")]


def test_pooling_and_concatenation_are_operators_of_their_own() -> None:
    b = Builder()
    x = b.conv("in", 64, name="conv")
    pool = b.add("POOLING", [x], (1, 64, 28, 28), "pool", window=[2, 2])
    both = b.add("CONCATENATION", [pool, pool], (1, 128, 28, 28), "concat", axis=1)
    assert names(b.graph(b.relu(both, "relu"))) == [("conv",), ("pool",), ("concat",), ("relu",)]


def quantized(b: Builder, x: str, name: str) -> str:
    narrow = b.add("QUANTIZE", [x], b.tensors[x].dims, f"{name}_q", axis=1)
    return b.add("DEQUANTIZE", [narrow], b.tensors[x].dims, f"{name}_dq", axis=1)


def test_an_add_after_its_convolutions_dequantize_is_not_fused() -> None:
    b = Builder()
    block = quantized(b, b.conv("in", 64, name="block"), "block")
    x = quantized(b, b.conv(block, 64, name="conv"), "conv")
    graph = b.graph(quantized(b, b.relu(b.plus(x, block, "add"), "relu"), "relu"))
    assert names(graph) == [("block", "block_q", "block_dq"), ("conv", "conv_q", "conv_dq"), ("add", "relu", "relu_q", "relu_dq")]


def test_an_add_whose_residual_input_alone_is_quantized_joins_its_convolution() -> None:
    b = Builder()
    block = quantized(b, b.conv("in", 64, name="block"), "block")
    graph = b.graph(b.plus(b.conv(block, 64, name="conv"), block, "add"))
    assert names(graph) == [("block", "block_q", "block_dq"), ("conv", "add")]


def test_relu_and_pooling_take_their_qdq_pair_into_the_operator() -> None:
    b = Builder()
    x = b.relu(quantized(b, b.conv("in", 64, name="conv"), "conv"), "relu")
    pool = b.add("POOLING", [quantized(b, x, "relu")], (1, 64, 28, 28), "pool", window=[2, 2])
    assert names(b.graph(quantized(b, pool, "pool"))) == [
        ("conv", "conv_q", "conv_dq", "relu", "relu_q", "relu_dq"),
        ("pool", "pool_q", "pool_dq"),
    ]


def test_resnet50_has_the_kernels_that_build_logs_count() -> None:
    """TensorRT 10.3, embedded-ai-quantization-guide: 56 nodes at FP16, 72 with Q/DQ in front of both inputs of each Add."""

    def kernels(name: str) -> int:
        graph = network(name)
        return sum(graph.layers[o.leader].type != "SHUFFLE" for o in operators_of(graph))

    assert (kernels("resnet50_b1"), kernels("resnet50_b1_qdq")) == (56, 72)


def test_a_small_resnet_has_the_kernels_of_its_engine(shared: Path) -> None:
    """Engine layers of TensorRT 8.5.3 without reformats and copies of nothing; see operators_of on which Conv takes an Add."""
    graph = load_onnx(shared / "corpus/trained/rn.onnx", trt="8.5")
    lines = (Path(__file__).parents[1] / "data/build_logs/rn_trt8.5.3_gpu.log").read_text().splitlines()
    engine = [line for line in lines if line.startswith("Layer(") and "(NoOp)" not in line and "(Reformat)" not in line]
    kernels = [o for o in operators_of(graph) if graph.layers[o.leader].type != "SHUFFLE"]
    assert len(kernels) == len(engine) == 12


def test_the_inputs_of_a_conditional_precede_the_branches_that_read_them() -> None:
    """The parser adds them behind the branches: a walk in its order would meet readers before what they read."""
    branch = "=> (float[1,8,4,4] {0}) {{ {0} = Mul({1}, {1}) }}"
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> net (float[1,8,4,4] x, bool c) => (float[1,8,4,4] y) { a = Relu(x) '
        f"y = If(c) <then_branch = then () {branch.format('p', 'a')}, else_branch = other () {branch.format('q', 'x')}> }}"
    )
    model = onnx.parser.parse_model(text)
    for attribute in model.graph.node[1].attribute:
        attribute.g.node[0].name = attribute.g.output[0].name
    graph = load_onnx(model, trt="8.5")
    enters = next(layer for layer in graph.layers if layer.type == "CONDITIONAL_INPUT")
    assert enters.index < min(graph.consumers(enters.outputs[0]))
    assert sorted(i for o in operators_of(graph) for i in o.layers) == list(range(len(graph.layers)))
