"""What a user's type checker and editor see of edgedla: the public names with their types, not Any."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import edgedla

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).resolve().parents[2] / "edgedla"
USE = """\
from __future__ import annotations
import edgedla
from edgedla.testing import assert_fits
report = edgedla.check("m.onnx", target="orin-nx-16gb")
reveal_type(report)
reveal_type(report.totals.layers_dla)
report.nothing
edgedla.check("m.onnx", target=3)
assert_fits("m.onnx", target="orin-nx-16gb")
"""


def test_the_stub_has_every_public_name_from_where_it_is_imported() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    found = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert found == edgedla._PUBLIC
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_sees_the_types(tmp_path: Path) -> None:
    """In a folder of the user's, so that edgedla is an installed package with py.typed."""
    (tmp_path / "use.py").write_text(USE, encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", "use.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    own = [line for line in done.stdout.splitlines() if line.startswith("use.py:")]
    assert [line.split(":", 2)[1] for line in own] == ["5", "6", "7", "8"], done.stdout + done.stderr
    assert 'Revealed type is "edgedla.regions.report.CheckReport"' in own[0]
    assert 'Revealed type is "builtins.int"' in own[1]
    assert 'has no attribute "nothing"' in own[2]
    assert 'expected "str' in own[3]
