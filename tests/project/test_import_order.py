"""Imports go one way, inside functions too, and each heavy library is imported only in its few places."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

pytestmark = pytest.mark.once

PACKAGE = Path(__file__).resolve().parents[2] / "edgedla"

#: Each may import only what stands left of it, and itself. Single files count as part of the foundation.
ORDER = (
    "errors graph targets records rules importers regions quantization costs placement fixes formats preprocess "
    "builder accuracy inspection runtime export acceptance remote sweep torch conversion deployment bundles reports testing cli"
).split()
#: Modules and rooms that everybody may import.
FOUNDATION = {"errors", "version", "identity", "vocabulary", "arguments", "io", "processes", "text"}

ALLOWED: Dict[str, Tuple[str, ...]] = {
    "onnx": (
        "importers/",
        "fixes/",
        "quantization/",
        "builder/onnx_input",
        "builder/onnx_source",
        "builder/host/",
        "builder/chain/",
        "accuracy/",
        "acceptance/",
        "torch/",
        "conversion/",
    ),
    # Its telemetry is switched off before the import, which a second place would forget.
    "onnxruntime": ("quantization/session.py",),
    "tensorrt": ("builder/tensorrt/bindings.py", "runtime/"),
    # formats/interleave.py falls back to NumPy where OpenCV is missing.
    "cv2": ("preprocess/", "runtime/", "formats/interleave.py"),
    "pycuda": ("runtime/",),
    "jtop": ("runtime/",),
    "highspy": ("placement/",),
}

FILES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> Iterator[Tuple[int, str]]:
    """(line, dotted name) of every import of a file, at its top and in functions."""
    module = ["edgedla", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module[: -node.level]) + "." if node.level else ""
            yield node.lineno, f"{base}{node.module or ''}"
            # `from edgedla import regions` imports the folder regions.
            for alias in node.names:
                if f"{base}{node.module or ''}" == "edgedla":
                    yield node.lineno, f"edgedla.{alias.name}"
        elif _is_import_call(node):
            assert isinstance(node, ast.Call)
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield node.lineno, argument.value


def naming(library: str) -> List[Path]:
    """The files that can import it: all are read, and few parsed."""
    return [path for path in FILES if re.search(rf"\b{library}\b", path.read_text(encoding="utf-8"))]


def test_contributors_read_the_same_order(request: pytest.FixtureRequest) -> None:
    """CONTRIBUTING.md shows ORDER; --update-golden writes it there."""
    page = PACKAGE.parent / "CONTRIBUTING.md"
    block = re.compile(r"(?<=`tests/project/test_import_order.py`:\n\n  ```\n)(.*?)(?=\n  ```)", re.S)
    shown = textwrap.fill(" < ".join(ORDER), 120, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    text = page.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        page.write_text(block.sub(shown, text), encoding="utf-8")
    assert block.findall(page.read_text(encoding="utf-8")) == [shown]


def _is_import_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not node.args:
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("import_module", "__import__")


def test_the_order_names_every_folder() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders - FOUNDATION == set(ORDER) - {"errors"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].replace(".py", "")
    if part in ("__init__", "__main__"):
        # The package's front: it names everything, lazily.
        return
    wrong: List[str] = []
    for line, name in imported(path):
        pieces = name.split(".")
        if pieces[0] != "edgedla" or len(pieces) == 1:
            continue
        other = pieces[1]
        if other in FOUNDATION or other == part:
            if part in FOUNDATION and part != other and other not in FOUNDATION:
                wrong.append(f"line {line}: {name}")
            continue
        if other not in ORDER or part in FOUNDATION or ORDER.index(other) > ORDER.index(part):
            wrong.append(f"line {line}: {name}")
    assert wrong == [], f"{part} may import only {ORDER[: ORDER.index(part)] if part in ORDER else sorted(FOUNDATION)}"


@pytest.mark.parametrize("library", sorted(ALLOWED))
def test_heavy_libraries_are_imported_in_allowed_files_only(library: str) -> None:
    wrong = []
    for path in naming(library):
        place = path.relative_to(PACKAGE).as_posix()
        for line, name in imported(path):
            if name.split(".")[0] == library and not place.startswith(ALLOWED[library]):
                wrong.append(f"{place}:{line}")
    assert wrong == [], f"{library} may be imported in {ALLOWED[library]}"


@pytest.mark.parametrize("library", ["jtop", "ultralytics"])
def test_agpl_libraries_are_never_imported_at_the_top_of_a_module(library: str) -> None:
    for path in naming(library):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == library for name in names), path
