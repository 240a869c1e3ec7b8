"""`outputs: {call: module:function}`: it gets every result, and what it raises ends no run beside another output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgedla.errors import RunError, UsageError
from edgedla.runtime.frames import Frame, FrameResult
from edgedla.runtime.outputs.own import Own
from edgedla.runtime.pipeline.config import config_from

RESULT = FrameResult(Frame(3, np.zeros((2, 2, 3), np.uint8), 0.0), (), "GPU", True, 1.0, 1.0)
FILE = """
seen = []
def each(result): seen.append(result.frame.index)
def fails(result): raise ValueError("no such table")
def leaves(result): raise SystemExit(3)
class Output:
    def write(self, result): seen.append("w")
    def write_event(self, document): seen.append(document["event"])
    def close(self): seen.append("closed")
class Empty: pass
class Broken:
    def __init__(self): raise OSError("no database")
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


def seen(sink: Own) -> Any:
    return sink._write.__globals__["seen"] if hasattr(sink._write, "__globals__") else sink._write.__func__.__globals__["seen"]


def test_a_function_gets_results_and_a_class_events_and_the_end_too(mine: str) -> None:
    sink = Own(f"{mine}:each")
    sink.write(RESULT)
    sink.write_event({"event": "e"})
    sink.close()
    assert seen(sink) == [3]
    sink = Own(f"{mine}:Output")
    sink.write(RESULT)
    sink.write_event({"event": "e"})
    sink.close()
    sink.close()
    assert seen(sink) == ["w", "e", "closed"]


@pytest.mark.parametrize(("name", "says"), [("fails", "no such table"), ("leaves", "SystemExit"), ("Broken", "no database")])
def test_what_it_raises_is_a_run_error_with_its_name(mine: str, name: str, says: str) -> None:
    with pytest.raises(RunError, match=says) as e:
        Own(f"{mine}:{name}").write(RESULT)
    assert e.value.where == f"{mine}:{name}"


@pytest.mark.parametrize("name", ["Empty", "nothing"])
def test_what_is_no_output_is_refused(mine: str, name: str) -> None:
    with pytest.raises(UsageError):
        Own(f"{mine}:{name}")


def test_its_file_is_relative_to_the_pipelines(tmp_path: Path) -> None:
    for given, read in (("mine.py:f", f"{tmp_path}/mine.py:f"), ("package.mine:f", "package.mine:f")):
        document = {"artifact": "a", "source": given, "outputs": {"call": given}}
        config = config_from(1, document, str(tmp_path / "p.yaml"))
        assert (config.outputs.call, config.source.uri) == (read, read)
