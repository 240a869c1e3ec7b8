"""Broken, strange and hostile variants of working models: each gives a graph or a ModelError, in bounded time."""

from __future__ import annotations

import contextlib
import random
import time
import warnings

import onnx
import pytest
from onnx import AttributeProto, TensorProto

from edgedla.errors import ModelError
from edgedla.graph.document import to_document
from edgedla.importers import load_onnx, onnx_model
from tests.importers.parser_probes import model_of, probes

PROBES = probes()
#: Longest time for one small model, with room for a busy machine.
SECONDS = 20.0
INTEGERS = (0, 1, -1, 2, 3, 7, -2, 1000, 1 << 20, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-30, 3.4e38, float("inf"), float("-inf"), float("nan"))
STRINGS = (b"", b"linear", b"nearest", b"SAME_UPPER", b"VALID", b"constant", b"sum", b"\xff\xfe", b"a" * 1000, b"...ij,jk->")


def checked(what, trt):
    """A graph whose document can be written, or a ModelError."""
    began = time.process_time()
    graph = None
    with contextlib.suppress(ModelError):
        graph = load_onnx(what, trt=trt)
    assert time.process_time() - began < SECONDS
    if graph is None:
        return
    document = to_document(graph)
    assert len(document["layers"]) == len(graph.layers)
    for layer in graph.layers:
        assert all(name in graph.tensors for name in (*layer.outputs, *filter(None, layer.inputs)))


def base(rng):
    probe = rng.choice(PROBES)
    return model_of(probe["model"])


def with_bytes_changed(rng):
    data = bytearray(base(rng).SerializeToString())
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        if not data:
            break
    return bytes(data)


def change_attribute(rng, proto):
    node = rng.choice(proto.graph.node)
    if not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(INTEGERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice(STRINGS)
    elif attribute.type == AttributeProto.INTS:
        count = rng.choice((0, 1, len(attribute.ints), len(attribute.ints) + 1, 9))
        del attribute.ints[:]
        attribute.ints.extend(rng.choice(INTEGERS) for _ in range(count))
    elif attribute.type == AttributeProto.GRAPH:
        change(rng, attribute.g)


def retype_attribute(rng, proto):
    node = rng.choice(proto.graph.node)
    if node.attribute:
        attribute = rng.choice(node.attribute)
        name = attribute.name
        attribute.CopyFrom(
            rng.choice(
                (
                    onnx.helper.make_attribute(name, 3),
                    onnx.helper.make_attribute(name, 1.5),
                    onnx.helper.make_attribute(name, b"text"),
                    onnx.helper.make_attribute(name, [1, 2, 3]),
                    onnx.helper.make_attribute(name, [1.0]),
                    onnx.helper.make_attribute(name, TensorProto()),
                )
            )
        )


def drop_attribute(rng, proto):
    node = rng.choice(proto.graph.node)
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def change_dims(rng, proto):
    value = rng.choice(proto.graph.input)
    dims = value.type.tensor_type.shape.dim
    kind = rng.randrange(5)
    if kind == 0 or not dims:
        dims.add().dim_value = rng.choice((1, 2, 5))
    elif kind == 1:
        del dims[rng.randrange(len(dims))]
    elif kind == 2:
        rng.choice(dims).dim_value = rng.choice(INTEGERS)
    elif kind == 3:
        rng.choice(dims).dim_param = "n"
    else:
        value.type.tensor_type.ClearField("shape")


def change_type(rng, proto):
    value = rng.choice(proto.graph.input)
    value.type.tensor_type.elem_type = rng.randrange(0, 24)


def change_inputs(rng, proto):
    node = rng.choice(proto.graph.node)
    kind = rng.randrange(4)
    if kind == 0 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif kind == 1 and node.input:
        node.input[rng.randrange(len(node.input))] = ""
    elif kind == 2:
        names = [i.name for i in proto.graph.input] + [i.name for i in proto.graph.initializer]
        if names:
            node.input.append(rng.choice(names))
    elif node.input:
        node.input[0] = rng.choice([name for n in proto.graph.node for name in n.output] or ["x"])


def change_initializer(rng, proto):
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    kind = rng.randrange(5)
    if kind == 0:
        tensor.dims.append(rng.choice((0, 1, 3, -1)))
    elif kind == 1 and tensor.dims:
        tensor.dims[0] = rng.choice(INTEGERS)
    elif kind == 2:
        tensor.data_type = rng.randrange(0, 24)
    elif kind == 3:
        tensor.raw_data = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
    else:
        del tensor.dims[:]


def change_operator(rng, proto):
    other = rng.choice(PROBES)
    node = rng.choice(model_of(other["model"]).graph.node)
    rng.choice(proto.graph.node).op_type = rng.choice((node.op_type, "Nothing", ""))


def change_outputs(rng, proto):
    node = rng.choice(proto.graph.node)
    kind = rng.randrange(3)
    if kind == 0:
        node.output.append("further")
    elif kind == 1 and node.output:
        del node.output[-1]
    else:
        proto.graph.output.add().name = rng.choice(("x", "nowhere", ""))


def change_opset(rng, proto):
    if proto.opset_import:
        proto.opset_import[0].version = rng.choice((0, 1, 5, 6, 8, 9, 10, 11, 12, 13, 18, 21, 1000, -1))


CHANGES = (
    change_attribute,
    change_attribute,
    retype_attribute,
    drop_attribute,
    change_dims,
    change_type,
    change_inputs,
    change_initializer,
    change_operator,
    change_outputs,
    change_opset,
)


def change(rng, graph):
    """One change within a subgraph."""
    if graph.node:
        holder = onnx.ModelProto()
        holder.graph.CopyFrom(graph)
        if rng.random() < 0.5:
            change_attribute(rng, holder)
        else:
            change_inputs(rng, holder)
        graph.CopyFrom(holder.graph)


def with_fields_changed(rng):
    proto = base(rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if proto.graph.node and proto.graph.input:
            rng.choice(CHANGES)(rng, proto)
    return proto


def run(make, seeds):
    """NumPy's warnings would land on the user's screen, so each is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _run(make, seeds)


def _run(make, seeds):
    for seed in seeds:
        rng = random.Random(seed)
        what = make(rng)
        trt = rng.choice(((8, 6), (10, 3)))
        try:
            checked(what, trt)
        except Exception as e:
            e.args = (f"seed {seed}, TensorRT {trt}: {e}",)
            raise


@pytest.fixture(autouse=True)
def _without_shape_inference(monkeypatch):
    """It runs in a process of its own, which would cost more than all the rest."""
    monkeypatch.setattr(onnx_model, "described_tensors", lambda ctx, model: {})


MAKERS = [with_bytes_changed, with_fields_changed]


@pytest.mark.parametrize("make", MAKERS)
def test_hundreds_of_variants_give_a_graph_or_a_model_error(make):
    run(make, range(300))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
@pytest.mark.parametrize("make", MAKERS)
def test_thousands_of_variants_give_a_graph_or_a_model_error(make, block):
    run(make, range(1000 * (block + 1), 1000 * (block + 2)))
