"""Models of stages: together they compute what the whole model computes, and each has the same layers as in it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgedla.builder.chain.check_stage_layers import same_layers
from edgedla.builder.chain.extract import StageModel, extract, node_groups
from edgedla.errors import BuildError
from edgedla.importers import load_onnx
from edgedla.quantization.session import open_session
from tests.models import ints, node, onnx_model

F = TensorProto.FLOAT
SIZE = [1, 4, 6, 6]


def weights(name: str, *dims: int) -> Any:
    rng = np.random.default_rng(sum(map(ord, name)))
    return numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32) * 0.3, name)


def model_of(
    nodes: Sequence[Any], outputs: Dict[str, Any], constants: Sequence[Any] = (), inputs: Sequence[str] = ("x",), **more: Any
) -> Any:
    return onnx_model(nodes, dict.fromkeys(inputs, SIZE), outputs, constants, **more)


def conv(source: str, target: str, name: str = "") -> Any:
    return helper.make_node("Conv", [source, "w"], [target], name=name, pads=[1, 1, 1, 1])


W = weights("w", 4, 4, 3, 3)


def line() -> Any:
    nodes = [conv("x", "a"), helper.make_node("Relu", ["a"], ["b"]), conv("b", "c"), helper.make_node("Relu", ["c"], ["y"])]
    return model_of(nodes, {"y": SIZE}, [W])


def early_output_and_late_input() -> Any:
    nodes = [
        conv("x", "a", "first"),
        node("Relu", "a", "y1", name="relu"),
        conv("y1", "b", "second"),
        node("Add", "b x2", "y2", name="add"),
    ]
    return model_of(nodes, {"y1": SIZE, "y2": SIZE}, [W], ("x", "x2"))


def skip() -> Any:
    nodes = [conv("x", "a", "c1"), conv("a", "b", "c2"), conv("b", "c", "c3"), node("Add", "a c", "y", name="add")]
    return model_of(nodes, {"y": SIZE}, [W])


def shape_of_an_earlier_stage() -> Any:
    """Numbers of channels and rows from a Shape, for a Reshape two stages later."""
    nodes = [
        conv("x", "a", "c1"),
        node("Shape", "a", "s", name="shape"),
        conv("a", "b", "c2"),
        node("Gather", "s one", "s1", name="gather"),
        node("Concat", "n s1 rest", "dims", name="dims", axis=0),
        node("Reshape", "b dims", "y", name="reshape"),
    ]
    return model_of(nodes, {"y": [1, 4, 36]}, [W, ints("one", 1), ints("n", 1), ints("rest", -1)])


def shared_constant() -> Any:
    """One Constant node that layers of several stages read."""
    value = numpy_helper.from_array(np.full((1, 4, 1, 1), 0.5, np.float32), "half_value")
    nodes = [
        node("Constant", "", "half", name="constant", value=value),
        node("Mul", "x half", "a", name="m1"),
        node("Relu", "a", "b", name="relu"),
        node("Mul", "b half", "y", name="m2"),
    ]
    return model_of(nodes, {"y": SIZE})


def branch_that_reads_from_outside() -> Any:
    """An If whose branches read a tensor, and a weight, of the graph around them."""
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["a", "k"], [f"{op}_out"], name=op)],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_out", F, SIZE)],
        )
        for op in ("Add", "Sub")
    ]
    nodes = [
        conv("x", "a", "c1"),
        node("ReduceMax", "a", "most", name="most", keepdims=0),
        node("Greater", "most zero", "cond", name="greater"),
        conv("a", "b", "c2"),
        node("If", "cond", "chosen", name="if", then_branch=branches[0], else_branch=branches[1]),
        node("Add", "b chosen", "y", name="add"),
    ]
    zero = numpy_helper.from_array(np.asarray(0, np.float32), "zero")
    return model_of(nodes, {"y": SIZE}, [W, zero, weights("k", 1, 4, 1, 1)])


def local_function() -> Any:
    function = helper.make_function(
        "own", "Twice", ["i"], ["o"], [helper.make_node("Add", ["i", "i"], ["o"])], [helper.make_opsetid("", 13)]
    )
    nodes = [conv("x", "a", "c1"), node("Twice", "a", "b", name="twice", domain="own"), conv("b", "y", "c2")]
    model = model_of(nodes, {"y": SIZE}, [W], functions=[function])
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def disordered() -> Any:
    """The nodes of a line in reverse order, which ONNX forbids and TensorRT's parser sorts."""
    model = line()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


NETS: Dict[str, Callable[[], Any]] = {
    f.__name__: f
    for f in (
        line,
        early_output_and_late_input,
        skip,
        shape_of_an_earlier_stage,
        shared_constant,
        branch_that_reads_from_outside,
        local_function,
    )
}


def all_cuts(model: Any, trt: Tuple[int, ...], stages: int) -> Tuple[Any, List[List[Tuple[int, ...]]]]:
    """The graph, and every way to cut its nodes, in order, into so many stages."""
    graph = load_onnx(model, trt=trt)
    groups = [g for g in node_groups(graph) if g]
    cuts = []
    for a in range(1, len(groups)):
        for b in range(a + 1, len(groups)) if stages == 3 else [len(groups)]:
            parts = [groups[:a], groups[a:b], groups[b:]][:stages]
            cuts.append([tuple(sorted(i for g in part for i in g)) for part in parts])
    return graph, cuts


def composed(models: Sequence[StageModel], feed: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    values = dict(feed)
    for made in models:
        onnx.checker.check_model(made.model)
        session = open_session(made.model.SerializeToString(), optimize=False)
        assert {i.name for i in session.get_inputs()} == set(made.inputs)
        found = session.run(list(made.outputs), {n: values[n] for n in made.inputs})
        assert not set(made.outputs) & set(values), "a tensor is made twice"
        values.update(zip(made.outputs, found))
    return values


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("trt", [(8, 5), (10, 3)], ids=["8.5", "10.3"])
@pytest.mark.parametrize("name", sorted(NETS))
def test_every_cut_of_a_network_is_bit_exact(name: str, trt: Tuple[int, ...], stages: int) -> None:
    model = NETS[name]()
    graph, cuts = all_cuts(model, trt, stages)
    whole = open_session(model.SerializeToString(), optimize=False)
    rng = np.random.default_rng(5)
    feed = {i.name: rng.standard_normal(SIZE).astype(np.float32) for i in whole.get_inputs()}
    names = [o.name for o in whole.get_outputs()]
    want = whole.run(names, feed)
    assert cuts
    for cut in cuts:
        made = extract(model, graph, cut)
        for layers, part in zip(cut, made):
            stage = load_onnx(part.model, trt=trt)
            assert len(same_layers(graph, layers, stage).layers) == len(layers)
            assert stage.outputs == part.outputs
        found = composed(made, feed)
        for n, value in zip(names, want):
            np.testing.assert_array_equal(found[n], value, err_msg=f"{name} {cut}")


def cut_after(model: Any, tensor: str) -> Tuple[StageModel, ...]:
    graph = load_onnx(model)
    layers = [layer.index for layer in graph.layers]
    producer = graph.producer(tensor)
    assert producer is not None
    return extract(model, graph, [layers[: producer + 1], layers[producer + 1 :]])


def test_stages_keep_tensor_names_and_export_only_tensors_read_later() -> None:
    first, second = cut_after(skip(), "b")
    assert (first.inputs, first.outputs) == (("x",), ("a", "b"))
    assert (second.inputs, second.outputs) == (("a", "b"), ("y",))
    assert [n.name for n in second.model.graph.node] == ["c3", "add"]
    assert [o.type.tensor_type.elem_type for o in first.model.graph.output] == [F, F]


def test_early_outputs_and_late_inputs_belong_to_their_own_stage() -> None:
    first, second = cut_after(early_output_and_late_input(), "y1")
    assert (first.inputs, first.outputs) == (("x",), ("y1",))
    assert (second.inputs, second.outputs) == (("x2", "y1"), ("y2",))


def test_a_shape_read_across_a_cut_becomes_a_constant() -> None:
    first, second = cut_after(shape_of_an_earlier_stage(), "b")
    assert first.outputs == ("b",)
    assert second.inputs == ("b",)
    constants = {i.name: numpy_helper.to_array(i) for i in second.model.graph.initializer}
    assert constants["s"].tolist() == SIZE
    assert "shape" not in [n.name for n in second.model.graph.node]
    handed = extract(shape_of_an_earlier_stage(), load_onnx(shape_of_an_earlier_stage()), [(0, 1), (2,)], sizes_known=False)
    assert handed[1].inputs == ("a", "b")


def test_an_unread_input_stays_an_input() -> None:
    model = line()
    model.graph.input.append(helper.make_tensor_value_info("unused", F, [1]))
    first, second = cut_after(model, "b")
    assert first.inputs == ("x", "unused")
    assert second.inputs == ("b",)


def test_open_dims_take_the_sizes_of_the_build() -> None:
    model = line()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    graph = load_onnx(model, batch=2)
    _, second = extract(model, graph, [(0, 1), (2, 3)])
    dims = [d.dim_value for d in second.model.graph.input[0].type.tensor_type.shape.dim]
    assert dims == [2, 4, 6, 6]
    with pytest.raises(BuildError, match="'b' goes from one stage to another, and its size is known only at run time"):
        extract(model, load_onnx(model), [(0, 1), (2, 3)])


def test_metadata_and_operator_sets_are_kept() -> None:
    model = local_function()
    model.metadata_props.add(key="author", value="me")
    for made in cut_after(model, "a"):
        assert [(p.key, p.value) for p in made.model.metadata_props] == [("author", "me")]
        assert {o.domain: o.version for o in made.model.opset_import} == {"": 13, "own": 1}
        assert [f.name for f in made.model.functions] == ["Twice"]


def test_a_model_with_unsorted_nodes_is_cut_correctly() -> None:
    made = cut_after(disordered(), "b")
    x = np.random.default_rng(1).standard_normal(SIZE).astype(np.float32)
    want = open_session(line().SerializeToString(), optimize=False).run(None, {"x": x})[0]
    np.testing.assert_array_equal(composed(made, {"x": x})["y"], want)


def test_an_unread_stage_is_refused_naming_its_layers() -> None:
    nodes = [conv("x", "y", "c1"), conv("y", "unread", "c2"), conv("unread", "unread2", "c3")]
    model = model_of(nodes, {"y": SIZE}, [W])
    graph = load_onnx(model, trt=(10, 3))
    with pytest.raises(BuildError, match="outputs nothing reads: c2, c3"):
        extract(model, graph, [(0,), (1, 2)])
    assert [m.outputs for m in extract(model, graph, [(0, 1, 2)])] == [("y",)]


def test_an_input_that_is_an_output_cannot_be_cut() -> None:
    model = line()
    model.graph.output.append(helper.make_tensor_value_info("x", F, SIZE))
    with pytest.raises(BuildError, match="input 'x' is also an output"):
        extract(model, load_onnx(model), [(0, 1), (2, 3)])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda m: m.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("pads", [1, 1, 1, 2])),
            "other parameters: post_padding",
        ),
        (lambda m: m.graph.node[1].CopyFrom(helper.make_node("Sigmoid", ["a"], ["b"])), "alone it is ACTIVATION of Sigmoid"),
        (lambda m: m.graph.node.pop(), "is missing"),
        (lambda m: m.graph.node.append(helper.make_node("Relu", ["b"], ["more"])), "is one more"),
        (
            lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[2], "dim_value", 9),
            r"^net: .* it reads x 1x4x6x6 FLOAT and alone x 1x4x9x6 FLOAT\n  pin the layers",
        ),
    ],
)
def test_a_stage_that_imports_as_other_layers_is_refused(change: Callable[[Any], Any], why: str) -> None:
    model = line()
    graph = load_onnx(model)
    stage = extract(model, graph, [(0, 1), (2, 3)])[0].model
    change(stage)
    if why == "is missing":
        stage.graph.output[0].name = "a"
    with pytest.raises(BuildError, match=why):
        same_layers(graph, (0, 1), load_onnx(stage))
