"""If the libraries of fix are missing, or Python is too old, it says what to do; nothing else changes."""

from __future__ import annotations

import sys

import pytest

from edgedla.cli.main import exit_code_of
from edgedla.errors import EnvironmentMissing
from edgedla.fixes.network import library


def test_fix_names_the_minimum_python_version(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(library, "_ready", None)
    if sys.version_info >= (3, 10):
        monkeypatch.setattr(library, "MINIMUM_PYTHON", (99, 0))
    with pytest.raises(EnvironmentMissing, match=r"rewriting a model needs Python (3\.10|99\.0) or newer; this is 3\.\d+"):
        library.onnx_ir()
    assert exit_code_of(["fix", str(tmp_path / "m.onnx"), "--dry-run"]) == 4
    assert "work with Python 3.8" in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the older Python is named first")
def test_fix_names_a_missing_onnx_ir_and_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(EnvironmentMissing, match="onnx-ir") as error:
        library.onnx_ir()
    assert "edgedla[fix]" in str(error.value)


def test_the_list_of_rewrites_needs_no_library(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    assert exit_code_of(["fix", "--list"]) == 0
    assert "\nglobal-average-conv " in capsys.readouterr().out
    assert exit_code_of(["fix", "--list", "--format", "markdown"]) == 0
    assert "| `global-average-conv` |" in capsys.readouterr().out
    assert exit_code_of(["fix", "--list", "--format", "html"]) == 2
