"""Sessions of ONNX Runtime: the resources that they use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from edgedla.errors import ModelError  # noqa: E402
from edgedla.quantization.session import open_session  # noqa: E402
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


def test_an_operator_of_a_plugin_is_refused_with_an_alternative() -> None:
    model = onnx_model([node("EfficientNMS_TRT", "x", "y", domain="TRT")], opset=17)
    model.opset_import.add(domain="TRT", version=1)
    with pytest.raises(ModelError) as error:
        open_session(model.SerializeToString())
    assert "EfficientNMS_TRT" in error.value.what
    assert "end the model in front of it" in error.value.hint
