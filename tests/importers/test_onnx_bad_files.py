"""Files that are no ONNX model, broken ones and malicious ones: a ModelError that says what to do, never a traceback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError
from edgedla.importers import load_onnx, walk
from edgedla.importers.model_file import wire
from edgedla.importers.model_file.shape_inference import can_infer_einsum
from edgedla.importers.network import fold
from tests.importers.onnx_models import constant, ints, model, one, output_dims, value, weights

GOOD = one("Conv", {"kernel_shape": [3, 3]}, initializers=[weights("w", 4, 8, 3, 3)]).SerializeToString()


def refused(what, **how):
    with pytest.raises(ModelError) as caught:
        load_onnx(what, **how)
    assert caught.value.exit_code == 3
    return str(caught.value)


def answered(what):
    """A graph, or a ModelError; nothing else."""
    with contextlib.suppress(ModelError):
        load_onnx(what)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "empty"),
        (GOOD[: len(GOOD) // 2], "cut off"),
        (GOOD[:-2], "cut off"),
        (b"\0" * 1000, "not a readable ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n", "git lfs pull"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"ftrt" + b"\0" * 64, "engine"),
        (b"\x18\0\0\0TFL3", "TensorFlow Lite"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b'{"layers": []}', "JSON"),
        (b"ir_version: 8", "text format"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"hello world, this is a note", "not a readable ONNX model"),
        (b"\x08\x08", "no graph"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_files_of_other_formats_are_refused_by_their_format(tmp_path, content, hint):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    message = refused(path)
    assert hint in message
    assert str(path) in message


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    assert "no such file" in refused(tmp_path / "nothing.onnx")
    (tmp_path / "inner.onnx").write_bytes(GOOD)
    assert "inner.onnx" in refused(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(GOOD)
    path.chmod(0)
    assert "cannot be read" in refused(path)


@pytest.mark.parametrize("what", [None, 5, "a\0b", ["m.onnx"], b""], ids=repr)
def test_objects_that_are_not_a_path_are_refused(what):
    refused(what)


def test_a_zip_archive_is_refused_as_one(tmp_path):
    path = tmp_path / "m.onnx"
    with zipfile.ZipFile(path, "w") as f:
        f.writestr("data.pkl", b"0")
    assert "zip" in refused(path)


def graph_of(nodes, inputs=(("x", [1]),), outputs=("y",), initializers=()):
    return model(nodes, [value(n, d) for n, d in inputs], outputs, initializers)


RELU = helper.make_node("Relu", ["x"], ["y"])


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        (graph_of([helper.make_node("Relu", ["b"], ["y"]), helper.make_node("Relu", ["y"], ["b"])]), "cycle"),
        (graph_of([helper.make_node("Relu", ["y"], ["y"])]), "cycle"),
        (graph_of([helper.make_node("Relu", ["q"], ["y"])]), "'q' was not registered"),
        (graph_of([RELU], outputs=("z",)), "'z' was not registered"),
        (graph_of([RELU], outputs=()), "no outputs"),
        (graph_of([RELU], inputs=[("x", [1 << 40, 4])]), "TensorRT allows"),
        (graph_of([helper.make_node("Relu", ["x"], ["y", "z"])]), "more output tensors"),
    ],
    ids=lambda v: v.replace(" ", "_") if isinstance(v, str) else "",
)
def test_invalid_graphs_are_refused_with_the_reason(proto, reason):
    assert reason in refused(proto)


def test_duplicate_names_are_refused_or_renamed():
    twice = graph_of([RELU, helper.make_node("Relu", ["x"], ["y"])])
    answered(twice)
    nodes = [helper.make_node("Relu", ["x"], ["t"], name="n"), helper.make_node("Relu", ["t"], ["y"], name="n")]
    names = [layer.name for layer in load_onnx(graph_of(nodes)).layers]
    assert len(set(names)) == 2


def test_huge_dims_are_imported_without_allocation():
    huge = graph_of(
        [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["c", "x"], ["y"])],
        initializers=[ints("s", 1 << 30, 1 << 30)],
    )
    assert output_dims(huge) == {"y": (1 << 30, 1 << 30)}
    tile = graph_of([helper.make_node("Tile", ["x", "r"], ["y"])], initializers=[ints("r", 1 << 60)])
    answered(tile)


def test_initializers_with_missing_or_short_data_do_not_crash():
    short = one("Reshape", initializers=[ints("s", 1, -1)])
    short.graph.initializer[0].raw_data = b"\1"
    empty = one("Reshape", initializers=[ints("s", 1, -1)])
    empty.graph.initializer[0].ClearField("raw_data")
    for proto in (short, empty):
        answered(proto)


def external(location):
    proto = onnx.load_from_string(GOOD)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return proto.SerializeToString()


def test_missing_external_weights_are_noted_and_not_needed(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(external("weights.bin"))
    graph = load_onnx(path)
    assert [layer.type for layer in graph.layers] == ["CONVOLUTION"]
    assert any("weights.bin" in note for note in graph.notes)


def test_present_external_weights_give_no_note(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(external("weights.bin"))
    (tmp_path / "weights.bin").write_bytes(b"\0" * 4 * 8 * 3 * 3 * 4)
    assert load_onnx(path).notes == ()


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/../../weights.bin"])
def test_external_weights_outside_the_models_folder_are_never_read(tmp_path, location):
    path = tmp_path / "m.onnx"
    path.write_bytes(external(location))
    assert "outside" in refused(path)
    assert refused(path).startswith(f"{path}: ")


def test_an_external_location_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(external("weights.bin").replace(b"weights.bin", b"weights.\xff\xfe\xfd"))
    assert "not UTF-8" in refused(path)
    assert refused(path).startswith(f"{path}: ")


def functions(depth, calls=2, first="Relu"):
    made = []
    for i in range(depth):
        inner, domain = (f"F{i - 1}", "local") if i else (first, "local" if first != "Relu" else "")
        names = ["x", *(f"t{k}" for k in range(1, calls)), "y"]
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in zip(names, names[1:])]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        made.append(helper.make_function("local", f"F{i}", ["x"], ["y"], nodes, opsets))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="local")
    return model([call], [value("x", [1, 8])], ["y"], functions=made)


def test_model_local_functions_are_followed():
    assert [layer.type for layer in load_onnx(functions(3)).layers] == ["ACTIVATION"] * 8


def test_recursive_or_exploding_functions_are_refused(monkeypatch):
    monkeypatch.setattr(walk, "MAX_FUNCTION_NODES", 3000)
    refused(functions(1, first="F0"))
    assert "3000 nodes" in refused(functions(22))


def nested_if(depth):
    node = helper.make_node("Relu", ["x"], ["y0"])
    for i in range(depth):
        body = helper.make_graph([node], f"g{i}", [], [value(f"y{i}", None)])
        node = helper.make_node("If", ["c"], [f"y{i + 1}"], then_branch=body, else_branch=body)
    return model([node], [value("x", [1, 8])], [f"y{depth}"], [constant("c", np.array([True]))])


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_deeply_nested_subgraphs_do_not_crash(depth):
    answered(nested_if(depth))


def test_messages_nested_too_deeply_for_protobuf_are_refused(tmp_path):
    # 60 Ifs, each in the branch of the next: written by hand, for onnx.helper copies the body at each level.
    field = b"\x0a\x01y"
    body = b""
    for _ in range(60):
        attribute = b"\x0a\x01b" + b"\x32" + wire.encoded(len(body)) + body
        node = b"\x22\x02If" + b"\x2a" + wire.encoded(len(attribute)) + attribute
        body = b"\x0a" + wire.encoded(len(node)) + node + b"\x62" + wire.encoded(len(field)) + field
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08" + b"\x3a" + wire.encoded(len(body)) + body)
    message = refused(path)
    assert "nested 60 deep" in message
    assert "cut off" not in message


def test_a_sparse_initializer_is_refused_as_the_parser_does_and_named():
    proto = one("Conv", initializers=[weights("w", 4, 8, 3, 3)])
    sparse = proto.graph.sparse_initializer.add()
    sparse.values.CopyFrom(proto.graph.initializer[0])
    del proto.graph.initializer[:]
    message = refused(proto)
    assert "'w' was not registered" in message
    assert "store it as a dense one" in message


def test_a_long_chain_of_nodes_is_followed_without_recursion():
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(5000)]
    backwards = model(nodes[::-1], [value("t0", [1, 3])], ["t5000"])
    assert len(load_onnx(backwards).layers) == 5000


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("groups", [0, -1])
def test_a_convolution_without_groups_is_refused(op, groups):
    broken = one(op, {"kernel_shape": [3, 3], "group": groups}, initializers=[weights("w", 8, 4, 3, 3)])
    assert f"{op} of {groups} groups" in refused(broken.SerializeToString())


def test_an_empty_tensor_with_a_dim_beyond_numpys_is_imported() -> None:
    """0 x 2^63 - 1 has no elements, and is too large for NumPy all the same."""
    axes = TensorProto(name="axes", data_type=TensorProto.UINT8, dims=[0, 2**63 - 1])
    answered(one("Clip", initializers=[axes]))
    answered(one("Add", initializers=[TensorProto(name="w", data_type=TensorProto.INT64, dims=[0, 2**62, 2**62])]))
    assert fold.typed(np.zeros(0, np.uint8), (0, 2**63 - 1), "INT32") is None
    assert fold.typed(np.zeros(0, np.uint8), (0, 5), "INT32").shape == (0, 5)


@pytest.mark.parametrize(
    ("equation", "can"),
    [
        ("ij,jk->ik", True),
        ("ij, jk", True),
        ("...ij,...jk->...ik", True),
        ("", True),
        ("i,i->", True),
        ("y\033", False),
        ("i1", False),
        ("i_,i->", False),
        ("i.,i", False),
        ("i-", False),
    ],
)
def test_shape_inference_skips_einsum_equations_that_hang_it(equation: str, can: bool) -> None:
    assert can_infer_einsum(equation) == can_infer_einsum(equation.encode()) == can
    # With another rank than the equation's, the inference of onnx 1.17 crashes.
    dims = (5,) * max(sum(c.isalpha() for c in equation.split(",")[0]), 1)
    asked = one("Einsum", {"equation": equation}, dims, inputs=[("b", dims)])
    script = "import sys, onnx; from edgedla.importers.model_file.shape_inference import with_inferred_shapes as w\n"
    script += "w(onnx.ModelProto.FromString(sys.stdin.buffer.read()))"
    done = subprocess.run([sys.executable, "-c", script], input=asked.SerializeToString(), timeout=60, check=False)
    assert done.returncode == 0
