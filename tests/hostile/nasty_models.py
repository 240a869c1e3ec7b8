"""Small ONNX models that once hung, filled the memory or crashed, and similar ones; each made by a function of its size."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.models import ints, onnx_model

F = TensorProto.FLOAT


def model(
    nodes: Sequence[NodeProto],
    *,
    dims: Optional[Sequence[Any]] = (1, 8, 4, 4),
    constants: Sequence[TensorProto] = (),
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    opset: int = 13,
) -> ModelProto:
    return onnx_model(nodes, dict.fromkeys(inputs, dims), outputs, constants, opset=opset, name="nasty")


def shape_squares(count: int) -> ModelProto:
    """A dynamic shape squared again and again: 8 ** (2 ** count)."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    nodes += [helper.make_node("Mul", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Reshape", ["x", f"s{count}"], ["y"]))
    return model(nodes, dims=("N", 8, "H", "W"))


def shape_sums(count: int) -> ModelProto:
    """A long chain of arithmetic on a dynamic shape."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    nodes += [helper.make_node("Add", [f"s{i}", "zero"], [f"s{i + 1}"]) for i in range(count)]
    nodes.append(helper.make_node("Reshape", ["x", f"s{count}"], ["y"]))
    return model(nodes, dims=("N", 8, "H", "W"), constants=[ints("zero", 0)])


def shape_doubles(count: int) -> ModelProto:
    """A shape concatenated with itself again and again: 4 * 2 ** count elements."""
    nodes = [helper.make_node("Shape", ["x"], ["s0"])]
    nodes += [helper.make_node("Concat", [f"s{i}", f"s{i}"], [f"s{i + 1}"], axis=0) for i in range(count)]
    nodes.append(helper.make_node("Reshape", ["x", f"s{count}"], ["y"]))
    return model(nodes, dims=("N", 8, "H", "W"))


def _relus(count: int) -> List[NodeProto]:
    return [helper.make_node("Relu", ["x"], [f"r{i}"], name=f"relu{i}") for i in range(count)]


def wide_concat(count: int) -> ModelProto:
    """One Concat of many branches."""
    return model([*_relus(count), helper.make_node("Concat", [f"r{i}" for i in range(count)], ["y"], axis=1)])


def wide_sum(count: int) -> ModelProto:
    """One Sum of many branches."""
    return model([*_relus(count), helper.make_node("Sum", [f"r{i}" for i in range(count)], ["y"])])


def sum_of_one(count: int) -> ModelProto:
    """One Sum that reads its input many times."""
    return model([helper.make_node("Sum", ["x"] * count, ["y"])])


def fan_out(count: int) -> ModelProto:
    """One tensor read by many layers, all of them outputs."""
    return model(_relus(count), outputs=[f"r{i}" for i in range(count)])


def diamonds(count: int) -> ModelProto:
    """Branches that part and meet again, one after the other."""
    nodes, at = [], "x"
    for i in range(count):
        nodes.append(helper.make_node("Relu", [at], [f"a{i}"], name=f"a{i}"))
        nodes.append(helper.make_node("Sigmoid", [at], [f"b{i}"], name=f"b{i}"))
        at = "y" if i == count - 1 else f"c{i}"
        nodes.append(helper.make_node("Add", [f"a{i}", f"b{i}"], [at], name=f"c{i}"))
    return model(nodes)


def bipartite(count: int) -> ModelProto:
    """`count` layers that are all read by each of `count` others: count ** 2 edges."""
    nodes = _relus(count)
    read = [f"r{i}" for i in range(count)]
    nodes += [helper.make_node("Sum", read, [f"t{i}"], name=f"sum{i}") for i in range(count)]
    return model(nodes, outputs=[f"t{i}" for i in range(count)])


def chain(count: int, op: str = "Relu", opset: int = 13) -> ModelProto:
    """One layer after the other."""
    names = ["x", *(f"r{i}" for i in range(count - 1)), "y"]
    return model([helper.make_node(op, [a], [b], name=f"{op}_{b}") for a, b in zip(names, names[1:])], opset=opset)


def alternating(count: int) -> ModelProto:
    """Layers that the DLA runs and layers that it does not, in turn."""
    names = ["x", *(f"r{i}" for i in range(count - 1)), "y"]
    ops = ("Relu", "Erf")
    return model([helper.make_node(ops[i % 2], [a], [b], name=f"n{i}") for i, (a, b) in enumerate(zip(names, names[1:]))])


def empty_nodes(count: int) -> ModelProto:
    """Many nodes without a name, an operator, inputs or outputs."""
    tiny = model([helper.make_node("Relu", ["x"], ["y"])])
    # A node field of length 0, written as protobuf would; helper would need seconds.
    graph = tiny.graph.SerializeToString() + b"\x0a\x00" * count
    tiny.graph.ParseFromString(graph)
    return tiny


def nested_ifs(depth: int) -> ModelProto:
    """If in If in If, both branches alike."""
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["b0"])], "b", [], [helper.make_tensor_value_info("b0", F, None)])
    for level in range(1, depth):
        node = helper.make_node("If", ["cond"], [f"b{level}"], then_branch=branch, else_branch=branch)
        branch = helper.make_graph([node], f"b{level}", [], [helper.make_tensor_value_info(f"b{level}", F, None)])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["cond"], to=TensorProto.BOOL),
        helper.make_node("If", ["cond"], ["y"], then_branch=branch, else_branch=branch),
    ]
    return model(nodes)


def nested_functions(depth: int, calls: int = 2) -> ModelProto:
    """Functions that call functions: calls ** depth nodes in a file of a few kilobytes."""
    domains = [helper.make_opsetid("", 15), helper.make_opsetid("local", 1)]
    functions = []
    for level in range(depth):
        names = ["a", *(f"t{k}" for k in range(calls - 1)), "b"]
        op, domain = ("Relu", "") if level == 0 else (f"f{level - 1}", "local")
        body = [helper.make_node(op, [a], [b], domain=domain) for a, b in zip(names, names[1:])]
        functions.append(helper.make_function("local", f"f{level}", ["a"], ["b"], body, domains))
    built = model([helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="local")], opset=15)
    built.opset_import.append(domains[1])
    built.functions.extend(functions)
    return built


def huge_batch(batch: int) -> ModelProto:
    """A small file whose tensors are gigabytes."""
    weights = numpy_helper.from_array(np.ones((8, 8, 3, 3), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Relu", ["c"], ["y"])]
    return model(nodes, dims=(batch, 8, 16, 16), constants=[weights])


def odd_names() -> ModelProto:
    """Names with escapes of the terminal, line ends of other alphabets, quotes, NUL, and text that turns direction."""
    names = ["x", "\x1b[2J\x1b]0;owned\x07", "a\r\nb", "\x9b31m", "\u2028\u202e", "\0n", "'\"`$(id)", "y"]
    return model([helper.make_node("Relu", [a], [b], name=f"node {b}") for a, b in zip(names, names[1:])])


def domain_without_opset() -> ModelProto:
    """An operator of a domain that no opset_import names."""
    built = model([helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Relu", ["m"], ["y"])])
    built.graph.node[0].domain = "com.example"
    return built


def function_named_like_an_operator() -> ModelProto:
    """A model function with the name of an operator of ONNX."""
    built = model([helper.make_node("Relu", ["x"], ["y"])], opset=15)
    body = helper.make_function("", "Relu", ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])], [helper.make_opsetid("", 15)])
    built.functions.append(body)
    return built


#: name -> a model large enough to show what grows faster than it should: just below a limit, or far beyond it.
LARGE: Dict[str, Callable[[], ModelProto]] = {
    "wide_concat": lambda: wide_concat(20_000),
    "wide_sum": lambda: wide_sum(25_000),
    "sum_of_one": lambda: sum_of_one(2_000_000),
    "fan_out": lambda: fan_out(50_000),
    "diamonds": lambda: diamonds(16_000),
    "bipartite": lambda: bipartite(220),
    "bipartite_400": lambda: bipartite(400),
    "chain": lambda: chain(50_000),
    "alternating": lambda: alternating(20_000),
    "empty_nodes": lambda: empty_nodes(3_000_000),
    "nested_functions": lambda: nested_functions(23),
    "wide_functions": lambda: nested_functions(6, 10),
}

#: name -> a model of a few kilobytes.
SMALL: Dict[str, Callable[[], ModelProto]] = {
    "shape_squares_16": lambda: shape_squares(16),
    "shape_squares_40": lambda: shape_squares(40),
    "shape_sums": lambda: shape_sums(400),
    "shape_doubles": lambda: shape_doubles(40),
    "wide_concat": lambda: wide_concat(200),
    "wide_sum": lambda: wide_sum(200),
    "fan_out": lambda: fan_out(200),
    "diamonds": lambda: diamonds(40),
    "bipartite": lambda: bipartite(12),
    "alternating": lambda: alternating(80),
    "nested_ifs": lambda: nested_ifs(12),
    "nested_functions": lambda: nested_functions(6),
    "odd_names": odd_names,
    "domain_without_opset": domain_without_opset,
    "function_named_like_an_operator": function_named_like_an_operator,
}
