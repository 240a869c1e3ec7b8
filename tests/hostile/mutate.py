"""Structure-aware damage to ONNX models: what a broken exporter, a fuzzer or an attacker would write."""

from __future__ import annotations

import random
from typing import Any, Callable, List

import onnx
from onnx import AttributeProto, TensorProto, helper

INTEGERS = [0, 1, -1, 2, 3, 7, 255, 65536, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan")]
NAMES = ["", "x", "y", "\0", "\x1b[2J", "a\nb", "\u2028", "\x9b", "../../etc/passwd", "a" * 5000, "'\"`$(id)", "%s{0}"]
OPERATORS = (
    "Conv ConvTranspose Gemm MatMul Relu Sigmoid Softmax Concat Split Slice Reshape Transpose Squeeze Unsqueeze Flatten "
    "Gather GatherND ScatterND Resize Upsample Pad MaxPool AveragePool GlobalAveragePool BatchNormalization LayerNormalization "
    "InstanceNormalization LRN Add Sub Mul Div Pow Min Max Sum Mean Clip Cast Shape Size ConstantOfShape Expand Tile Where "
    "Range TopK NonZero NonMaxSuppression Loop Scan If LSTM GRU RNN CumSum Einsum QuantizeLinear DequantizeLinear Erf Gelu "
    "ReduceMean ReduceSum ReduceMax ArgMax HardSigmoid PRelu LeakyRelu Identity Dropout OneHot RoiAlign GridSample DeformConv "
    "Compress Trilu IsNaN Mod SpaceToDepth DepthToSpace NoSuchOperator"
).split()

Mutation = Callable[[Any, random.Random], None]


def _node(graph: Any, rng: random.Random) -> Any:
    return rng.choice(graph.node) if graph.node else graph.node.add()


def _tensors(graph: Any) -> List[str]:
    names = [i.name for i in graph.input] + [i.name for i in graph.initializer]
    return names + [o for node in graph.node for o in node.output] or ["x"]


def a_dim(graph: Any, rng: random.Random) -> None:
    entries = [*graph.input, *graph.output, *graph.value_info]
    shape = rng.choice(entries).type.tensor_type.shape if entries else None
    if shape is None or not shape.dim or rng.random() < 0.2:
        (shape or graph.input.add().type.tensor_type.shape).dim.add().dim_value = rng.choice(INTEGERS)
    elif rng.random() < 0.3:
        rng.choice(shape.dim).dim_param = rng.choice(NAMES)
    else:
        rng.choice(shape.dim).dim_value = rng.choice(INTEGERS)


def an_element_type(graph: Any, rng: random.Random) -> None:
    entries = [*graph.input, *graph.output, *graph.value_info]
    if entries:
        rng.choice(entries).type.tensor_type.elem_type = rng.randrange(-1, 30)


def an_attribute(graph: Any, rng: random.Random) -> None:
    node = _node(graph, rng)
    if not node.attribute:
        node.attribute.append(helper.make_attribute(rng.choice(["axis", "kernel_shape", "pads", "perm", "to"]), 1))
    attribute = rng.choice(node.attribute)
    kind = rng.randrange(7)
    if kind == 0:
        attribute.i = rng.choice(INTEGERS)
    elif kind == 1:
        attribute.f = rng.choice(FLOATS)
    elif kind == 2:
        del attribute.ints[:]
        attribute.ints.extend(rng.choice(INTEGERS) for _ in range(rng.choice([0, 1, 2, 3, 4, 8, 100])))
    elif kind == 3:
        attribute.s = rng.choice(NAMES).encode() + bytes([rng.randrange(256)])
    elif kind == 4:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    elif kind == 5:
        node.attribute.remove(attribute)
    else:
        attribute.name = rng.choice(["axis", "axes", "kernel_shape", "strides", "pads", "group", "body", "mode", ""])


def an_operator(graph: Any, rng: random.Random) -> None:
    node = _node(graph, rng)
    node.op_type = rng.choice(OPERATORS)
    if rng.random() < 0.1:
        node.domain = rng.choice(["", "ai.onnx", "com.microsoft", "trt.plugins", "\x1b"])


def an_edge(graph: Any, rng: random.Random) -> None:
    """Cycles, forward references, inputs that are missing, there twice, or of another network."""
    node, names = _node(graph, rng), _tensors(graph)
    kind = rng.randrange(6)
    if kind == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, "absent", ""])
    elif kind == 1:
        node.input.append(rng.choice(names))
    elif kind == 2 and node.input:
        del node.input[rng.randrange(len(node.input)) :]
    elif kind == 3 and node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice([*names, *NAMES])
    elif kind == 4:
        node.output.append(rng.choice(names))
    elif graph.output:
        rng.choice(graph.output).name = rng.choice([*names, "absent"])


def the_nodes(graph: Any, rng: random.Random) -> None:
    nodes = list(graph.node)
    kind = rng.randrange(4)
    if kind == 0 and nodes:
        nodes.pop(rng.randrange(len(nodes)))
    elif kind == 1 and nodes:
        nodes += [rng.choice(nodes) for _ in range(rng.choice([1, 5, 50]))]
    elif kind == 2:
        rng.shuffle(nodes)
    else:
        nodes.append(helper.make_node(rng.choice(OPERATORS), [rng.choice(_tensors(graph))], ["new"]))
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def a_constant(graph: Any, rng: random.Random) -> None:
    tensors = list(graph.initializer) + [a.t for n in graph.node for a in n.attribute if a.HasField("t")]
    tensor = rng.choice(tensors) if tensors else graph.initializer.add(name=rng.choice(_tensors(graph)))
    kind = rng.randrange(6)
    if kind == 0:
        tensor.data_type = rng.randrange(-1, 30)
    elif kind == 1:
        tensor.dims.append(rng.choice(INTEGERS))
    elif kind == 2 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(INTEGERS)
    elif kind == 3:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)] + bytes(rng.choice([0, 1, 8]))
    elif kind == 4:
        tensor.raw_data = bytes(rng.randrange(256) for _ in range(min(64, len(tensor.raw_data) or 8)))
    else:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=rng.choice(["absent.bin", "../x", "/etc/passwd", "", "a/../../b"]))
        tensor.external_data.add(key="offset", value=rng.choice(["-1", "x", str(2**63), "0"]))


def a_name(graph: Any, rng: random.Random) -> None:
    old, new = rng.choice(_tensors(graph)), rng.choice(NAMES)
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
    for entry in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        entry.name = new if entry.name == old else entry.name
    _node(graph, rng).name = rng.choice(NAMES)


def a_subgraph(graph: Any, rng: random.Random) -> None:
    """The graph, cut short, as body of one of its own nodes."""
    body = onnx.GraphProto.FromString(graph.SerializeToString())
    del body.node[5:]
    node = _node(graph, rng)
    node.op_type = rng.choice(["If", "Loop", "Scan"])
    for name in {"If": ["then_branch", "else_branch"]}.get(node.op_type, ["body"]):
        node.attribute.append(helper.make_attribute(name, body))


def a_plausible_number(graph: Any, rng: random.Random) -> None:
    """Another size, kernel, stride or axis that may well be legal: the wounds that pass the importer."""
    node = _node(graph, rng)
    ints = [a for a in node.attribute if a.ints]
    single = [a for a in node.attribute if a.type == AttributeProto.INT]
    if ints and rng.random() < 0.6:
        attribute = rng.choice(ints)
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice([0, 1, 2, 3, 4, 5, 8, 33, -1])
    elif single and rng.random() < 0.6:
        rng.choice(single).i = rng.choice([0, 1, 2, 3, -1, -2])
    else:
        entries = [i for i in graph.input if i.type.tensor_type.shape.dim]
        if entries:
            dim = rng.choice(rng.choice(entries).type.tensor_type.shape.dim)
            dim.dim_value = rng.choice([1, 2, 3, 7, 8, 16, 31, 64, 225, 1024])


def a_layer_between(graph: Any, rng: random.Random) -> None:
    """One more operator on an edge, as a legal network could have it."""
    edges = [(node, i) for node in graph.node for i, name in enumerate(node.input) if name]
    if not edges:
        return
    node, i = rng.choice(edges)
    name = f"between_{rng.randrange(10**9)}"
    made = helper.make_node(rng.choice(UNARY), [node.input[i]], [name], name=name)
    node.input[i] = name
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in graph.node]
    nodes.insert(next(k for k, n in enumerate(graph.node) if n is node or name in n.input), made)
    del graph.node[:]
    graph.node.extend(nodes)


def a_join(graph: Any, rng: random.Random) -> None:
    """A sum, product or concatenation of two tensors that are there, as a further output."""
    tensors = _tensors(graph)
    op = rng.choice(["Add", "Mul", "Concat", "Sub", "Max", "MatMul"])
    extra = {"axis": rng.choice([0, 1, -1])} if op == "Concat" else {}
    name = f"join_{rng.randrange(10**9)}"
    graph.node.append(helper.make_node(op, [rng.choice(tensors), rng.choice(tensors)], [name], name=name, **extra))
    graph.output.add(name=name)


UNARY = "Relu Sigmoid Tanh Erf Abs Neg Exp Sqrt Identity Softmax HardSwish Flatten Shape Transpose Clip Floor Not".split()

#: Every second wound is one that a working model could have.
PLAUSIBLE: List[Mutation] = [a_plausible_number, a_plausible_number, a_layer_between, a_layer_between, a_join]
ON_GRAPH: List[Mutation] = [
    a_dim,
    a_dim,
    an_element_type,
    an_attribute,
    an_attribute,
    an_operator,
    an_edge,
    an_edge,
    the_nodes,
    a_constant,
    a_constant,
    a_name,
    a_subgraph,
]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to six wounds in a serialised model; in every tenth the bytes themselves."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 1, 1, 2, 3, 6])):
        try:
            if rng.random() < 0.05:
                version = rng.choice([0, -1, 1, 6, 9, 13, 17, 21, 30, 10**9])
                target = rng.choice(list(model.opset_import) or [model.opset_import.add()])
                target.version = version
            else:
                rng.choice(PLAUSIBLE if rng.random() < 0.5 else ON_GRAPH)(model.graph, rng)
        except (ValueError, TypeError, IndexError):
            # protobuf refuses some values, such as a half of a surrogate pair; the other wounds stay.
            continue
    out = bytearray(model.SerializeToString())
    if rng.random() < 0.1 and out:
        for _ in range(rng.randrange(1, 8)):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del out[rng.randrange(len(out)) :]
    return bytes(out)
