"""Sessions of ONNX Runtime: what they take of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.models import node, onnx_model  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
THREADS = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from edgedla.quantization.session import open_session
before = len(os.listdir("/proc/self/task"))
session = open_session(open(sys.argv[1], "rb").read())
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or (os.cpu_count() or 1) < 2, reason="one core, or not Linux")
def test_a_session_has_as_many_threads_as_the_process_may_use_cores(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_model([node("Relu", "x", "y")]).SerializeToString())
    done = subprocess.run([sys.executable, "-c", THREADS, str(model)], cwd=ROOT, capture_output=True, text=True)
    # The process has its own core; ONNX Runtime needs no thread beside it.
    assert (done.stdout, done.stderr) == ("0\n", "")
