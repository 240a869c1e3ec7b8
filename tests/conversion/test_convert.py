"""Forms are told without loading anything; what runs code is refused; conversions are compared with their source."""

from __future__ import annotations

import pickle
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgedla
from edgedla.conversion import convert as module
from edgedla.conversion.cached import FACTS, as_onnx
from edgedla.conversion.kinds import KINDS, kind_of
from edgedla.errors import EnvironmentMissing, ModelError, UsageError
from tests.models import node, onnx_model, save


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(f"archive/{name}", "x")
    return path


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("the pickle was loaded",))


def test_forms_are_told_by_name_and_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    (tmp_path / "weights.pth").write_bytes(pickle.dumps(Bomb()))
    told = {
        "pt2": tmp_path / "a.pt2",
        "torchscript": archive(tmp_path / "a.pt", "code/x.py", "data.pkl"),
        "pickle": tmp_path / "weights.pth",
        "savedmodel": tmp_path / "saved",
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


@pytest.mark.parametrize("name", ["m.pt", "m.h5"])
def test_what_runs_code_is_refused_without_trust(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x89HDF\r\n\x1a\n" if name == "m.h5" else pickle.dumps(Bomb()))
    with pytest.raises(UsageError, match="runs code") as e:
        edgedla.convert(path)
    assert "--trust" in str(e.value)


def test_wrong_sources_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        edgedla.convert(tmp_path / "m.pt2")
    (tmp_path / "m.txt").write_text("x")
    with pytest.raises(UsageError, match="no model of another framework"):
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
info = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4])
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [info("x")], [info("y")])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", asked["opset"])], ir_version=8), asked["model"])
x = np.array([[-1, 0, 1, 2]], np.float32)
np.savez(asked["reference"], **{{"in:x": x, "out:0": np.maximum(x, 0) + np.float32({shift})}})
json.dump({{"framework": "test 1", "exporter": "test 2"}}, open(asked["answer"], "w"))
"""


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stands in for a framework: `framework(shift, fails)` sets how far its reference is off, or the error that it raises."""
    folder = tmp_path / "package" / "frameworks"
    folder.mkdir(parents=True)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "package" / "convert.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def make(shift: float = 0.0, fails: str = "") -> Path:
        (folder / "from_tensorflow.py").write_text(PROGRAM.format(shift=shift, fails=fails))
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


def test_an_operator_set_that_the_parser_reads_wrongly_is_said(framework: Any) -> None:
    assert edgedla.convert(framework(), target="agx-xavier-32gb").notes == ()
    notes = edgedla.convert(framework(), target="agx-xavier-32gb", opset=18).notes
    assert "reads reductions of 18 and newer wrongly" in notes[0]
    assert edgedla.convert(framework(), target="agx-orin-64gb", opset=18).notes == ()


def test_what_the_framework_says_is_handed_on(framework: Any) -> None:
    with pytest.raises(ModelError, match="no such layer"):
        edgedla.convert(framework(fails="no such layer"))


def test_a_model_is_converted_once_and_checked(framework: Any) -> None:
    lines = []
    path = as_onnx(framework(), say=lines.append)
    assert as_onnx(framework(), say=lines.append) == path
    assert len(lines) == 1
    assert "relative L2" in lines[0]
    assert edgedla.check(str(path), target="agx-orin-64gb").totals.layers == 1


@pytest.mark.parametrize("damage", ["bit", "cut", "folder", "facts"])
def test_a_kept_conversion_that_was_damaged_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
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


def test_an_interpreter_of_ones_own_is_used(framework: Any) -> None:
    assert edgedla.convert(framework(), python=sys.executable).within


def test_outputs_of_other_shapes_are_an_error(tmp_path: Path) -> None:
    model = onnx_model([node("Relu", "x", "y")], {"x": (1, 4)}, opset=17)
    save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "r.npz", **{"in:x": np.zeros((1, 4), np.float32), "out:0": np.zeros((1, 5), np.float32)})
    with pytest.raises(ModelError, match="its source"):
        module.compared(model, tmp_path / "r.npz")


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
def test_damaged_files_are_named_before_a_framework_is_asked_for(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message):
        edgedla.convert(path, trust=True, shapes={"x": [1, 3, 8, 8]}, python="/no/python")
