"""The first call may come from several threads, beside a user's own `import onnx`, or after a fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.hostile.nasty_models import chain

FIRST_CALLS = """
import sys, threading, edgedla
wrong, ready = [], threading.Barrier({threads})
def call(k):
    ready.wait()
    try:
        if {importer} and k == 0:
            import onnx
            onnx.load(sys.argv[1])
        else:
            edgedla.check(sys.argv[1], target="orin")
    except BaseException as e:
        wrong.append(repr(e))
threads = [threading.Thread(target=call, args=(k,)) for k in range({threads})]
[t.start() for t in threads]
[t.join() for t in threads]
import onnx
from edgedla.importers.model_file.proto import model_proto
assert type(model_proto()) is onnx.ModelProto, "two sets of protobuf classes"
sys.exit("\\n".join(wrong) or 0)
"""

FORKED = """
import os, sys, threading, edgedla
from edgedla.importers.model_file import proto
proto._lock.acquire()  # as if another thread were in the middle of it
pid = os.fork()
if pid == 0:
    edgedla.check(sys.argv[1], target="orin")
    os._exit(0)
sys.exit(os.waitpid(pid, 0)[1])
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(chain(5), str(path))
    return path


@pytest.mark.parametrize("importer", [False, True])
@pytest.mark.parametrize("attempt", range(3))
def test_concurrent_first_calls_from_threads_succeed(model: Path, importer: bool, attempt: int) -> None:
    code = FIRST_CALLS.format(threads=8, importer=importer)
    done = subprocess.run([sys.executable, "-c", code, str(model)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_first_call_in_a_child_forked_during_another_succeeds(model: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKED, str(model)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
