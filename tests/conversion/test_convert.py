"""Forms are detected without loading anything; files that run code are refused; conversions are compared with their source."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import zipfile
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, List, Tuple

import numpy as np
import onnx
import pytest

import edgedla
from edgedla.cli.main import exit_code_of
from edgedla.conversion import convert as module
from edgedla.conversion import converted
from edgedla.conversion.cached import FACTS, _key
from edgedla.conversion.cached import converted as converted_once
from edgedla.conversion.comparison import worst_difference
from edgedla.conversion.converted import layout_notes, parser_notes, tidied, tolerance_of
from edgedla.conversion.frameworks.from_pytorch import in_order, named
from edgedla.conversion.frameworks.from_tensorflow import by_number, nchw, turned
from edgedla.conversion.kinds import KINDS, kind_of
from edgedla.errors import EnvironmentMissing, ModelError, UsageError
from edgedla.identity import identity
from edgedla.targets import platform_for
from tests.models import node, onnx_model


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(f"archive/{name}", "x")
    return path


def as_onnx(source: Any, **options: Any) -> Any:
    """The ONNX file that every command takes in place of another framework's."""
    return converted_once(source, **options)[0]


def checkpoint(path: Path) -> Path:
    """A file that begins as Ultralytics' do; what it holds cannot be loaded."""
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(
            "yolo/data.pkl", b"\x80\x02}q\x00(X\x05\x00\x00\x00modelq\x01cultralytics.nn.tasks\nDetectionModel\nq\x02)\x81q\x03u."
        )
        z.writestr("yolo/version", "3")
    return path


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("the pickle was loaded",))


def test_forms_are_detected_by_name_and_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    (tmp_path / "weights.pth").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "a.pb").write_bytes(b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder")
    told = {
        "pt2": tmp_path / "a.pt2",
        "torchscript": archive(tmp_path / "a.pt", "code/x.py", "data.pkl"),
        "pickle": tmp_path / "weights.pth",
        "ultralytics": checkpoint(tmp_path / "yolo.pt"),
        "savedmodel": tmp_path / "saved",
        "graphdef": tmp_path / "a.pb",
        "keras": tmp_path / "a.KERAS",
        "h5": tmp_path / "a.h5",
        "tflite": tmp_path / "a.tflite",
        "paddle": tmp_path / "a.pdmodel",
    }
    assert {name: kind_of(path) for name, path in told.items()} == dict(KINDS)
    (tmp_path / "p.pdiparams").write_bytes(b"")
    assert kind_of(tmp_path / "p.json") == KINDS["paddle"]
    assert kind_of(tmp_path / "other.json") is None
    assert kind_of(archive(tmp_path / "b.pt", "archive_format")) == KINDS["pt2"]
    assert kind_of(archive(tmp_path / "c.pt", "data.pkl")) == KINDS["pickle"]
    assert [kind_of(tmp_path / n) for n in ("m.onnx", "x.engine", ".")] == [None, None, None]


@pytest.mark.parametrize(
    ("where", "damage"),
    [
        (("local", 45), b"\xff" * 20),  # the compressed data
        (("central", 8), b"\x01"),  # flags: a password
        (("central", 8), b"\x40"),  # flags: strong encryption
        (("central", 10), b"\x4d"),  # an unknown method
        (("central", 6), b"\xc8"),  # an unknown version
        (("central", 8), b"\x00\x08"),  # flags: a name in UTF-8, which b"\xff" is not
        (("central", 42), b"\xff\xff\xff"),  # begins behind the end
        (("central", 20), b"\xff\xff\xff\x00\xff\xff\xff\x00"),  # is larger than the file
    ],
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_archive_is_no_checkpoint(tmp_path: Path, where: Tuple[str, int], damage: bytes, method: int) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr("a/data.pkl", bytes(range(256)) * 10)
    data = bytearray(path.read_bytes())
    at = where[1] + (data.rindex(b"PK\x01\x02") if where[0] == "central" else 0)
    data[at : at + len(damage)] = damage
    path.write_bytes(data.replace(b"a/data.pkl", b"\xff/data.pkl") if damage == b"\x00\x08" else data)
    assert kind_of(path) == KINDS["pickle"]


@pytest.mark.parametrize("name", ["m.pt", "m.h5"])
def test_a_source_that_runs_code_is_refused_without_trust(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x89HDF\r\n\x1a\n" if name == "m.h5" else pickle.dumps(Bomb()))
    with pytest.raises(UsageError, match="runs code") as e:
        edgedla.convert(path)
    assert "--trust" in str(e.value)


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        edgedla.convert(tmp_path / "m.pt2")
    (tmp_path / "m.txt").write_text("x")
    with pytest.raises(UsageError, match="not a model of another framework"):
        edgedla.convert(tmp_path / "m.txt")
    (tmp_path / "saved").mkdir()
    with pytest.raises(UsageError, match="holds saved_model.pb"):
        edgedla.convert(tmp_path / "saved")
    with pytest.raises(UsageError, match="sizes of its inputs"):
        edgedla.convert(archive(tmp_path / "m.pt", "code/x.py"))
    with pytest.raises(UsageError, match="unknown exporter"):
        edgedla.convert(archive(tmp_path / "n.pt2", "x"), exporter="best")


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed here")
def test_a_framework_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="needs torch") as e:
        edgedla.convert(archive(tmp_path / "m.pt2", "x"))
    assert "edgedla[torch]" in str(e.value)
    with pytest.raises(EnvironmentMissing, match="cannot be started"):
        edgedla.convert(tmp_path / "m.pt2", python=str(tmp_path / "nothing"))


def test_onnx_passes_through(tmp_path: Path) -> None:
    assert as_onnx(tmp_path / "m.onnx") == tmp_path / "m.onnx"


PROGRAM = """
import json, sys
import numpy as np
from onnx import TensorProto, helper, save
asked = json.load(open(sys.argv[1]))
if {fails!r}: raise ValueError({fails!r})
info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, {dims!r})
idle = [helper.make_node("Identity", ["x"], ["i"]), helper.make_node("Identity", ["r"], ["5"])]
nodes = [idle[0], helper.make_node("Relu", ["i"], ["r"]), idle[1]]
graph = helper.make_graph(nodes, "g", [info("x")], [info("5")])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", asked["opset"])], ir_version=8), asked["model"])
x = np.array([[-1, 0, 1, 2]], np.float32)
np.savez(asked["reference"], **{{"in:image": x, "out:0": np.maximum(x, 0) + np.float32({shift})}})
names = {{"inputs": {{"x": "image"}}, "outputs": ["scores"]}}
json.dump({{"framework": "test 1", "exporter": "test 2", **names}}, open(asked["answer"], "w"))
"""


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for a framework: `framework(shift, fails)` sets how far its reference is off, or the error that it raises."""
    folder = tmp_path / "package" / "frameworks"
    folder.mkdir(parents=True)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "package" / "convert.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(shift: float = 0.0, fails: str = "", dims: Any = (1, 4)) -> Path:
        (folder / "from_tensorflow.py").write_text(PROGRAM.format(shift=shift, fails=fails, dims=dims))
        (tmp_path / "m.tflite").write_bytes(b"\x1c\0\0\0TFL3")
        return tmp_path / "m.tflite"

    return make


def test_a_conversion_is_compared_with_its_source(framework: Any) -> None:
    made = edgedla.convert(framework())
    assert (made.rel_l2, made.max_abs, made.within) == (0.0, 0.0, True)
    assert (made.framework, made.exporter, made.opset) == ("test 1", "test 2", module.OPSET)
    other = edgedla.convert(framework(shift=0.5))
    assert other.within is False
    assert other.max_abs == 0.5


def test_conversion_fixes_dims_keeps_names_and_drops_unused_nodes(framework: Any) -> None:
    model = onnx.load_from_string(edgedla.convert(framework(dims=("n", 4))).model)
    (given,), (made,) = model.graph.input, model.graph.output
    assert (given.name, made.name) == ("image", "scores")
    assert [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (given, made)] == [[1, 4], [1, 4]]
    assert [(n.op_type, list(n.input), list(n.output)) for n in model.graph.node] == [("Relu", ["image"], ["scores"])]


def test_an_operator_set_that_the_parser_misreads_is_noted(framework: Any) -> None:
    assert edgedla.convert(framework(), target="agx-xavier-32gb").notes == ()
    notes = edgedla.convert(framework(), target="agx-xavier-32gb", opset=18).notes
    assert "reads reductions of 18 and newer wrongly" in notes[0]
    assert edgedla.convert(framework(), target="agx-orin-64gb", opset=18).notes == ()


def test_operators_that_the_parser_refuses_are_noted() -> None:
    scale, zero = np.float32(0.1), np.int8(3)
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    model = onnx_model(nodes, constants={"s": scale, "z": zero}, opset=17)
    (note,) = parser_notes(model, platform_for("agx-orin-64gb"))
    assert "only supports symmetric quantization" in note
    assert "`edgedla quantize`" in note


class Tensor:
    """Stands in for a tensor of PyTorch."""


def test_outputs_of_pytorch_are_named_by_the_keys_of_their_dicts() -> None:
    torch, t = SimpleNamespace(Tensor=Tensor), Tensor()
    found = namedtuple("Found", "boxes scores")
    results: List[Any] = [
        t,
        [t],
        (t, t),
        {"mask": t},
        {"det": {"box": t, "score": t}, "more": [t, (t,)], "none": None},
        found(t, [t, t]),
    ]
    assert [[name for name, _ in named(result, torch)] for result in results] == [
        ["output"],
        ["output"],
        ["output_0", "output_1"],
        ["mask"],
        ["det_box", "det_score", "more_0", "more_1"],
        ["boxes", "scores_0", "scores_1"],
    ]


@pytest.mark.parametrize(
    ("shapes", "own", "wanted"),
    [
        ({"meta": 2, "image": 1}, False, {"image": 1, "meta": 2}),
        ({"meta": 2}, False, {"meta": 2}),
        ({}, False, {}),
        ({"a": 1, "b": 2}, True, {"a": 1, "b": 2}),
        ({"": 1}, True, {"image": 1}),
        ({"a": 1, "b": 2}, False, None),
        ({"": 1}, False, None),
        ({"image": 1, "b": 2}, True, None),
    ],
)
def test_input_shapes_are_ordered_by_the_models_parameters(shapes: Any, own: bool, wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(ValueError, match="its inputs: image, meta"):
            in_order(shapes, ["image", "meta"], own)
    else:
        assert list(in_order(shapes, ["image", "meta"], own).items()) == list(wanted.items())


def test_names_without_a_fixed_order_are_sorted_naturally() -> None:
    assert by_number(["output_10", "b", "output_2", "a"]) == ["a", "b", "output_2", "output_10"]


def test_inputs_of_four_dimensions_become_nchw() -> None:
    ranks = {"image": 4, "size": 2, "mask": 4}
    assert turned("input", ["all"], ranks) == ["image", "mask"]
    assert turned("input", ["mask"], ranks) == ["mask"]
    assert turned("input", [], ranks) == []
    with pytest.raises(ValueError, match="no input is called x: image, size, mask"):
        turned("input", ["x"], ranks)
    with pytest.raises(ValueError, match="input size is not N x H x W x C"):
        turned("input", ["size"], ranks)
    values = np.arange(24).reshape(1, 2, 4, 3)
    assert nchw(values).shape == (1, 3, 2, 4)
    assert nchw(values)[0, 2, 1, 3] == values[0, 1, 3, 2]


def test_layout_options_are_passed_to_the_conversion_program(framework: Any) -> None:
    echo = "".join(f"{{asked['{key}']}}" for key in ("inputs_as_nchw", "outputs_as_nchw"))
    source = framework()
    program = Path(module.__file__).with_name("frameworks") / "from_tensorflow.py"
    program.write_text(program.read_text().replace('"test 1"', f'f"{echo}"'))
    made = edgedla.convert(source, inputs_as_nchw="a, b", outputs_as_nchw=["all"])
    assert made.framework == "['a', 'b']['all']"


def test_layout_options_are_refused_for_frameworks_in_nchw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = archive(tmp_path / "m.pt2", "x")
    assert exit_code_of(["convert", str(path), "-o", str(tmp_path / "o.onnx"), "--outputs-as-nchw", "all"]) == 2
    assert "--outputs-as-nchw: a model of PyTorch is N x C x H x W already" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [False, True])
def test_a_transpose_at_inputs_or_outputs_is_noted_with_the_option(asked: bool) -> None:
    """As tf2onnx writes them, without and with its inputs_as_nchw and outputs_as_nchw."""
    body = [node("Conv", "t w", "c"), node("Relu", "c", "r")]
    scaled = [node("Mul", "image k", "m"), node("Transpose", "m", "t", perm=[0, 3, 1, 2])]
    ends = [*scaled, *body, node("Transpose", "r", "map", perm=[0, 2, 3, 1])]
    weights = {"k": np.float32(0.5), "w": np.ones((4, 3, 1, 1), np.float32)}
    channels_last = onnx_model(ends, {"image": (1, 8, 8, 3)}, {"map": (1, 8, 8, 4)}, weights)
    channels_first = onnx_model(body, {"t": (1, 3, 8, 8)}, {"r": (1, 4, 8, 8)}, {"w": weights["w"]})
    notes = layout_notes(channels_first if asked else channels_last)
    assert not any("--" in note for note in layout_notes(channels_last, options=False))
    wanted = [] if asked else ["--inputs-as-nchw image changes it", "--outputs-as-nchw map leaves it out"]
    assert [note.rpartition(": ")[2] for note in notes] == wanted
    # The release lists the layer from TensorRT 8.5 on: before, each is on the GPU.
    report = edgedla.check(channels_first if asked else channels_last, target="agx-xavier", trt="8.4")
    assert report.totals.layers_gpu == (0 if asked else 2)


def test_an_input_transposed_to_nhwc_in_the_network_is_noted() -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 2, 3, 1]), node("Flatten", "t", "y")]
    (note,) = layout_notes(onnx_model(nodes, outputs={"y": (1, 192)}))
    assert note == "input x is turned to N x H x W x C in the network: what reads it wants that layout"


def test_the_frameworks_error_message_is_shown(framework: Any) -> None:
    with pytest.raises(ModelError, match="no such layer"):
        edgedla.convert(framework(fails="no such layer"))


@pytest.mark.parametrize(
    ("said", "hint"), [("Could not locate class 'My'.", "model.export(FOLDER)"), ("a `Lambda` layer whose", "--trust")]
)
def test_refusals_of_keras_come_with_a_hint(framework: Any, said: str, hint: str) -> None:
    with pytest.raises(ModelError) as e:
        edgedla.convert(framework(fails=said))
    assert hint in str(e.value.hint)


def test_a_model_is_converted_once_and_checked(framework: Any) -> None:
    lines = []
    path = as_onnx(framework(), say=lines.append)
    assert as_onnx(framework(), say=lines.append) == path
    assert len(lines) == 1
    assert "relative L2" in lines[0]
    assert edgedla.check(str(path), target="agx-orin-64gb").totals.layers == 1


@pytest.mark.parametrize("damage", ["bit", "cut", "folder", "facts"])
def test_a_kept_conversion_that_was_damaged_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = onnx_model([node("Relu", "x", "y")]).SerializeToString()
    made = module.Converted(model, "m.tflite", "tflite", "test 1", "test 2", 13, 0.0, 0.0)
    monkeypatch.setattr(module, "convert", lambda *_, **__: made)
    source, lines = tmp_path / "m.tflite", []  # type: Path, List[str]
    source.write_bytes(b"\0\0\0\0TFL3")
    kept = Path(as_onnx(source, say=lines.append))
    if damage == "facts":
        facts = kept.with_name(FACTS)
        facts.write_text(facts.read_text().replace("test 1", "test 3"))
    elif damage == "folder":
        kept.unlink()
        kept.mkdir()
    else:
        kept.write_bytes(model[:-1] + (bytes([model[-1] ^ 1]) if damage == "bit" else b""))
    assert as_onnx(source, say=lines.append) == as_onnx(source, say=lines.append) == kept
    assert kept.read_bytes() == model
    assert len(lines) == 2


@pytest.mark.slow
@pytest.mark.skipif(find_spec("paddle") is None or find_spec("paddle2onnx") is None, reason="Paddle is not installed")
@pytest.mark.parametrize("old", [False, True])
def test_paddle_programs_of_open_sizes_old_and_new(tmp_path: Path, old: bool) -> None:
    program = (
        "import paddle; net = paddle.nn.Sequential(paddle.nn.Conv2D(3, 4, 3), paddle.nn.ReLU()); net.eval(); "
        "paddle.jit.save(net, 'm', input_spec=[paddle.static.InputSpec([None, 3, None, None], 'float32', 'x')])"
    )
    flags = {**os.environ, "FLAGS_enable_pir_api": "0" if old else "1"}
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=flags, check=True, capture_output=True)
    made = edgedla.convert(tmp_path / ("m.pdmodel" if old else "m.json"), shapes={"": [1, 3, 8, 8]})
    assert made.within
    (given,) = onnx.load_from_string(made.model).graph.input
    assert [d.dim_value for d in given.type.tensor_type.shape.dim] == [1, 3, 8, 8]
    with pytest.raises(ModelError, match="open dims"):
        edgedla.convert(tmp_path / ("m.pdmodel" if old else "m.json"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorch_programs_and_torchscript_give_the_same_network(tmp_path: Path) -> None:
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4))
    x = torch.zeros(1, 3, 8, 8)
    torch.export.save(torch.export.export(net.eval(), (x,)), tmp_path / "m.pt2")
    torch.jit.trace(net, x).save(str(tmp_path / "m.ts"))
    one = edgedla.convert(tmp_path / "m.pt2")
    other = edgedla.convert(tmp_path / "m.ts", shapes={"": [1, 3, 8, 8]})
    assert one.within
    assert other.within
    assert (one.opset, other.opset) == (module.OPSET, module.OPSET)
    verdicts = [[(x.type, str(x.placed)) for x in edgedla.check(m.model, target="orin").layers] for m in (one, other)]
    assert verdicts[0] == verdicts[1]


def test_convert_uses_the_given_python_interpreter(framework: Any) -> None:
    assert edgedla.convert(framework(), python=sys.executable).within


def test_outputs_of_other_shapes_are_an_error() -> None:
    model = onnx_model([node("Relu", "x", "y")], {"x": (1, 4)}, opset=17)
    with pytest.raises(ModelError, match="its source"):
        worst_difference(model, {"x": np.zeros((1, 4), np.float32)}, [np.zeros((1, 5), np.float32)])


def test_outputs_are_compared_in_order_and_nans_must_match() -> None:
    nodes = [node("Relu", "x", "y"), node("Sqrt", "x", "z")]
    model = onnx_model(nodes, {"x": (1, 2)}, {"y": (1, 2), "z": (1, 2)}, opset=17)
    feed = {"x": np.array([[4, -1]], np.float32)}
    right = [np.array([[4, 0]], np.float32), np.array([[2, np.nan]], np.float32)]
    assert worst_difference(model, feed, right) == (0.0, 0.0)
    assert worst_difference(model, feed, right[::-1])[0] > 1e100
    assert worst_difference(model, feed, [right[0], np.array([[2, 1]], np.float32)])[0] > 1e100


def test_outputs_are_compared_without_onnx_runtimes_optimisations() -> None:
    """ONNX Runtime's optimizer folds both into the weights, which loses what the sum takes off exactly."""
    nodes = [node("Conv", "x w", "c"), node("Add", "c a", "d"), node("Mul", "d m", "y")]
    one = np.ones((1, 1, 1, 1), np.float32)
    model = onnx_model(nodes, {"x": (1, 1, 4, 4)}, {"y": (1, 1, 4, 4)}, {"w": one, "a": -1000 * one, "m": one / 3}, opset=17)
    steps = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4) / 16
    assert worst_difference(model, {"x": 1000 + steps}, [steps / 3])[0] < 1e-6


def test_weights_above_the_size_limit_of_one_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_model([node("Add", "x w", "y")], {"x": (1, 4)}, constants={"w": np.ones(4, np.float32)}, opset=17)
    assert tidied(model, {}, ()).graph.node[0].op_type == "Add"
    monkeypatch.setattr(converted, "_MOST_BYTES", 15)
    with pytest.raises(ModelError, match=r"weights are 0.0 GB, more than one ONNX file holds"):
        tidied(model, {}, ())


def test_a_half_precision_model_is_compared_with_a_wider_tolerance() -> None:
    full, half = (onnx_model([node("Relu", "x", "y")], kind=kind) for kind in (1, 10))
    assert [tolerance_of(full), tolerance_of(half)] == [1e-4, 1e-2]


def test_a_paddle_model_with_other_weights_is_converted_again(tmp_path: Path) -> None:
    (tmp_path / "m.pdmodel").write_bytes(b"program")
    (tmp_path / "m.pdiparams").write_bytes(b"weights")
    before = _key(tmp_path / "m.pdmodel", "")
    assert _key(tmp_path / "m.pdmodel", "") == before
    (tmp_path / "m.pdiparams").write_bytes(b"trained")
    assert _key(tmp_path / "m.pdmodel", "") != before


@pytest.mark.parametrize("other", ["code", "exporter", "settings"])
def test_other_code_exporters_or_settings_convert_again(tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.tflite").write_bytes(b"TFL3")
    before = _key(tmp_path / "m.tflite", "a")
    assert _key(tmp_path / "m.tflite", "a") == before
    if other == "code":
        changed = identity()._replace(code="0" * 12)
        monkeypatch.setattr("edgedla.conversion.cached.identity", lambda: changed)
    elif other == "exporter":
        monkeypatch.setattr("edgedla.conversion.cached.libraries", lambda names: {"tf2onnx": "0.0"})
    assert _key(tmp_path / "m.tflite", "b" if other == "settings" else "a") != before


def test_the_reported_reason_is_the_error_line_not_a_later_warning() -> None:
    said = "loading\n\x1b[0;31m[ERROR]\tFailed: no such thing\x1b[0m\nUserWarning: no ccache\n  warnings.warn(text)\n"
    assert module._reason(said) == "[ERROR]\tFailed: no such thing"
    assert module._reason("Killed\n") == "Killed"
    aborted = "[ERROR][P] no axis\n\nError Message Summary:\n---\nFatalError: `Process abort signal` is detected.\n  [Time]\n"
    assert module._reason(aborted) == "[ERROR][P] no axis"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("m.pt2", b"", "the file is empty"),
        ("m.pt2", b"PK\x03\x04 and then nothing", "cut off: a ZIP archive without its end"),
        ("m.pt", b"PK\x03\x04 and then nothing", "cut off: a ZIP archive without its end"),
        ("m.keras", b"random", "begins with b'rand'"),
        ("m.pth", b"random", "begins with b'rand', not with"),
        ("m.h5", b"random", "begins with b'rand', not with b'.*HDF'"),
        ("m.tflite", b"random bytes", "bytes 4 to 7 are b'om b', not b'TFL3'"),
    ],
)
def test_damaged_files_are_refused_before_the_framework_is_started(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message):
        edgedla.convert(path, trust=True, shapes={"x": [1, 3, 8, 8]}, python="/no/python")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_conversion_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """A killed or timed-out command left it computing, and nobody to end it."""
    (tmp_path / "request.json").write_text("{}")
    program = (
        "import os, sys, time; from edgedla.conversion.frameworks import answering; sys.argv[1] = 'request.json'\n"
        "def convert(request):\n    open('pid.tmp', 'w').write(str(os.getpid())); os.rename('pid.tmp', 'pid'); time.sleep(60)\n"
        "answering.answer(convert)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], ''])", program],
        cwd=tmp_path,
    )
    until = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    child, until = int((tmp_path / "pid").read_text()), time.monotonic() + 10
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """Whether it runs; in a container without an init, one that has ended stays as a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("verb", ["check", "place", "fix --dry-run", "build -o unused"])
def test_a_command_converts_with_the_sizes_that_it_is_given(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def convert(source: Any, shapes: Any, **options: Any) -> None:
        asked.append(shapes)
        raise ModelError("read so far")

    monkeypatch.setattr(sys.modules["edgedla.conversion.convert"], "convert", convert)
    name, *options = verb.split()
    module = archive(tmp_path / "a.pt", "code/x.py", "data.pkl")
    assert exit_code_of([name, str(module), "--shapes", "1x3x8x8", *options]) == ModelError.exit_code
    assert asked == [{"": [1, 3, 8, 8]}]


@pytest.mark.skipif(find_spec("ultralytics") is not None, reason="Ultralytics is installed")
def test_a_checkpoint_without_ultralytics_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissing, match="a checkpoint of Ultralytics needs ultralytics") as told:
        edgedla.convert(checkpoint(tmp_path / "yolo.pt"))
    assert "pip install ultralytics" in str(told.value.hint)
    assert "AGPL" in str(told.value.hint)


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of Ultralytics' with random weights, saved as its training does; in a process of its own, as everywhere."""
    if find_spec("ultralytics") is None:
        pytest.skip("Ultralytics is not installed: pip install ultralytics")
    folder = tmp_path_factory.mktemp("yolo")
    make = "from ultralytics import YOLO; YOLO('yolo11n.yaml').save('yolo11n.pt')"
    env = {**os.environ, "YOLO_OFFLINE": "true", "YOLO_CONFIG_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", make], cwd=folder, check=True, capture_output=True, env=env)
    return folder / "yolo11n.pt"


def test_a_checkpoint_of_ultralytics_is_checked_by_its_name(yolo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(yolo.parent / "cache"))
    before = sorted(yolo.parent.iterdir())
    made = edgedla.convert(yolo, shapes={"": (1, 3, 160, 128)})
    assert made.within
    assert [d.dim_value for d in onnx.load_from_string(made.model).graph.input[0].type.tensor_type.shape.dim] == [1, 3, 160, 128]
    assert sorted(yolo.parent.iterdir()) == before, "nothing is written beside the user's file"
    assert edgedla.check(as_onnx(yolo), target="orin-nx-16gb").layers
    for dims, told in (((1, 3, 150, 128), "its exporter makes 1x3x160x128"), ((3, 160), "a checkpoint takes pictures")):
        with pytest.raises(ModelError, match=told):
            edgedla.convert(yolo, shapes={"": dims})


@pytest.mark.parametrize(
    ("global_", "argument"),
    [
        ("posix system", "true"),
        ("ultralytics.nn.tasks DetectionModel", "a.yaml"),
        ("ultralytics.utils.checks check_requirements", "a"),
    ],
)
def test_a_checkpoint_that_would_run_code_is_refused(yolo: Path, global_: str, argument: str, tmp_path: Path) -> None:
    call = (
        b"c" + global_.replace(" ", "\n").encode() + b"\n(X" + bytes([len(argument)]) + b"\0\0\0" + argument.encode() + b"tR\x86."
    )
    with zipfile.ZipFile(yolo) as good, zipfile.ZipFile(tmp_path / "bad.pt", "w") as bad:
        for name in good.namelist():
            data = good.read(name)
            bad.writestr(name, data[:-1] + call if name.endswith("data.pkl") else data)
    with pytest.raises(ModelError, match=f"more than a network: {global_.replace(' ', '.')}") as told:
        edgedla.convert(tmp_path / "bad.pt")
    assert "--trust" in str(told.value.hint)
