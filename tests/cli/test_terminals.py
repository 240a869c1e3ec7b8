"""Output to terminals of every kind: no escape sequences if they are switched off, and a quiet end on a closed pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Sequence

import pytest

from tests.models import node, onnx_model, save

pty = pytest.importorskip("pty")
PROGRAM = [sys.executable, "-m", "edgedla"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nodes = [node("Relu", "x", "a"), node("ReduceMean", "a", "y", axes=[2, 3], keepdims=1)]
    save(onnx_model(nodes, {"x": [1, 8, 32, 32]}, {"y": [1, 8, 1, 1]}), tmp_path / "net.onnx")
    return tmp_path


def on_a_terminal(words: List[str], folder: Path, program: Sequence[str] = PROGRAM, **environment: str) -> str:
    """What the command writes to a terminal: stdout and stderr."""
    master, slave = pty.openpty()
    kept: Dict[str, str] = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    shown = {**kept, "TERM": "xterm-256color", **environment}
    with subprocess.Popen([*program, *words], stdin=slave, stdout=slave, stderr=slave, env=shown, cwd=folder):
        os.close(slave)
        said = b""
        try:
            while True:
                part = os.read(master, 65536)
                if not part:
                    break
                said += part
        except OSError:
            # How Linux says that nobody holds the other end.
            pass
        finally:
            os.close(master)
    return said.decode()


COMMANDS = [
    ["check", "net.onnx", "--target", "orin"],
    ["place", "net.onnx", "--target", "orin"],
    ["help", "ci"],
    ["sweep", "net.onnx", "--target", "orin", "-o", "rows.csv"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: str(words[0]))
def test_no_color_disables_styles_and_a_dumb_terminal_gets_no_escapes(words: List[str], folder: Path) -> None:
    styles = "\x1b\\[[0-9;]*m"
    assert not re.search(styles, on_a_terminal(words, folder, NO_COLOR="1"))
    assert "\x1b" not in on_a_terminal(words, folder, TERM="dumb")


def test_a_terminal_gets_styles_and_lines_of_its_width(folder: Path) -> None:
    said = on_a_terminal(COMMANDS[0], folder, COLUMNS="50")
    assert "\x1b[1m" in said
    plain = re.sub("\x1b\\[[0-9;]*[mK]", "", said)
    assert max(len(line) for line in plain.splitlines()) <= 50


@pytest.mark.parametrize("words", [*COMMANDS[:3], ["rules", "list"], ["explain", "--list"]], ids=lambda w: str(w[0]))
def test_a_closed_pipe_ends_a_command_quietly(words: List[str], folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, *words], stdout=writer, stderr=subprocess.PIPE, text=True, cwd=folder, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.long
def test_prose_of_every_command_fits_a_terminal_and_a_document_stays_one(folder: Path) -> None:
    assert "built" in on_a_terminal(["build", "net.onnx", "--target", "orin", "-o", "out"], folder)
    commands = [
        ["bench", "out", "--iterations", "5"],
        ["bundle", "out", "-o", "bundle"],
        ["export", "savant", "out", "-o", "exported"],
        ["doctor"],
        ["check", "net.onnx", "--shapes", "a,b:1x3x8x8"],
        ["check", "net.onnx", "--precison", "fp16", "--target", "orin-nx-16gb-and-more"],
        ["trtexec", "--onnx=net.onnx", "--useDLACore=0", "--fp16", "--allowGPUFallback", "--saveEngine=net.engine"],
    ]
    for words in commands:
        said = re.sub("\x1b\\[[0-9;]*m", "", on_a_terminal(words, folder, COLUMNS="72")).replace("\r", "")
        assert max(map(len, said.splitlines())) <= 72, words
    document = on_a_terminal(["doctor", "--json"], folder, COLUMNS="40")
    json.loads(document)
    assert max(map(len, document.splitlines())) > 40


def test_a_message_takes_the_place_of_the_line_which_comes_back(folder: Path) -> None:
    code = (
        "import sys, time\n"
        "from edgedla.cli.output import echo, say\n"
        "from edgedla.cli.terminal import waiting\n"
        "waiting.AFTER_S = waiting.EVERY_S = 1e-3\n"
        "with waiting.waiting('reading') as work:\n"
        "    for phase, tell in ('one', say), ('two', echo):\n"
        "        work.show(phase, 1, 3)\n        time.sleep(0.5)\n        tell(f'after {phase}')\n"
    )
    said = on_a_terminal(["-c", code], folder, PROGRAM[:1])
    # The line may be drawn once more before the next phase begins.
    again = r"\r\n(\r\x1b\[Kone: 1 of 3, \d s)*\r\x1b\[Ktwo: 1 of 3, \d s"
    assert re.search(r"\x1b\[Kone: 1 of 3, \d s\r\x1b\[Kafter one" + again, said)
    assert re.search(r"\x1b\[Kafter two\r\n(\r\x1b\[K.*)?$", said)


#: edgedla with a line that appears at once.
AT_ONCE = (
    "import sys; from edgedla.cli.terminal import waiting; waiting.AFTER_S = waiting.EVERY_S = 1e-3\n"
    "from edgedla.cli import run; run()"
)


#: edgedla where every command is a short one, however busy the machine.
LATER = AT_ONCE.replace("1e-3", "1e9")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "net.onnx", "other.onnx"], r"checking: [012] of 2, \d+ s"),
        (["check", "net.onnx", "--compare", "orin-nx,xavier-nx"], r"checking: [012] of 2, \d+ s"),
        (["place", "net.onnx"], r"placing: \d+ s, at most \d+ s of processor time left"),
        pytest.param(
            ["fix", "net.onnx", "--dry-run"],
            r"(choosing|proving) rewrites: \d+ of \d+, \d+ s",
            marks=pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10"),
        ),
    ],
)
def test_a_long_command_says_what_it_does_and_clears_its_line(words: List[str], said: str, folder: Path) -> None:
    (folder / "other.onnx").write_bytes((folder / "net.onnx").read_bytes())
    shown = on_a_terminal(["-c", AT_ONCE, *words], folder, PROGRAM[:1], NO_COLOR="1")
    assert re.search(said, shown)
    head, _, answer = shown.rpartition("\r\x1b[K")
    assert re.search(said, head)
    assert "net" in answer, "the answer begins on a clear line"
    assert "\x1b[K" not in on_a_terminal(
        ["-c", LATER, *words], folder, PROGRAM[:1], NO_COLOR="1"
    ), "a short command shows no line"
    assert not re.search(said, on_a_terminal(["-c", AT_ONCE, *words], folder, PROGRAM[:1], TERM="dumb"))


def test_the_time_left_is_told_where_it_is_known() -> None:
    from edgedla.cli.terminal.waiting import progress

    assert progress("checking", 9.0, 3, 12, 27.4) == "checking: 3 of 12, 9 s, about 27 s left"
    assert progress("checking", 2.4, 0, 12) == "checking: 0 of 12, 2 s"
    assert progress("placing", 4.0, 0, 1) == "placing: 4 s"
    assert progress("placing", 4.0, 0, 1, None, 6.2) == "placing: 4 s, at most 6 s of processor time left"
    assert progress("placing", 14.0, 0, 1, None, -3.0) == "placing: 14 s, at most 0 s of processor time left"


def test_the_time_left_is_that_of_the_phase_at_its_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.cli.terminal import waiting

    now = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    work = waiting.Work("checking", 4)
    now[0] += 9
    assert work.left_s() is None, "nothing is done yet"
    work.done += 1
    assert work.left_s() == 27
    # Two are there from a run before: the four others took 8 s.
    work.show("sweeping", 2, 10)
    now[0] += 8
    assert work.left_s() is None
    work.show("sweeping", 6, 10)
    assert work.left_s() == 8
    for done, of in ((10, 10), (12, 10)):
        work.show("sweeping", done, of)
        assert work.left_s() is None, "a search may take more trials than it named"
        assert work.what == "checking", "the phase is over; the command is not"
