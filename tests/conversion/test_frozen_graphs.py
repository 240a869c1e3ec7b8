"""Frozen TensorFlow graphs: distinguished from SavedModels and ONNX, cut where requested, refused if not frozen."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.conversion import convert as module
from edgedla.conversion.frameworks.frozen_graph import port, unread
from edgedla.conversion.kinds import KINDS, kind_of
from edgedla.errors import ModelError, UsageError
from tests.models import node, onnx_model

#: A GraphDef of one node, "x" of Placeholder.
GRAPH = b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder"


def test_a_graph_is_distinguished_from_other_pb_files(tmp_path: Path) -> None:
    graph, long = tmp_path / "m.pb", tmp_path / "long.pb"
    graph.write_bytes(GRAPH)
    long.write_bytes(b"\x0a\x90\x01\x0a\x01x\x12\x0bPlaceholder" + b"\0" * 200)
    assert [kind_of(graph), kind_of(long)] == [KINDS["graphdef"]] * 2
    saved, text, empty = tmp_path / "saved_model.pb", tmp_path / "a.pb", tmp_path / "b.pb"
    saved.write_bytes(b"\x08\x01\x12\x04")
    text.write_bytes(b"\x0a\x03hello")
    empty.write_bytes(b"")
    onnx.save(onnx_model([node("Relu", "x", "y")]), str(tmp_path / "o.pb"))
    others = [saved, text, empty, tmp_path / "o.pb", tmp_path / "missing.pb"]
    assert [kind_of(path) for path in others] == [None] * 5
    with pytest.raises(UsageError, match="name the SavedModel's folder"):
        edgedla.convert(saved)


@pytest.mark.parametrize("option", ["--inputs", "--outputs", "--signature"])
def test_inputs_and_outputs_options_are_refused_for_other_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\0\0\0TFL3")
    assert exit_code_of(["convert", str(path), "-o", str(tmp_path / "o.onnx"), option, "a"]) == 2
    assert f"{option}: this kind of source does not take this option" in capsys.readouterr().err


def operator(name: str, kind: str, *inputs: Any, outputs: int = 1) -> Any:
    made = SimpleNamespace(name=name, type=kind, inputs=inputs)
    made.outputs = [SimpleNamespace(name=f"{name}:{i}", op=made) for i in range(outputs)]
    return made


def test_outputs_of_a_frozen_graph_are_the_unread_operators() -> None:
    x = operator("x", "Placeholder")
    norm = operator("norm", "FusedBatchNormV3", x.outputs[0], outputs=6)
    top = operator("top", "TopKV2", x.outputs[0], outputs=2)
    rest = [operator("c", "Const"), operator("assert", "Assert", x.outputs[0]), operator("loss", "ScalarSummary", x.outputs[0])]
    graph = SimpleNamespace(get_operations=lambda: [x, norm, top, *rest])
    assert [port(tensor) for tensor in unread(graph)] == ["norm", "top", "top_1"]


def test_tensorflow_operators_left_by_the_exporter_are_named() -> None:
    model = onnx_model([node("Switch", "x", "y", name="cond/Switch")])
    with pytest.raises(ModelError, match=r"no operators for Switch \(cond/Switch\)"):
        module._refuse_unknown(model, Path("m.pb"))
    module._refuse_unknown(onnx_model([node("Relu", "x", "y")]), Path("m.pb"))


needs_tensorflow = pytest.mark.skipif(
    find_spec("tensorflow") is None or find_spec("tf2onnx") is None, reason="TensorFlow or tf2onnx is not installed"
)


def frozen(path: Path, variables: bool = False) -> Path:
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.uint8, (None, None, None, 3), "image")
        y = tf.nn.conv2d(tf.cast(x, tf.float32) / 255, tf.ones((3, 3, 3, 4)) / 27, 1, "SAME", name="conv")
        training = v1.placeholder_with_default(False, (), "training")
        y = tf.nn.relu(y * tf.where(training, 2.0, 1.0), name="map")
        if variables:
            y = y * tf.Variable(1.0, name="weight")
        tf.reduce_max(y, [1, 2], name="scores")
        tf.argmax(tf.reduce_max(y, [1, 2]), 1, name="best")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


@needs_tensorflow
@pytest.mark.slow
def test_a_frozen_graph_is_converted_whole_and_in_part(tmp_path: Path) -> None:
    path = frozen(tmp_path / "m.pb")
    whole = edgedla.convert(path, shapes={"": [1, 8, 8, 3]})
    assert whole.within
    model = onnx.load_from_string(whole.model)
    assert [v.name for v in (*model.graph.input, *model.graph.output)] == ["image", "scores", "best"]
    part = edgedla.convert(path, shapes={"": [1, 8, 8, 3]}, inputs="truediv", outputs="map", outputs_as_nchw="map")
    assert part.within
    model = onnx.load_from_string(part.model)
    assert [v.name for v in (*model.graph.input, *model.graph.output)] == ["truediv", "map"]
    with pytest.raises(ModelError, match="input image has open dims"):
        edgedla.convert(path)
    with pytest.raises(ModelError, match="no tensor is called nothing; its last tensors are scores, best"):
        edgedla.convert(path, shapes={"": [1, 8, 8, 3]}, outputs="nothing")
    with pytest.raises(ModelError, match="not frozen: weight is a variable"):
        edgedla.convert(frozen(tmp_path / "n.pb", variables=True))


@needs_tensorflow
@pytest.mark.slow
def test_one_of_several_signatures_is_named(tmp_path: Path) -> None:
    import tensorflow as tf

    net = tf.Module()
    spec = tf.TensorSpec((1, 4), tf.float32, "x")
    signatures = {
        name: tf.function(lambda x, k=k: {"y": x * k}, input_signature=[spec]) for k, name in ((2.0, "twice"), (3.0, "thrice"))
    }
    tf.saved_model.save(net, str(tmp_path / "m"), signatures=signatures)
    with pytest.raises(ModelError, match="several signatures.*: thrice, twice"):
        edgedla.convert(tmp_path / "m")
    assert edgedla.convert(tmp_path / "m", signature="twice").within
    with pytest.raises(ModelError, match="no signature is called once"):
        edgedla.convert(tmp_path / "m", signature="once")


@needs_tensorflow
@pytest.mark.slow
def test_operators_that_onnx_lacks_are_named(tmp_path: Path) -> None:
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = tf.Variable(0.0)

    net = Net()
    spec = tf.TensorSpec((1, 4), tf.float32, "x")
    functions = {
        "it changes a variable as it runs": lambda x: {"y": x + net.calls.assign_add(1.0)},
        "it calls Python": lambda x: {"y": tf.numpy_function(lambda a: a * 2, [x], tf.float32)},
        "it computes in bfloat16": lambda x: {"y": tf.cast(tf.cast(x, tf.bfloat16) * 2, tf.float32)},
    }
    for number, (message, function) in enumerate(functions.items()):
        net.function = tf.function(function, input_signature=[spec])
        tf.saved_model.save(net, str(tmp_path / str(number)), signatures=net.function)
        with pytest.raises(ModelError, match=message):
            edgedla.convert(tmp_path / str(number))
