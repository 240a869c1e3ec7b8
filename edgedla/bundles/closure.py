"""The modules of edgedla that a program reaches by its imports, without those the pipeline's choices rule out."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Callable, Dict, FrozenSet, Iterator, List, Set, Tuple

PACKAGE = Path(__file__).resolve().parents[1]
Wanted = Callable[[str], bool]


def closure(roots: FrozenSet[str], accepts: Wanted) -> Tuple[Dict[str, Path], FrozenSet[str]]:
    """(module -> file, other libraries by top name) that the roots reach.

    An import at module level always counts, because the module cannot be loaded without it. An import inside a function
    counts if `accepts` accepts the module. Parent packages count too, and so do programs that a module starts.

    Args:
        roots: dotted names of modules. wanted: whether a late import may be needed.
    """
    files: Dict[str, Path] = {}
    others: Set[str] = set()
    pending: List[str] = sorted(roots)
    while pending:
        name = pending.pop()
        path = module_file(name)
        if path is None or name in files:
            continue
        files[name] = path
        if "." in name:
            pending.append(name.rpartition(".")[0])
        programs, imports = _references(name, path)
        pending += programs
        for imported, late in imports:
            if imported.split(".")[0] != "edgedla":
                if not late:
                    others.add(imported.split(".")[0])
            elif not late or accepts(imported):
                pending.append(imported)
    return files, frozenset(others)


@lru_cache(maxsize=None)
def _references(name: str, path: Path) -> Tuple[Tuple[str, ...], Tuple[Tuple[str, bool], ...]]:
    """(programs that the file starts, its imports); cached per process, because edgedla's files do not change meanwhile."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(programs_of(name, tree)), tuple(imports_of(tree.body))


def programs_of(name: str, tree: ast.Module) -> List[str]:
    """Modules that a module starts as separate processes, by file: `Path(__file__).with_name("gst_child.py")`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    files = [
        str(getattr(call.args[0], "value", ""))
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "with_name" and call.args
    ]
    return [f"{name.rpartition('.')[0]}.{file[:-3]}" for file in files if file.endswith(".py")]


def module_file(name: str) -> Path | None:
    """The file of a module of edgedla; None if the name is not a module's, for example a function's."""
    base = PACKAGE.parent.joinpath(*name.split("."))
    for path in (base / "__init__.py", base.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def imports_of(body: List[ast.stmt], late: bool = False) -> Iterator[Tuple[str, bool]]:
    """(dotted name, whether the import is inside a function) of every import.

    `from a.b import c` yields both a.b and a.b.c, because c may be a module. Imports for type checkers do not count.
    """
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, late
            yield from ((f"{node.module}.{alias.name}", late) for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from imports_of(node.body, True)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in {getattr(node.test, "id", ""), getattr(node.test, "attr", "")}:
            yield from imports_of(node.orelse, late)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from imports_of(getattr(node, field, None) or [], late)
            for handler in getattr(node, "handlers", ()):
                yield from imports_of(handler.body, late)
