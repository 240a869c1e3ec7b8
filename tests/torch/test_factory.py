"""`package.module:factory` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.torch.factory import is_factory


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("package.module:factory", True),
        ("nets:Small", True),
        ("nets:Small.make", True),
        ("timm:resnet50.a1_in1k", True),
        ("torchvision:resnet18", True),
        ("torchvision.models.detection:ssd300_vgg16", True),
        ("timm:", False),
        ("model.onnx", False),
        ("C:model", False),
        ("C:\\model.onnx", False),
        ("folder/nets:small", False),
        ("nets:", False),
        ("nets:1x3", False),
    ],
)
def test_is_factory_recognises_module_and_function(text: str, expected: bool) -> None:
    assert is_factory(text) is expected


def test_an_existing_file_named_like_a_factory_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets:small").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert not is_factory("nets:small")


@pytest.fixture
def user_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'edgedla[torch]'")
    text = Path(__file__).with_name("networks.py").read_text()
    text += "\n\ndef broken() -> None:\n    raise ValueError('no weights here')\n\n\nnumber = 3\n\n\ndef text() -> str:\n    return 'x'\n"
    text += "\n\ndef numbers() -> tuple:\n    return small(), 5\n"
    (tmp_path / "user_nets.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_check_accepts_a_factory(user_package: Path, capsys: pytest.CaptureFixture) -> None:
    options = ["--target", "agx-orin-64gb", "--quiet", "--fail-on", "never"]
    assert exit_code_of(["check", "user_nets:small_with_inputs", *options]) == 0
    assert exit_code_of(["check", "user_nets:small", "--shapes", "1x3x16x16", *options]) == 0
    assert exit_code_of(["check", "user_nets:small", "--shapes", "x:1x3x16x16", "--batch", "2", *options]) == 0
    assert capsys.readouterr().out.count("Small on agx-orin-64gb") == 3


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("user_nets:small", 2, "--shapes"),
        ("user_nets:numbers", 2, "example inputs are tensors"),
        ("user_nets:smal", 2, "small_with_inputs"),
        ("no_such_package:small", 2, "no Python module"),
        ("user_nets:broken", 3, "no weights here"),
        ("user_nets:number", 2, "int"),
        ("user_nets:text", 2, "an nn.Module"),
        ("os:abort.x", 2, "os has no abort.x"),
    ],
)
def test_errors_of_a_factory_are_reported_with_their_exit_code(
    user_package: Path, name: str, code: int, message: str, capsys: pytest.CaptureFixture
) -> None:
    assert exit_code_of(["check", name, "--target", "agx-orin-64gb"]) == code
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


ORIN = ["--target", "agx-orin-64gb"]


@pytest.mark.parametrize(
    ("top", "forward", "before", "message"),
    [
        ("raise SystemExit(0)", "pass", "pass", "cannot be imported: SystemExit: 0"),
        ("pass", "pass", "sys.exit('all done')", "make() fails: SystemExit: all done"),
        ("pass", "pass", "raise GeneratorExit", "make() fails: GeneratorExit: "),
        ("class Skipped(BaseException): pass\nraise Skipped('no GPU')", "pass", "pass", "cannot be imported: Skipped: no GPU"),
        ("class Panic(BaseException): pass", "pass", "raise Panic('in Rust')", "make() fails: Panic: in Rust"),
        ("class Panic(BaseException): pass", "raise Panic('in Rust')", "pass", "PyTorch cannot export the module: in Rust"),
        ("pass", "pass", "Net.eval = None", "eval() of the module fails: TypeError"),
        ("pass", "pass", "Net.forward = None", "the arguments of forward cannot be read"),
        ("pass", "pass", "Net.forward = 3", "the arguments of forward cannot be read"),
        ("pass", "raise SystemExit(0)", "pass", "PyTorch cannot export the module: 0"),
        ("pass", "raise SystemExit", "pass", "PyTorch cannot export the module: SystemExit"),
    ],
)
def test_code_that_ends_the_process_ends_no_command_with_success(
    user_package: Path, top: str, forward: str, before: str, message: str, capsys: pytest.CaptureFixture
) -> None:
    lines = (
        "import sys, torch",
        top,
        "class Net(torch.nn.Module):",
        "    def forward(self, x):",
        f"        {forward}",
        "        return x.relu()",
        "def make():",
        f"    {before}",
        "    return Net(), torch.zeros(1, 3, 4, 4)",
    )
    name = f"ends_{abs(hash((top, forward, before)))}"
    (user_package / f"{name}.py").write_text("\n".join(lines))
    assert exit_code_of(["check", f"{name}:make", *ORIN]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("limit", "kept"), [("len(inspect.stack()) + 40", 0), ("sys.getrecursionlimit() + 7", 7)])
def test_a_lower_recursion_limit_of_users_code_ends_with_it(
    user_package: Path, limit: str, kept: int, capsys: pytest.CaptureFixture
) -> None:
    lines = (
        "import inspect, sys, torch",
        f"sys.setrecursionlimit({limit})",
        "def make():",
        "    return torch.nn.ReLU(), torch.zeros(1, 3, 4, 4)",
    )
    (user_package / f"deep_{kept}.py").write_text("\n".join(lines))
    before = sys.getrecursionlimit()
    try:
        assert exit_code_of(["check", f"deep_{kept}:make", "--fail-on", "never", *ORIN]) == 0, capsys.readouterr().err
        assert sys.getrecursionlimit() == before + kept
    finally:
        sys.setrecursionlimit(before)


def test_what_users_code_prints_is_no_part_of_an_answer(user_package: Path, capsys: pytest.CaptureFixture) -> None:
    text = "import torch\nprint('[')\ndef make():\n    print('{')\n    return torch.nn.ReLU(), torch.zeros(1, 3, 4, 4)\n"
    (user_package / "prints.py").write_text(text)
    assert exit_code_of(["layers", "prints:make", *ORIN, "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["document"] == "edgedla.layers"
    assert shown.err.startswith("[\n{\n")


def test_every_verb_takes_a_factory_as_check_does(user_package: Path, capsys: pytest.CaptureFixture) -> None:
    name = "user_nets:small_with_inputs"
    assert exit_code_of(["fix", name, *ORIN, "-o", "fixed.onnx", "--no-prove"]) == 0
    assert "exported to small_with_inputs.onnx" in capsys.readouterr().err
    assert exit_code_of(["build", name, *ORIN, "--precision", "fp16", "--backend", "host", "-o", "artifact"]) == 0
    assert exit_code_of(["layers", name, *ORIN]) == 0
    assert exit_code_of(["place", name, *ORIN]) == 0
    assert exit_code_of(["quantize", "user_nets:small", *ORIN, "--shapes", "1x3x16x16", "-o", "int8"]) == 2
    assert "--data" in capsys.readouterr().err
    assert (user_package / "small.onnx").exists()
    samples = np.random.default_rng(0).random((8, 3, 16, 16), np.float32)
    np.savez("samples.npz", x=samples)
    assert exit_code_of(["quantize", name, *ORIN, "--data", "samples.npz", "-o", "int8"]) == 0
    # Built; eight samples are too few to show a gain.
    assert exit_code_of(["deploy", name, *ORIN, "--data", "samples.npz", "--backend", "host", "-o", "deployed"]) == 7
    assert (user_package / "deployed" / "artifact" / "manifest.json").exists()


def test_the_next_command_of_a_factory_names_files_that_can_exist(user_package: Path, capsys: pytest.CaptureFixture) -> None:
    assert exit_code_of(["check", "user_nets:Branches", *ORIN, "--shapes", "1x3x16x16", "--fail-on", "never"]) in (0, 2)
    shown = capsys.readouterr().out
    assert ":Branches-fixed" not in shown
    assert "-o user_nets" not in shown


def test_an_export_replaces_no_file_of_the_users(user_package: Path, capsys: pytest.CaptureFixture) -> None:
    (user_package / "small_with_inputs.onnx").write_bytes(b"theirs")
    assert exit_code_of(["layers", "user_nets:small_with_inputs", *ORIN]) == 2
    assert "which edgedla did not write" in capsys.readouterr().err
    assert (user_package / "small_with_inputs.onnx").read_bytes() == b"theirs"


@pytest.mark.parametrize(
    ("name", "library"), [("timm:lcnet_050", "timm"), ("torchvision.models:mobilenet_v3_small", "torchvision")]
)
def test_a_librarys_network_has_its_published_size(name: str, library: str, user_package: Path, capsys: Any) -> None:
    pytest.importorskip(library)
    assert exit_code_of(["layers", name, *ORIN]) == 0
    assert "weights are random" in capsys.readouterr().err
    model = onnx.load(str(user_package / f"{name.partition(':')[2]}.onnx"))
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 224, 224]


def test_a_network_that_a_library_lacks_is_refused_with_the_nearest(user_package: Path, capsys: Any) -> None:
    pytest.importorskip("torchvision")
    assert exit_code_of(["check", "torchvision:resnet19", *ORIN]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert exit_code_of(["check", "torchvision:ssd300_vgg16", *ORIN]) == 2
    assert "--shapes" in capsys.readouterr().err


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_a_factory_prints_gives_the_terminal_no_order(
    stream: str, user_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (user_package / "user_nets.py").read_text()
    (user_package / f"to_{stream}.py").write_text(f"{text}\n\nimport sys\n\nsys.{stream}.write('\\x1b[2Jhere')\n")
    name = f"to_{stream}:small_with_inputs"
    assert exit_code_of(["layers", name, "--target", "orin", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert "\\x1b[2Jhere" in err
    assert "\x1b" not in err
