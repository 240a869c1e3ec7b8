"""Code that no test runs matches the package: benchmarks and the long attack import only names that exist, of each other too."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Iterator, List, Set, Tuple

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tests/hostile/attack*.py")])
BENCHMARKS = {path.stem for path in ROOT.glob("benchmarks/*.py")}


def imports_of(tree: ast.AST) -> Iterator[Tuple[str, str]]:
    """(module, name) of each import from the package or a benchmark; a `try` around one says that it may be missing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"edgedla", *BENCHMARKS}:
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif not isinstance(node, ast.Try):
            yield from imports_of(node)


def defined(benchmark: str) -> Set[str]:
    """The names that a benchmark defines, read and not run: it may import what is not installed here."""
    names: Set[str] = set()
    for node in ast.parse((ROOT / f"benchmarks/{benchmark}.py").read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names


def missing(tree: ast.AST) -> List[str]:
    names: List[str] = []
    for module, name in imports_of(tree):
        if module in BENCHMARKS:
            names += [f"{module}.{name}"] * (name not in defined(module))
            continue
        try:
            if not hasattr(importlib.import_module(module), name):
                importlib.import_module(f"{module}.{name}")
        except ImportError as e:
            # A library that is not installed here is no name that the package has lost.
            if (e.name or "edgedla").startswith("edgedla"):
                names.append(f"{module}.{name}")
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_names_that_benchmarks_import_exist(path: Path) -> None:
    assert missing(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_an_import_of_a_missing_name_is_detected() -> None:
    tree = ast.parse(
        "def run():\n    from edgedla.runtime.arenas import limit_arenas\n    from edgedla.processes.malloc import nothing\n"
    )
    assert missing(tree) == ["edgedla.runtime.arenas.limit_arenas", "edgedla.processes.malloc.nothing"]
    assert missing(ast.parse("from bench_place_proofs import CHIPS, nothing")) == ["bench_place_proofs.nothing"]


def test_reproducers_of_the_first_version_import_only_what_it_has() -> None:
    """They run in its checkout: today's modules, and tests that import these, cannot be imported there."""
    version = re.search(r'VERSION_0_1 = "(\w+)"', (ROOT / "benchmarks/findings/board_findings.py").read_text(encoding="utf-8"))
    assert version is not None

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip("no history of this checkout")
        return done.stdout

    files = set(git("ls-tree", "-r", "--name-only", version[1], "edgedla").split())
    lacking = []
    for path in ROOT.glob("benchmarks/findings/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in ("edgedla", "tests"):
                file = str(node.module).replace(".", "/")
                file = f"{file}.py" if f"{file}.py" in files else f"{file}/__init__.py"
                text = git("show", f"{version[1]}:{file}") if file in files else ""
                lacking += [f"{node.module}.{each.name}" for each in node.names if not re.search(rf"\b{each.name}\b", text)]
    assert lacking == []


def test_reproducers_give_todays_fake_its_own_parts() -> None:
    """By the names that it imports: others come from the tests of the first version's checkout, which is searched first."""
    fake = ast.parse((ROOT / "tests/fake_tensorrt/fake.py").read_text(encoding="utf-8"))
    names = [str(n.module) for n in ast.walk(fake) if isinstance(n, ast.ImportFrom) and str(n.module).startswith("tests.")]
    stage = (ROOT / "benchmarks/findings/stage.py").read_text(encoding="utf-8")
    assert names
    assert [name for name in names if f'"{name}"' not in stage] == []


def test_each_mutant_by_hand_stands_once_in_its_file() -> None:
    rows = json.loads((ROOT / "benchmarks/named_mutants.json").read_text(encoding="utf-8"))["mutants"]
    counts = {(row["path"], row["old"]): (ROOT / row["path"]).read_text(encoding="utf-8").count(row["old"]) for row in rows}
    assert {key: count for key, count in counts.items() if count != 1} == {}
