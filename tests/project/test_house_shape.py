"""The package's shape: no circular imports, and folders and files that fit on a screen."""

from __future__ import annotations

import ast
import re
import statistics
import tokenize
from collections import Counter
from pathlib import Path
from typing import Dict, List, Set

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "edgedla"
MOST_FILES, MOST_LINES, MEDIAN_LINES, MOST_BODY = 20, 350, 130, 60
#: Folders of alternatives, a file each, into which CONTRIBUTING.md sends who adds one: a list that nobody reads whole.
LISTS = re.findall(r"`edgedla/([\w/]+)/(?:<room>/)?<\w+>\.py`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
MOST_IN_A_LIST = 40

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


def test_import_cycles_are_detected() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


def test_no_files_import_each_other_in_a_cycle() -> None:
    assert circles({module: imports_of(module, path) for module, path in FILES.items()}) == []


def test_no_folder_has_too_many_files() -> None:
    files = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in FILES.values())
    crowded = {f"edgedla/{folder}": n for folder, n in files.items() if n > most_files(folder)}
    assert crowded == {}, (
        f"at most {MOST_FILES} files in a folder, {MOST_IN_A_LIST} where CONTRIBUTING.md sends who adds one: "
        "give those that belong together a folder of their own"
    )


def most_files(folder: str) -> int:
    parent = folder.rpartition("/")[0]
    return MOST_IN_A_LIST if folder in LISTS or parent == "fixes/rewrites" else MOST_FILES


def test_list_folders_are_read_from_contributing() -> None:
    assert {"graph/kinds", "fixes/rewrites", "runtime/sources", "runtime/outputs", "cli"} <= set(LISTS)
    assert most_files("fixes/rewrites/elementwise") == MOST_IN_A_LIST
    assert most_files("placement/solvers") == MOST_FILES


@pytest.mark.parametrize("path", FILES.values(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_has_too_many_lines(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, "split it by the questions that its functions answer"


def test_most_files_fit_on_a_screen() -> None:
    median = statistics.median(len(p.read_text(encoding="utf-8").splitlines()) for p in FILES.values())
    assert median <= MEDIAN_LINES, "half of the files are longer: split some by the questions that their functions answer"


def test_no_body_is_long() -> None:
    bodies = {
        f"{path.relative_to(PACKAGE).as_posix()}: {node.name}": lines_of_body(node)
        for path in FILES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    long = {name: n for name, n in bodies.items() if n > MOST_BODY}
    assert long == {}, f"at most {MOST_BODY} lines below a function's docstring: give a step of it a name of its own"


def lines_of_body(function: ast.AST) -> int:
    """Lines of a function below its docstring."""
    body = list(function.body)  # type: ignore[attr-defined]
    if isinstance(body[0], ast.Expr) and isinstance(getattr(body[0], "value", None), ast.Constant):
        body = body[1:]
    return int(body[-1].end_lineno - body[0].lineno + 1) if body else 0


def test_the_formatter_has_every_line() -> None:
    told = [
        f"{path.relative_to(ROOT)}:{token.start[0]}"
        for path in FILES.values()
        for token in tokenize.tokenize(path.open("rb").readline)
        if token.type == tokenize.COMMENT and token.string.startswith(("# fmt:", "# yapf:"))
    ]
    assert (
        told == []
    ), "the formatter lays out all code; a table that it spreads is data: a file under rules/, or rows of their own"
