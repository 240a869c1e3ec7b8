"""What a check in JSON imports: the start is most of a small model's time, and grows by a module at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest

from tests.fixes.test_gain import average_network
from tests.models import node, onnx_model, save

CODE = """
import sys
from edgedla.cli.main import exit_code_of
code = exit_code_of(sys.argv[1:])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
#: Counts the calls of Python functions, and those of them that importing made.
COUNTED = """
import sys
counts, importing = [0, 0], 0
def count(frame, event, argument):
    global importing
    loads = frame.f_code.co_name == "_find_and_load" and "importlib" in frame.f_code.co_filename
    if event == "call":
        importing += loads
        counts[0] += 1
        counts[1] += importing > 0
    elif event == "return":
        importing -= loads
sys.setprofile(count)
from edgedla.cli.main import exit_code_of
code = exit_code_of(sys.argv[1:])
sys.setprofile(None)
print(counts[1] / counts[0], file=sys.stderr)
sys.exit(code)
"""
WEIGHTS = np.ones((8, 8, 1, 1), np.float32)
#: Libraries that take longer to import than the check of one layer takes.
SLOW = frozenset("onnx onnxruntime onnx_ir sympy yaml jinja2 rich http.server ssl numpy highspy ctypes".split())


#: What proves rewrites: to predict what they gain takes none of it.
PROVES = frozenset(f"edgedla.fixes.{m}" for m in "fix apply_proven result account preprocess decoder metadata seeded".split())
#: Most of our own modules for the text of a network that a rewrite brings to the DLA.
MOST_OF_TEXT = 350


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., List[str]]:
    def modules(form: str, model: Any = None) -> List[str]:
        path = tmp_path / "one.onnx"
        one = onnx_model([node("Conv", "x w", "y")], {"x": (1, 8, 8, 8)}, {"y": (1, 8, 8, 8)}, {"w": WEIGHTS})
        save(model or one, path)
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", CODE, "check", str(path), "--target", "orin-nx-16gb", "--format", form]
        # The second one finds the kept forms of the rules.
        runs = [subprocess.run(command, capture_output=True, text=True, env=env, timeout=60) for _ in range(2)]
        assert {run.returncode for run in runs} == {int(model is not None)}, runs[0].stderr
        return runs[1].stderr.split()

    return modules


def test_the_modules_of_a_check_are_these(imported: Callable[..., List[str]], golden: Callable[[str, str], None]) -> None:
    """A newcomer is either needed for the document, or belongs behind the option that needs it; then `--update-golden`."""
    golden("modules_of_a_check.txt", "".join(f"{m}\n" for m in imported("json") if m.split(".")[0] == "edgedla"))


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_slow_library_is_imported_for_one_layer(imported: Callable[..., List[str]], form: str) -> None:
    assert SLOW.isdisjoint(imported(form))


def test_what_rewrites_gain_is_told_without_what_proves_them(imported: Callable[..., List[str]]) -> None:
    pytest.importorskip("onnx_ir")
    modules = imported("text", average_network())
    assert "edgedla.fixes.gain" in modules
    assert PROVES.isdisjoint(modules)
    assert {"sympy", "onnxruntime"}.isdisjoint(modules)
    assert sum(m.split(".")[0] == "edgedla" for m in modules) <= MOST_OF_TEXT


def test_imports_are_the_smaller_part_of_a_check_of_many_layers(tmp_path: Path) -> None:
    path = tmp_path / "many.onnx"
    nodes = [node("Conv", f"x{i} w", f"x{i + 1}") for i in range(300)]
    save(onnx_model(nodes, {"x0": (1, 8, 8, 8)}, {"x300": (1, 8, 8, 8)}, {"w": WEIGHTS}), path)
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", COUNTED, "check", str(path), "--target", "orin-nx-16gb", "--format", "json"]
    runs = [subprocess.run(command, capture_output=True, text=True, env=env, timeout=60) for _ in range(2)]
    assert {run.returncode for run in runs} == {0}, runs[0].stderr
    assert float(runs[1].stderr) < 0.6, "calls while importing, of all calls of Python functions"
