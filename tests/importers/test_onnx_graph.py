"""Properties of a LayerGraph from ONNX: constants, notes, dynamic dims, unknown operators, equal answers for all forms of input."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgedla.errors import ModelError, UsageError
from edgedla.graph.document import to_document
from edgedla.importers import load_onnx
from edgedla.importers.model_file import described_shapes
from tests.importers.onnx_models import constant, ints, model, one, output_dims, types, value, weights
from tests.models import node, onnx_model

CONV = one("Conv", {"kernel_shape": [3, 3]}, initializers=[weights("w", 4, 8, 3, 3)])


def shared_bias():
    return model(
        [helper.make_node("Add", ["x", "b"], ["t"], name="first"), helper.make_node("Add", ["t", "b"], ["y"], name="second")],
        [value("x", [1, 8, 4, 4])],
        ["y"],
        [constant("b", np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1))],
    )


def test_constant_operands_carry_their_source_value_and_users():
    graph = load_onnx(shared_bias())
    operands = [graph.tensors[layer.inputs[1]] for layer in graph.layers]
    assert all(t.is_constant and t.constant_of == "b" for t in operands)
    assert list(operands[0].value.ravel()) == list(range(8))
    assert graph.constant_users == {"b": 2}


def test_constant_layers_are_counted_per_node_but_not_in_the_graph():
    graph = load_onnx(shared_bias())
    assert types(shared_bias()) == ["ELEMENTWISE", "ELEMENTWISE"]
    assert [n.constant_layers for n in graph.nodes] == [("CONSTANT",), ()]


def test_every_layer_names_its_onnx_node():
    proto = one("Conv", dims=(1, 8, 20), initializers=[weights("w", 4, 8, 3)])
    graph = load_onnx(proto)
    assert [n.layers for n in graph.nodes] == [(0, 1, 2)]
    assert {(layer.onnx_node, layer.onnx_op) for layer in graph.layers} == {("n", "Conv")}


def test_path_bytes_and_proto_give_the_same_layers(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(CONV.SerializeToString())
    documents = [to_document(load_onnx(m)) for m in (path, str(path), path.read_bytes(), CONV)]
    for document in documents:
        document.pop("model")
    assert all(d == documents[0] for d in documents)


def test_a_given_proto_is_not_modified():
    before = CONV.SerializeToString()
    load_onnx(CONV)
    assert CONV.SerializeToString() == before


def test_the_graph_has_the_files_name_and_sha256(tmp_path):
    import hashlib

    path = tmp_path / "detector.onnx"
    path.write_bytes(CONV.SerializeToString())
    graph = load_onnx(path)
    assert (graph.name, graph.opset) == ("detector", 17)
    assert graph.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


DYNAMIC = one("Relu", dims=("batch", 3, "height", 4))


def test_dynamic_dims_are_noted_with_the_option_that_fixes_them():
    (note,) = load_onnx(DYNAMIC).notes
    assert note == "input 'x' leaves batch and height open (?x3x?x4); give --shapes x:Nx3xHx4"


def test_a_dynamic_batch_alone_is_noted_with_what_fixes_it():
    (note,) = load_onnx(one("Relu", dims=("batch", 3, 8, 4))).notes
    assert note == "input 'x' leaves batch open (?x3x8x4); give --batch N"


def test_an_open_batch_defaults_to_1_as_in_trtexec_with_a_note():
    graph = load_onnx(one("Relu", dims=("batch", 3, 8, 4)), open_batch=1)
    assert graph.tensors["x"].dims == (1, 3, 8, 4)
    assert graph.notes == ("batch ? taken as 1, as trtexec does; --batch N for another",)
    for how in ({"batch": 4}, {"shapes": {"x": (4, 3, 8, 4)}}):
        graph = load_onnx(one("Relu", dims=("batch", 3, 8, 4)), open_batch=1, **how)
        assert (graph.tensors["x"].dims[0], graph.notes) == (4, ())


def test_open_sizes_beside_the_batch_stay_open():
    graph = load_onnx(DYNAMIC, open_batch=1)
    assert graph.tensors["x"].dims == (1, 3, -1, 4)
    assert [n for n in graph.notes if "--shapes x:1x3xHx4" in n]


@pytest.mark.parametrize(
    ("how", "dims"),
    [
        ({}, (-1, 3, -1, 4)),
        ({"batch": 2}, (2, 3, -1, 4)),
        ({"shapes": {"x": (1, 3, 8, 4)}}, (1, 3, 8, 4)),
        ({"shapes": {"x": (5, 3, 8, 4)}, "batch": 2}, (5, 3, 8, 4)),
    ],
)
def test_shapes_and_batch_fix_dims(how, dims):
    assert output_dims(DYNAMIC, **how) == {"y": dims}


def test_a_given_shape_leaves_no_note_on_dynamic_dims():
    assert load_onnx(DYNAMIC, shapes={"x": (1, 3, 8, 4)}).notes == ()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"shapes": {"z": (1, 3)}}, "not an input"),
        ({"shapes": {"x": (1, 3)}}, "has 2 dims"),
        ({"shapes": {"x": (1, 3, -8, 4)}}, "negative"),
        ({"batch": 0}, "batch of 0"),
    ],
)
def test_shapes_that_do_not_fit_are_errors_of_use(how, message):
    with pytest.raises(UsageError, match=message):
        load_onnx(DYNAMIC, **how)


def test_an_input_without_shape_is_noted_and_its_layers_unknown():
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [value("x", None)], ["y"])
    graph = load_onnx(proto)
    assert "no shape" in graph.notes[0]
    assert output_dims(proto, shapes={"x": (1, 3)}) == {"y": (1, 3)}


def foreign(domain="vendor"):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="before"),
        helper.make_node("FancyNorm", ["a"], ["b"], name="fancy", domain=domain),
        helper.make_node("Relu", ["b"], ["y"], name="behind"),
        helper.make_node("Sigmoid", ["a"], ["z"], name="beside"),
    ]
    return model(nodes, [value("x", [1, 8, 4, 4])], ["y", "z"])


def test_an_unknown_operator_is_one_unknown_layer():
    graph = load_onnx(foreign())
    assert [layer.type for layer in graph.layers] == ["ACTIVATION", "UNKNOWN", "UNKNOWN", "ACTIVATION"]
    reasons = {n.name: n.unknown for n in graph.nodes if n.unknown}
    assert "FancyNorm" in reasons["fancy"]
    assert "shape" in reasons["behind"]
    assert graph.layers[1].params["onnx_op"] == "FancyNorm"


def test_value_info_gives_dims_after_an_unknown_operator():
    proto = foreign()
    proto.graph.value_info.append(value("b", [1, 8, 4, 4]))
    graph = load_onnx(proto)
    assert [layer.type for layer in graph.layers] == ["ACTIVATION", "UNKNOWN", "ACTIVATION", "ACTIVATION"]
    assert graph.tensors["y"].dims == (1, 8, 4, 4)


def test_shape_inference_keeps_the_rank_after_a_slice_with_runtime_bounds():
    nodes = [helper.make_node("Slice", ["x", "s", "e", "a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]
    bounds = [value(n, [1], TensorProto.INT64) for n in "sea"]
    graph = load_onnx(model(nodes, [value("x", [1, 8, 4, 4]), *bounds], ["y"]))
    assert [layer.type for layer in graph.layers if layer.onnx_op == "Relu"] == ["ACTIVATION"]
    assert graph.tensors["y"].dims == (-1, -1, -1, -1)


def test_a_crash_of_shape_inference_leaves_only_its_dims_unknown(monkeypatch):
    monkeypatch.setattr(described_shapes, "CHILD", "import os; os.abort()  # {path}")
    graph = load_onnx(foreign())
    assert [layer.type for layer in graph.layers] == ["ACTIVATION", "UNKNOWN", "UNKNOWN", "ACTIVATION"]


def test_a_standard_operator_without_importer_is_refused_with_the_parsers_reason():
    with pytest.raises(ModelError, match="no importer for the operator Det") as caught:
        load_onnx(one("Det", dims=(1, 4, 4)))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("proto", "reason"),
    [
        (one("Conv", {"group": 3}, initializers=[weights("w", 4, 8, 3, 3)]), "n"),
        (one("Relu", inputs=[], opset=17, dims=[2] * 9), "rank"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [2], TensorProto.STRING)], ["y"]), "type"),
        (model([helper.make_node("Relu", ["x"], ["y"])], [value("x", [2])], ["y"], out_type=TensorProto.COMPLEX64), "type"),
    ],
    ids=["groups", "rank 9", "string input", "complex output"],
)
def test_models_that_the_parser_refuses_are_refused_with_its_reason(proto, reason):
    with pytest.raises(ModelError, match=reason):
        load_onnx(proto)


def test_an_attribute_of_wrong_type_never_crashes_the_import():
    for attributes in ({"kernel_shape": "three"}, {"pads": 1.5}, {"strides": [0, 0]}, {"dilations": [-1, 2]}):
        proto = one("Conv", attributes, initializers=[weights("w", 4, 8, 3, 3)])
        try:
            graph = load_onnx(proto)
        except ModelError:
            continue
        assert len(graph.layers) == 1


def test_large_integer_tables_fold_and_larger_ones_stay_constant():
    for size in (100, 70000):
        proto = model(
            [helper.make_node("Mul", ["i", "two"], ["j"]), helper.make_node("Gather", ["x", "j"], ["y"])],
            [value("x", [8])],
            ["y"],
            [constant("i", np.zeros(size, np.int64)), constant("two", np.array([2], np.int64))],
        )
        assert types(proto) == ["GATHER"]
        assert output_dims(proto) == {"y": (size,)}


def test_a_range_too_large_to_fold_keeps_its_dims():
    proto = model(
        [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])],
        [value("x", [1])],
        ["y"],
        [ints("s", 1000, 1000)],
    )
    assert output_dims(proto) == {"y": (1000, 1000)}


def test_a_plain_network_is_read_without_onnx_and_numpy(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(CONV.SerializeToString())
    code = (
        "import sys; from edgedla.importers import load_onnx; assert 'google.protobuf' not in sys.modules;"
        f"load_onnx({str(path)!r}); print([m for m in ('onnx.checker', 'onnx.shape_inference') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("says", "given", "noted"),
    [
        ((1, 4, 6, 6), {}, ""),
        ((1, "C", None, 6), {}, ""),
        ((1, 4, 99, 6), {}, "1x4x6x6, as its nodes say, and not 1x4x99x6"),
        ((1, 144), {}, "1x4x6x6, as its nodes say, and not 1x144"),
        ((1, 4, 6, 6), {"batch": 2}, ""),
        ((1, 4, 6, 6), {"shapes": {"x": (1, 4, 12, 12)}}, ""),
    ],
)
def test_sizes_of_an_output_that_the_file_states_wrongly_are_noted(says, given, noted):
    """TensorRT ignores them. Other sizes than the file's, which the caller asks for, change the outputs rightly."""
    made = onnx_model([node("Relu", "x", "y")], {"x": (1, 4, 6, 6)}, {"y": says})
    notes = " ".join(load_onnx(made, trt="10.3", **given).notes)
    assert noted in notes
    assert ("one of them is wrong" in notes) == bool(noted)
