"""The package's shape: no circle of files, folders and files that fit on a screen."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path
from typing import Dict, List, Set

import pytest

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).resolve().parents[2] / "edgedla"
MOST_FILES, MOST_LINES, MEDIAN_LINES, MOST_BODY = 20, 350, 130, 60

FILES: Dict[str, Path] = {
    ".".join(("edgedla", *path.relative_to(PACKAGE).with_suffix("").parts)).replace(".__init__", ""): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imports_of(module: str, path: Path) -> Set[str]:
    """The package's files that a file imports, at its top and in functions; a package's front counts for none."""
    names: Set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edgedla"):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                names.add(submodule if submodule in FILES else node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {n for n in names if n in FILES and n != module and FILES[n].name != "__init__.py"}


def circles(edges: Dict[str, Set[str]]) -> List[List[str]]:
    """Files that are on a circle: what is left when files without imports, and then their readers, are taken away."""
    left = {name: set(targets) for name, targets in edges.items()}
    while True:
        done = {name for name, targets in left.items() if not targets & set(left)}
        if not done:
            break
        left = {name: targets for name, targets in left.items() if name not in done}
    # Readers of a circle remain too; they are no part of it.
    while True:
        read = {target for targets in left.values() for target in targets}
        unread = set(left) - read
        if not unread:
            return [sorted(left)] if left else []
        left = {name: targets for name, targets in left.items() if name not in unread}


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_no_circle_of_files() -> None:
    assert circles({module: imports_of(module, path) for module, path in FILES.items()}) == []


def test_no_folder_is_crowded() -> None:
    files = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in FILES.values())
    assert {folder: n for folder, n in files.items() if n > MOST_FILES} == {}


@pytest.mark.parametrize("path", FILES.values(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_is_long(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, "split it by the questions that its functions answer"


def test_most_files_fit_on_a_screen() -> None:
    assert statistics.median(len(p.read_text(encoding="utf-8").splitlines()) for p in FILES.values()) <= MEDIAN_LINES


def test_no_body_is_long() -> None:
    bodies = {
        f"{path.relative_to(PACKAGE).as_posix()}: {node.name}": lines_of_body(node)
        for path in FILES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: n for name, n in bodies.items() if n > MOST_BODY} == {}


def lines_of_body(function: ast.AST) -> int:
    """Lines of a function below its docstring."""
    body = list(function.body)  # type: ignore[attr-defined]
    if isinstance(body[0], ast.Expr) and isinstance(getattr(body[0], "value", None), ast.Constant):
        body = body[1:]
    return int(body[-1].end_lineno - body[0].lineno + 1) if body else 0
