"""The notebook of the examples runs from its first cell to its last, and its results show their pages."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any, Dict, List

import pytest

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "11_in_a_notebook" / "check.ipynb"


def cells() -> List[str]:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], {cell["cell_type"] for cell in document["cells"]}) == (4, {"markdown", "code"})
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def shown(source: str, names: Dict[str, Any]) -> Any:
    """Runs a cell as a kernel does; the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs_and_its_results_are_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES / "00_shapes_detector", tmp_path / "00_shapes_detector")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    names: Dict[str, Any] = {}
    values = [shown(source, names) for source in cells()]
    pages = [value for value in values if hasattr(value, "_repr_html_")]
    # The check, the placement, and what assert_fits returns.
    assert len(pages) == 3
    assert all(page._repr_html_().startswith("<iframe ") for page in pages)
    assert sorted(path.name for path in Path().iterdir()) == ["check.html", "check.json"]
    assert not any(output for cell in json.loads(NOTEBOOK.read_text())["cells"] for output in cell.get("outputs", ()))
