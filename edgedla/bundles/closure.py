"""The modules of edgedla that a program reaches by its imports, less those that the pipeline's choices rule out."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Callable, Dict, FrozenSet, Iterator, List, Set, Tuple

PACKAGE = Path(__file__).resolve().parents[1]
Wanted = Callable[[str], bool]


def closure(roots: FrozenSet[str], wanted: Wanted) -> Tuple[Dict[str, Path], FrozenSet[str]]:
    """(module -> file, other libraries by top name) that the roots reach.

    An import at a module's top always counts, for the module cannot be loaded without it. One inside a function counts
    where `wanted` says yes to the module. Packages above a module count with it, and programs that it starts.

    Args:
        roots: dotted names of modules. wanted: whether a module that is imported late may be needed.
    """
    files: Dict[str, Path] = {}
    others: Set[str] = set()
    left: List[str] = sorted(roots)
    while left:
        name = left.pop()
        path = module_file(name)
        if path is None or name in files:
            continue
        files[name] = path
        if "." in name:
            left.append(name.rpartition(".")[0])
        programs, imports = _references(name, path)
        left += programs
        for imported, late in imports:
            if imported.split(".")[0] != "edgedla":
                if not late:
                    others.add(imported.split(".")[0])
            elif not late or wanted(imported):
                left.append(imported)
    return files, frozenset(others)


@lru_cache(maxsize=None)
def _references(name: str, path: Path) -> Tuple[Tuple[str, ...], Tuple[Tuple[str, bool], ...]]:
    """(programs that the file starts, its imports), read once per process: files of edgedla do not change under it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(programs_of(name, tree)), tuple(imports_of(tree.body))


def programs_of(name: str, tree: ast.Module) -> List[str]:
    """Modules that a module starts by their file, in a process of their own: `Path(__file__).with_name("gst_child.py")`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    files = [
        str(getattr(call.args[0], "value", ""))
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "with_name" and call.args
    ]
    return [f"{name.rpartition('.')[0]}.{file[:-3]}" for file in files if file.endswith(".py")]


def module_file(name: str) -> Path | None:
    """The file of a module of edgedla; None for a name that is no module, such as a function's."""
    base = PACKAGE.parent.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def imports_of(body: List[ast.stmt], late: bool = False) -> Iterator[Tuple[str, bool]]:
    """(dotted name, whether it is imported only when a function runs) of every import.

    Of `from a.b import c` both a.b and a.b.c are named: c may be a module. Imports for type checkers do not count.
    """
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, late
            yield from ((f"{node.module}.{alias.name}", late) for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports_of(node.body, True)
        elif isinstance(node, ast.If) and _for_types(node.test):
            yield from imports_of(node.orelse, late)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from imports_of(getattr(node, field, None) or [], late)
            for handler in getattr(node, "handlers", ()):
                yield from imports_of(handler.body, late)


def _for_types(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in {getattr(test, "id", ""), getattr(test, "attr", "")}
