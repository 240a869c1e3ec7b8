"""Loops and conditions: a loop's RECURRENCE reads what a later layer writes, and no source puts a body on the DLA."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import edgedla
from edgedla.costs.model import CostModel
from edgedla.placement.problem.loops import in_all_passes
from edgedla.regions import CheckReport, Placed
from edgedla.rules.verdict import Support

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

SHAPE = [1, 8, 4, 4]


def checked(nodes: List[Any], inputs: List[Any], initializers: List[Any], trt: str) -> CheckReport:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, None)], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return edgedla.check(model.SerializeToString(), target="orin", trt=trt)


@pytest.mark.parametrize("trt", ["8.6.2", "10.3"])
def test_a_loop_is_on_the_gpu_and_its_neighbours_on_the_dla(trt: str) -> None:
    report = checked(
        [
            helper.make_node("Relu", ["x"], ["a"], name="before"),
            helper.make_node("CumSum", ["a", "axis"], ["b"], name="sum"),
            helper.make_node("Relu", ["b"], ["y"], name="after"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor("axis", TensorProto.INT32, [], [1])],
        trt,
    )
    body = [layer for layer in report.layers if any(f.rule == "GEN006" for f in layer.findings)]
    assert [layer.type for layer in body] == ["ELEMENTWISE"]
    assert (body[0].support, body[0].placed) == (Support.UNKNOWN, Placed.GPU)
    assert all(layer.placed is Placed.GPU for layer in report.layers if layer.type in ("RECURRENCE", "LOOP_OUTPUT"))
    assert {layer.name: layer.placed for layer in report.layers if layer.type == "ACTIVATION"} == {
        "before": Placed.DLA,
        "after": Placed.DLA,
    }


@pytest.mark.parametrize("trt", ["8.5.2", "8.6.2", "10.3", "10.7"])
def test_a_conditional_is_unknown_and_the_layer_before_it_on_the_dla(trt: str) -> None:
    result = [helper.make_tensor_value_info("r", TensorProto.FLOAT, SHAPE)]
    branches = [helper.make_graph([helper.make_node(op, ["a"], ["r"], name=op)], op, [], result) for op in ("Relu", "Abs")]
    report = checked(
        [
            helper.make_node("Sigmoid", ["x"], ["a"], name="before"),
            helper.make_node("If", ["c"], ["b"], name="if", then_branch=branches[0], else_branch=branches[1]),
            helper.make_node("Tanh", ["b"], ["d"], name="after"),
            helper.make_node("Cos", ["d"], ["y"], name="gpu"),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE), helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [],
        trt,
    )
    assert [len(region.layers) for region in report.regions] == [1, 1], "what feeds a branch is not what waits for it"
    support = {layer.name: layer.support for layer in report.layers}
    assert (support["before"], support["after"]) == (Support.DLA, Support.DLA)
    assert (support["Relu"], support["Abs"]) == (Support.UNKNOWN, Support.UNKNOWN)


def looped(trips: int, nodes: List[Any], initializers: List[Any], name: str = "loop", of: str = "x") -> Any:
    """A Loop over one state, which the nodes turn from `<name>_in` into `<name>_out`."""
    value = helper.make_tensor_value_info
    go = helper.make_node("Identity", [f"{name}_go"], [f"{name}_go_out"])
    body = helper.make_graph(
        [*nodes, go],
        name,
        [
            value(f"{name}_i", TensorProto.INT64, []),
            value(f"{name}_go", TensorProto.BOOL, []),
            value(f"{name}_in", TensorProto.FLOAT, SHAPE),
        ],
        [value(f"{name}_go_out", TensorProto.BOOL, []), value(f"{name}_out", TensorProto.FLOAT, SHAPE)],
    )
    initializers.append(helper.make_tensor(f"{name}_n", TensorProto.INT64, [], [trips]))
    return helper.make_node("Loop", [f"{name}_n", "true", of], [f"{name}_y"], name=name, body=body)


def test_what_follows_an_inner_loop_is_still_inside_the_outer_one() -> None:
    initializers = [helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    inner = looped(2, [helper.make_node("Relu", ["inner_in"], ["inner_out"], name="innermost")], initializers, "inner", "s")
    nodes = [
        helper.make_node("Relu", ["outer_in"], ["s"], name="inside"),
        inner,
        helper.make_node("Sigmoid", ["inner_y"], ["outer_out"], name="after the inner loop"),
    ]
    outer = looped(3, nodes, initializers, "outer")
    end = helper.make_node("Tanh", ["outer_y"], ["y"], name="after both")
    report = checked([outer, end], [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)], initializers, "10.3")
    support = {layer.name: layer.support for layer in report.layers}
    inside = ("inside", "innermost", "after the inner loop")
    assert {name: support[name] for name in inside} == dict.fromkeys(inside, Support.UNKNOWN)
    assert support["after both"] is Support.DLA


def gru(steps: int) -> Any:
    graph = helper.make_graph(
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=16)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("w", TensorProto.FLOAT, [1, 48, 8], [0.0] * 48 * 8),
            helper.make_tensor("r", TensorProto.FLOAT, [1, 48, 16], [0.0] * 48 * 16),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@pytest.mark.parametrize("trt", ["8.5.2", "10.3"])
def test_a_loop_works_as_often_as_it_runs(trt: str) -> None:
    macs = {steps: edgedla.check(gru(steps), target="orin", trt=trt).totals.macs for steps in (1, 40)}
    assert macs == {1: 48 * (8 + 16), 40: 40 * 48 * (8 + 16)}
    times = {steps: edgedla.predict(gru(steps), target="orin", trt=trt, devices="GPU") for steps in (20, 40, 80)}
    of = {steps: prediction.latency.latency_us for steps, prediction in times.items()}
    assert of[80] - of[40] == pytest.approx(2 * (of[40] - of[20]), rel=0.01)
    assert of[80] > 2 * of[20]
    assert times[80].latency.basis == "guessed"
    assert any("16 layers inside a loop" in note for note in times[80].notes)


def test_in_a_body_only_products_start_kernels() -> None:
    """Two bidirectional LSTM layers take 8 us for each of 120 passes on an RTX 4090: not a kernel for each of 20 layers."""
    graph, model = edgedla.load_onnx(gru(40), trt="10.3"), CostModel.load(edgedla.platform_for("orin"), "fp16")
    costs = in_all_passes(model.layer_costs(graph), graph, model)
    of: Dict[str, List[float]] = {}
    for layer in graph.layers:
        of.setdefault(layer.type, []).append(costs[layer.index, "GPU"].latency_us)
    assert min(of["MATRIX_MULTIPLY"]) > 40
    assert max(of["ACTIVATION"] + of["ELEMENTWISE"] + of["SLICE"]) < 4


def test_a_body_of_sums_starts_one_kernel_in_each_pass() -> None:
    def summed(steps: int) -> bytes:
        graph = helper.make_graph(
            [helper.make_node("CumSum", ["x", "axis"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, steps, 4, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [helper.make_tensor("axis", TensorProto.INT32, [], [1])],
        )
        made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        return made

    few, many = (edgedla.predict(summed(n), target="orin", devices="GPU").latency.latency_us for n in (10, 110))
    assert 3 < (many - few) / 100 < 15


def test_a_pin_of_a_pattern_leaves_out_what_a_loop_keeps_on_the_gpu() -> None:
    """As for refused layers. With --use-unknown the body may run on the DLA, but the RECURRENCE that it feeds may not."""
    everything = edgedla.PlacementRequest(target="orin", use_unknown=True, pins="*:DLA")
    layers = edgedla.place_request(gru(4), everything).to_dict()["models"][0]["layers"]
    assert {layer["device"] for layer in layers if layer["type"] in ("RECURRENCE", "ACTIVATION")} == {"GPU"}
    initializers = [helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    loop = looped(2, [helper.make_node("Relu", ["loop_in"], ["loop_out"], name="inside")], initializers)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "loop_y"))
    graph = helper.make_graph([loop], "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    with pytest.raises(edgedla.UsageError, match="with the whole loop around it: NEVR008"):
        edgedla.place(model, target="orin", use_unknown=True, pins="inside:DLA")


def test_loops_within_loops_multiply() -> None:
    initializers = [helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    initializers.append(helper.make_tensor("k", TensorProto.FLOAT, [8, 8, 1, 1], [0.0] * 64))
    inner = looped(2, [helper.make_node("Conv", ["inner_in", "k"], ["inner_out"])], initializers, "inner", "s")
    nodes = [helper.make_node("Conv", ["outer_in", "k"], ["s"]), inner, helper.make_node("Relu", ["inner_y"], ["outer_out"])]
    outer = looped(3, nodes, initializers, "outer")
    last = helper.make_node("Relu", ["outer_y"], ["y"])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    report = checked([outer, last], [x], initializers, "10.3")
    once = 8 * 8 * 16
    assert [layer.macs for layer in report.layers if layer.type == "CONVOLUTION"] == [3 * once, 3 * 2 * once]


def test_nothing_is_predicted_where_the_data_decide_how_often_a_loop_runs() -> None:
    initializers = [helper.make_tensor("true", TensorProto.BOOL, [], [True])]
    loop = looped(3, [helper.make_node("Relu", ["loop_in"], ["loop_out"], name="inside")], initializers)
    initializers.pop()
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
        helper.make_tensor_value_info("loop_n", TensorProto.INT64, []),
    ]
    report = checked([loop, helper.make_node("Relu", ["loop_y"], ["y"], name="after")], inputs, initializers, "10.3")
    assert any("how often the loop around layer" in note for note in report.notes)
    graph = helper.make_graph(
        [loop], "g", inputs, [helper.make_tensor_value_info("loop_y", TensorProto.FLOAT, None)], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    with pytest.raises(edgedla.ModelError, match="depends on the data"):
        edgedla.predict(model, target="orin", devices="GPU")


def choosing(then: int, otherwise: int, inner: bool = False) -> bytes:
    """An If whose branches are so many convolutions; `inner`: the then-branch chooses once more, from 1 and 2 convolutions."""
    value = helper.make_tensor_value_info
    kernel = helper.make_tensor("k", TensorProto.FLOAT, [8, 8, 3, 3], [0.0] * 8 * 8 * 9)

    def branch(name: str, count: int, of: str, chosen: Any = None) -> Any:
        names = [of, *(f"{name}{i}" for i in range(count))]
        nodes = [helper.make_node("Conv", [a, "k"], [b], pads=[1, 1, 1, 1], name=f"conv_{b}") for a, b in zip(names, names[1:])]
        if chosen is not None:
            nodes.append(chosen(names[-1]))
        return helper.make_graph(nodes, name, [], [value(nodes[-1].output[0], TensorProto.FLOAT, SHAPE)])

    def once_more(of: str) -> Any:
        branches = {"then_branch": branch("it", 1, of), "else_branch": branch("ie", 2, of)}
        return helper.make_node("If", ["c"], ["chosen"], name="inner", **branches)

    branches = {"then_branch": branch("t", then, "x", once_more if inner else None)}
    branches["else_branch"] = branch("e", otherwise, "x")
    nodes = [helper.make_node("If", ["c"], ["y"], name="choose", **branches)]
    inputs = [value("x", TensorProto.FLOAT, SHAPE), value("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, SHAPE)], [kernel])
    made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return made


CONV_MACS = 8 * 8 * 9 * 16


def test_a_frame_is_predicted_with_the_longer_branch_of_a_condition() -> None:
    of: Dict[Any, float] = {}
    for then, otherwise in ((5, 2), (2, 5), (5, 5), (2, 2)):
        model = choosing(then, otherwise)
        prediction = edgedla.predict(model, target="orin", devices="GPU")
        of[then, otherwise] = prediction.latency.latency_us
        report = edgedla.check(model, target="orin")
        assert report.totals.macs == max(then, otherwise) * CONV_MACS
        assert sum(layer.type == "CONVOLUTION" for layer in report.layers) == then + otherwise
        assert any("If 'choose': one of its branches runs per frame" in note for note in report.notes)
        longer = "then_branch" if then >= otherwise else "else_branch"
        assert any(f"the longer one ({longer}" in note for note in prediction.notes)
    assert of[5, 2] == of[2, 5] == of[5, 5] > of[2, 2]


def test_a_condition_in_a_branch_counts_with_its_own_longer_branch() -> None:
    totals = [edgedla.check(choosing(1, n, inner=True), target="orin").totals.macs for n in (2, 4)]
    assert totals == [3 * CONV_MACS, 4 * CONV_MACS]
    time_us = [
        edgedla.predict(model, target="orin", devices="GPU").latency.latency_us
        for model in (choosing(1, 2, inner=True), choosing(3, 2))
    ]
    assert time_us[0] == pytest.approx(time_us[1], rel=0.2)


def test_a_loadable_in_a_body_starts_in_each_pass() -> None:
    value = helper.make_tensor_value_info

    def scanned(trips: int) -> bytes:
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["go"], ["go_out"]),
                helper.make_node("Add", ["state", "half"], ["state_out"], name="step"),
                helper.make_node("Conv", ["state", "k"], ["seen"], name="first", pads=[1, 1, 1, 1]),
                helper.make_node("Conv", ["seen", "k"], ["scan"], name="second", pads=[1, 1, 1, 1]),
            ],
            "body",
            [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("state", TensorProto.FLOAT, SHAPE)],
            [
                value(n, t, s)
                for n, t, s in (
                    ("go_out", TensorProto.BOOL, []),
                    ("state_out", TensorProto.FLOAT, SHAPE),
                    ("scan", TensorProto.FLOAT, SHAPE),
                )
            ],
        )
        constants = [
            helper.make_tensor("n", TensorProto.INT64, [], [trips]),
            helper.make_tensor("true", TensorProto.BOOL, [], [True]),
            helper.make_tensor("half", TensorProto.FLOAT, SHAPE, [0.5] * 128),
            helper.make_tensor("k", TensorProto.FLOAT, [8, 8, 3, 3], [0.0] * 8 * 8 * 9),
        ]
        outputs = [value(name, TensorProto.FLOAT, None) for name in ("last", "y")]
        loop = helper.make_node("Loop", ["n", "true", "x"], ["last", "y"], name="loop", body=body)
        graph = helper.make_graph([loop], "g", [value("x", TensorProto.FLOAT, SHAPE)], outputs, constants)
        made: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
        return made

    of: Dict[Any, float] = {}
    for trips in (10, 30):
        for devices in ("GPU", "first:DLA0,second:DLA0"):
            prediction = edgedla.predict(scanned(trips), target="orin", precision="fp16", devices=devices, use_unknown=True)
            of[trips, devices[0]] = prediction.latency.latency_us
    prices = CostModel.load(edgedla.platform_for("orin"), "fp16")
    tensor = edgedla.load_onnx(scanned(10), trt="10.3").tensors["scan"]
    each_pass = prices.loadable().latency_us + 2 * prices.transition(tensor, "GPU", "DLA0").latency_us
    more = (of[30, "f"] - of[10, "f"]) / 20
    assert more > each_pass
    assert of[10, "f"] < 2 * 10 * more


def test_pins_of_a_prediction_may_use_unknown_layers_if_asked_to() -> None:
    model = choosing(1, 1)
    prediction = edgedla.predict(model, target="orin", devices="conv_t0:DLA0,*:GPU", use_unknown=True)
    assert prediction.streams[0].layers["DLA0"] == 1
    with pytest.raises(edgedla.UsageError, match="GEN006"):
        edgedla.predict(model, target="orin", devices="conv_t0:DLA0,*:GPU")
