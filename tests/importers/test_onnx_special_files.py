"""Paths that are no regular file are refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgedla.errors import ModelError
from edgedla.importers import load_onnx


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "model.onnx"
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="a pipe or device, not a file"):
        load_onnx(pipe)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_is_refused() -> None:
    with pytest.raises(ModelError, match="a pipe or device, not a file"):
        load_onnx("/dev/zero")
