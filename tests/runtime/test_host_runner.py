"""What a closed runner leaves behind."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from edgedla.builder.artifact.load import load_artifact  # noqa: E402
from edgedla.errors import RunError  # noqa: E402
from edgedla.runtime.runners.host import HostRunner  # noqa: E402


def test_a_closed_runner_holds_no_session(artifact: Path) -> None:
    """A process that runs pipelines one after another kept the threads of each: the collector may never look at the cycles."""
    runner = HostRunner(load_artifact(artifact))
    session = weakref.ref(runner._session)
    runner.close()
    runner.close()
    assert session() is None
    with pytest.raises(RunError, match="closed"):
        runner.submit({})
