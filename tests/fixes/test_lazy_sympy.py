"""onnx-ir without sympy, until a size is computed with a symbol; and sympy itself for everybody else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("onnx_ir")

BEGIN = """
import sys
from edgedla.fixes.network.library import onnx_ir
from tests.models import node, onnx_model
ir = onnx_ir()
def model(size):
    return ir.from_proto(onnx_model([node("Relu", "x", "y")], {"x": (size, 3)}, {"y": (size, 3)}))
"""


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", BEGIN + code], check=True, capture_output=True, text=True).stdout.strip()


def test_models_are_read_and_written_without_sympy() -> None:
    code = "ir.to_proto(model(2)), ir.to_proto(model('N')), model('N').clone(); print('sympy' in sys.modules)"
    assert printed(code) == "False"


def test_a_size_with_a_symbol_is_computed_with_sympy() -> None:
    code = "size = model('N').graph.inputs[0].shape[0] + 1; print(size, size.evaluate({'N': 3}))"
    assert printed(code) == "N + 1 4"
    assert printed("print(ir.SymbolicDim('max(N, 3)').evaluate({'N': 5}))") == "5"


def test_who_imports_sympy_gets_sympy() -> None:
    code = "import sympy; print(sympy.Symbol('a') + 1, ir.SymbolicDim(sympy.Symbol('q') + 1))"
    assert printed(code) == "a + 1 q + 1"
