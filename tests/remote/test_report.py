"""`board report` when something fails: the board goes off, Ctrl-C, a model that cannot be built."""

from __future__ import annotations

import json
from types import SimpleNamespace

import jsonschema
import pytest
from click import Abort

from edgedla.cli import board_option
from edgedla.cli.fleet.board import report
from edgedla.errors import BuildError, DataError, EnvironmentMissing, ModelError
from edgedla.io.documents import schema
from edgedla.remote import measure, truth
from edgedla.remote.connection import ConnectionLost
from edgedla.remote.job import Terminal
from tests.remote.loopback import MODEL

pytestmark = pytest.mark.once


@pytest.fixture
def told(monkeypatch, tmp_path):
    """What is said; the board's answers are those of the list `answers`."""
    told = SimpleNamespace(words=[], answers=[], presses=[], file=tmp_path / "r.json")
    terminal = Terminal(err=told.words.append, stop=lambda: told.presses.pop() if told.presses else None)
    monkeypatch.setattr(board_option, "terminal", lambda: terminal)

    def measure_on(*_, **__):
        answer = told.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer

    monkeypatch.setattr(measure, "measure_on", measure_on)
    entry = {"precision": "fp16", "failed": "X", "exit_code": 5}
    monkeypatch.setattr(truth, "model_report", lambda *_: entry)
    return told


def run(told, *models):
    words = ["orin1", *map(str, models), "--precision", "fp16", "-o", str(told.file)]
    return report.main(words, standalone_mode=False)


def entries(told):
    document = json.loads(told.file.read_text())
    jsonschema.validate(document, schema("edgedla.board-report"))
    return [model["failed"] for model in document["models"]]


@pytest.mark.parametrize("end", [ConnectionLost("gone"), EnvironmentMissing("off"), KeyboardInterrupt()])
def test_measured_entries_are_kept_if_the_board_goes_offline(told, end, capsys):
    told.answers = [None, end]
    with pytest.raises((type(end), Abort)):
        run(told, MODEL, MODEL, MODEL)
    assert entries(told) == ["X"]
    told.answers = [end]
    told.file.unlink()
    with pytest.raises((type(end), Abort)):
        run(told, MODEL)
    assert not told.file.exists()


def test_a_model_that_fails_is_an_entry_of_the_report(told):
    told.answers = [BuildError("no"), ModelError("secret.onnx: no"), None]
    assert run(told, MODEL, MODEL, MODEL) == 1
    assert entries(told) == ["BuildError", "ModelError", "X"]
    assert "secret" not in told.file.read_text()


def test_a_missing_model_is_refused_before_measuring(told, tmp_path):
    with pytest.raises(DataError, match="no such file"):
        run(told, MODEL, tmp_path / "missing.onnx")


def test_ctrl_c_interrupts_the_command_on_the_board_and_the_report(monkeypatch, tmp_path):
    presses, words, asked = ["interrupt"], [], []

    def run_on(board, request, terminal):
        asked.append(request.argv[0])
        terminal.say("board orin1: waiting, it is in use by ana")
        terminal.err("a word of the build")
        while terminal.stop() is None:
            pass
        return SimpleNamespace(rc=130)

    monkeypatch.setattr(measure, "run_on", run_on)
    terminal = Terminal(err=words.append, stop=presses.pop)
    with pytest.raises(KeyboardInterrupt):
        measure.measure_on(SimpleNamespace(name="orin1"), MODEL, tmp_path, terminal, what="x")
    assert (asked, words) == (["build"], ["board orin1: waiting, it is in use by ana\n"])
