"""No name controls the terminal: every verb, every form that goes to stdout or stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import onnx
import pytest

from edgedla.cli.main import exit_code_of
from edgedla.text.printable import json_escaped, printable, printable_text
from tests.hostile.nasty_models import odd_names
from tests.hostile.orders import ORDERS

CLI = Path(__file__).resolve().parents[2] / "edgedla" / "cli"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("odd") / "odd\x1b[2J.onnx"
    onnx.save(odd_names(), str(path))
    return path


LINES: List[List[str]] = [
    *(["check", "{m}", "--target", "xavier", "--format", f] for f in ("text", "json", "markdown", "sarif", "junit", "html")),
    ["check", "{m}", "--target", "xavier", "--mode", "standalone"],
    ["layers", "{m}"],
    ["layers", "{m}", "--format", "json"],
    ["place", "{m}", "--target", "xavier"],
    ["place", "{m}", "--target", "xavier", "--format", "json"],
    ["build", "{m}", "--target", "xavier", "--plan"],
    ["build", "{m}", "--target", "xavier", "--plan", "--format", "json"],
    ["build", "{m}", "--target", "xavier", "--mode", "standalone", "--backend", "host", "-o", "{d}/a"],
    ["build", "{m}", "--target", "xavier", "--backend", "host", "-o", "{d}/b"],
    ["inspect", "{m}"],
    ["fix", "{m}", "--dry-run"],
    ["explain", "{m}"],
    ["check", "no\x1b[2Jfile\x9b.onnx"],
    ["check", "{m}", "--target", "\x1b]0;x\x07"],
    ["\x1b[2J"],
    ["build", "{m}", "--\x9bx"],
]


@pytest.mark.parametrize("args", LINES, ids=lambda a: " ".join(a).encode("ascii", "backslashreplace").decode()[:60])
def test_no_name_of_a_model_reaches_the_terminal_as_a_control_sequence(
    args: List[str], model: Path, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    code = exit_code_of([a.format(m=model, d=tmp_path) for a in args])
    out, err = capfd.readouterr()
    assert code != 70, err
    for text in (out, err):
        assert ORDERS.findall(text) == []
    assert not any(line.startswith("b ") or line == "b" for line in (out + err).splitlines()), "a name began a line"
    if "json" in args and code == 0:
        assert json.loads(out)


def test_escaped_json_parses_to_the_same_document() -> None:
    document = {"a\u2028": "\x9b\x85\x7f\u202e\u00e9\u4e2d", "b": "\x1b"}
    text = json_escaped(json.dumps(document, ensure_ascii=False))
    assert ORDERS.findall(text) == []
    assert "\u4e2d" in text
    assert json.loads(text) == document


def test_printable_keeps_own_styles_and_escapes_other_control_sequences() -> None:
    assert printable_text("\x1b[1;31mred\x1b[0m\n\ttab") == "\x1b[1;31mred\x1b[0m\n\ttab"
    assert printable_text("\x1b[2J\x1b]0;t\x07\r") == "\\x1b[2J\\x1b]0;t\\x07\\r"
    assert printable("a\nb\x1b[1mc") == "a\\nb\\x1b[1mc"


def test_commands_print_through_the_escaping_echo() -> None:
    """click.echo prints names as they are."""
    wrong = [p.name for p in CLI.rglob("*.py") if p.name not in ("output.py", "main.py") and "click.echo" in p.read_text()]
    assert wrong == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
@pytest.mark.parametrize(("args", "code"), [(["check", "absent.onnx"], 3), (["chek"], 2), (["targets", "--nonsense"], 2)])
def test_with_an_unwritable_stderr_the_exit_code_is_kept(args: List[str], code: int) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "edgedla", *args], stdout=subprocess.PIPE, stderr=full, timeout=60)
    assert done.returncode == code


def test_a_build_goes_on_where_its_progress_cannot_be_written(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    plain = tmp_path / "m.onnx"
    plain.write_bytes(model.read_bytes())
    args = ["build", str(plain), "--target", "orin", "--backend", "host", "-o", str(tmp_path / "a")]
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "edgedla", *args], stdout=subprocess.PIPE, stderr=full, timeout=120)
    assert done.returncode == 0
    assert (tmp_path / "a" / "manifest.json").exists()


def test_a_closed_stderr_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert exit_code_of(["targets"]) == 0
    assert sys.stderr is not None
    assert not sys.stderr.isatty()


def test_a_closed_stdin_is_an_empty_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert exit_code_of(["check", "-"]) == 2
    assert "standard input is empty" in capsys.readouterr().err


INTERRUPTED = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "edgedla.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
from edgedla.cli import run
run()
"""


def test_an_interrupt_before_the_command_has_begun_leaves_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")
