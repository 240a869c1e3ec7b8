"""A module's source as a bundle holds it: imports that only functions use happen on first use."""

from __future__ import annotations

import ast
from typing import Any, Dict, Iterator, List, Mapping, Optional, Set, Tuple, Union

RUNTIME = "edgedla.bundles.late"
#: Loaded at every start, or used only in annotations: making these late gains nothing.
_ALWAYS = frozenset({"__future__", "dataclasses", "numpy", "typing"})
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = (*_DEFS, ast.Lambda)
Import = Union[ast.Import, ast.ImportFrom]
#: First line, first column, last line, end column, replacement text.
Cut = Tuple[int, int, int, int, str]


def lean(sources: Mapping[str, str]) -> Dict[str, str]:
    """Sources by module, with late imports, patterns and dataclasses (`late.py`), without docstrings and annotations of
    functions. Line numbers stay the same.

    An import becomes late if no code outside functions uses it, if functions only call it, read its attributes or check
    isinstance, and if no other module imports it from here. A module that also runs as a program stays unchanged.
    """
    trees = {name: ast.parse(text) for name, text in sources.items()}
    imported_names = {
        (node.module, alias.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return {
        name: text
        if name == RUNTIME or _is_program(trees[name])
        else _lean(text, trees[name], {taken_name for module, taken_name in imported_names if module == name})
        for name, text in sources.items()
    }


def _constructors(tree: ast.Module) -> List[str]:
    """Lines appended to a module that give its plain dataclasses a constructor, which every start would otherwise compile."""
    takes = {a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "dataclasses" for a in n.names}
    lines: List[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and "dataclass" in takes and _is_plain(node):
            fields = [_field(n) for n in node.body if isinstance(n, ast.AnnAssign)]
            if None not in fields:
                lines += _constructor(node, [field for field in fields if field is not None])
    return [f"from {RUNTIME} import ready as _ready", *lines, ""] if lines else []


def _is_plain(node: ast.ClassDef) -> bool:
    """True for a dataclass without bases whose constructor follows from its fields alone."""
    if node.bases or node.keywords or len(node.decorator_list) != 1:
        return False
    by = node.decorator_list[0]
    options = by.keywords if isinstance(by, ast.Call) and not by.args else []
    name = by.func if isinstance(by, ast.Call) else by
    methods = {n.name for n in node.body if isinstance(n, _DEFS)}
    return (
        isinstance(name, ast.Name)
        and name.id == "dataclass"
        and all(option.arg in ("frozen", "eq") for option in options)
        and "__init__" not in methods
    )


#: Name, kind of default ("", "plain", "default" or "factory"), whether it is in the repr, whether it is compared.
_Field = Tuple[str, str, bool, bool]


def _field(node: ast.AnnAssign) -> Optional[_Field]:
    """The field; None if its part of the constructor is of another form."""
    if not isinstance(node.target, ast.Name) or any(
        name in ast.dump(node.annotation) for name in ("ClassVar", "InitVar", "KW_ONLY")
    ):
        return None
    value = node.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field"):
        return node.target.id, "" if value is None else "plain", True, True
    given = {k.arg: k.value for k in value.keywords}
    flags = [given.get(flag, ast.Constant(value=True)) for flag in ("repr", "compare")]
    if set(given) - {"default", "default_factory", "repr", "compare", "metadata"} or not all(
        isinstance(flag, ast.Constant) for flag in flags
    ):
        return None
    kind = "default" if "default" in given else "factory" if "default_factory" in given else ""
    shown, compared = (bool(getattr(flag, "value", True)) for flag in flags)
    return node.target.id, kind, shown, compared


def _constructor(node: ast.ClassDef, fields: List[_Field]) -> List[str]:
    of = {"": "", "plain": "=_class.{0}", "default": "=_class.{0}.default", "factory": "=_missing"}
    takes = ", ".join(["self", *(name + of[kind].format(name) for name, kind, _, _ in fields)])
    made = [f" _of_{name} = _class.{name}.default_factory" for name, kind, _, _ in fields if kind == "factory"]
    sets = [
        f"  self.{name} = _of_{name}() if {name} is _missing else {name}"
        if kind == "factory"
        else f"  self.{name} = {name}"
        for name, kind, _, _ in fields
    ]
    if any(isinstance(n, _DEFS) and n.name == "__post_init__" for n in node.body):
        sets.append("  self.__post_init__()")
    shown = tuple(name for name, _, is_shown, _ in fields if is_shown)
    compared = tuple(name for name, _, _, is_compared in fields if is_compared)
    return [
        f"def _ready_{node.name}(_class, _missing):",
        *made,
        f" def __init__({takes}):",
        *(sets or ["  pass"]),
        " return __init__",
        f"_ready({node.name}, _ready_{node.name}, {shown!r}, {compared!r})",
    ]


def _is_program(tree: ast.Module) -> bool:
    """True if the module runs as a process of its own, by file: there it cannot import anything else of edgedla."""
    return any(
        isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))
        for node in tree.body
    )


def _lean(text: str, tree: ast.Module, imported_names: Set[str]) -> str:
    early = _early(tree) | imported_names
    lines = text.split("\n")
    cuts = [cut for node in ast.walk(tree) for cut in _removed(node, lines)]
    _without(cuts + [cut for node in tree.body for cut in _patterns(node)], lines)
    bound = False
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            parts = _statements(node, early)
            if parts:
                if any(part.startswith("_late(") for part in parts) and not bound:
                    parts.insert(0, f"from {RUNTIME} import late as _late")
                    bound = True
                first, end = node.lineno - 1, int(node.end_lineno or node.lineno)
                lines[first:end] = ["; ".join(parts)] + [""] * (end - first - 1)
    return "\n".join(lines + _constructors(tree))


def _removed(node: ast.AST, lines: List[str]) -> Iterator[Cut]:
    """Docstrings, and annotations of functions: a board does not need them."""
    body = getattr(node, "body", None)
    if isinstance(node, (ast.Module, ast.ClassDef, *_DEFS)) and isinstance(body, list) and body:
        first = body[0]
        if isinstance(first, ast.Expr) and ast.get_docstring(node, clean=False) is not None:
            # Only a string may precede `from __future__`; elsewhere the docstring may be the whole body.
            yield (first.lineno, first.col_offset, *_end(first), "" if isinstance(node, ast.Module) else "0")
    if isinstance(node, ast.arg) and node.annotation is not None:
        yield (node.lineno, node.col_offset + len(node.arg.encode()), *_end(node.annotation), "")
    if isinstance(node, _DEFS) and node.returns is not None:
        # Columns count bytes.
        before = lines[node.returns.lineno - 1].encode()[: node.returns.col_offset]
        if before.rstrip().endswith(b"->"):
            yield (node.returns.lineno, before.rindex(b"->"), *_end(node.returns), "")


def _patterns(node: ast.stmt) -> Iterator[Cut]:
    """`NAME = re.compile(...)` of a module."""
    call = node.value if isinstance(node, ast.Assign) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "compile":
        of = call.func.value
        if isinstance(of, ast.Name) and of.id == "re":
            yield (node.lineno, 0, node.lineno, 0, f"from {RUNTIME} import Pattern as _Pattern; ")
            yield (call.func.lineno, call.func.col_offset, *_end(call.func), "_Pattern")


def _end(node: Any) -> Tuple[int, int]:
    return int(node.end_lineno), int(node.end_col_offset)


def _without(cuts: List[Cut], lines: List[str]) -> None:
    """Applies the cuts, keeping the number of lines, so that tracebacks show the package's line numbers."""
    for first, column, last, end_column, instead in sorted(cuts, reverse=True):
        before = lines[first - 1].encode()[:column].decode()
        after = lines[last - 1].encode()[end_column:].decode()
        lines[first - 1 : last] = [f"{before}{instead}{after}"] + [""] * (last - first)


def _statements(node: Import, early: Set[str]) -> List[str]:
    """The statements that replace the import; empty if it stays."""
    if isinstance(node, ast.Import):
        # `import a.b` binds a.
        can = [a for a in node.names if a.asname or "." not in a.name]
        late = [a for a in can if (a.asname or a.name) not in early and a.name not in _ALWAYS]
        calls = [f"_late(globals(), {a.name!r}, {' as ' + (a.asname or a.name)!r})" for a in late]
        eager = [_as(a) for a in node.names if a not in late]
        return ([f"import {', '.join(eager)}"] if eager else []) + calls if late else []
    module = str(node.module)
    if module == "dataclasses":
        eager = [_as(a) for a in node.names if a.name != "dataclass"]
        ours = [f"from {RUNTIME} import dataclass"] if len(eager) < len(node.names) else []
        return ([f"from dataclasses import {', '.join(eager)}"] if eager else []) + ours if ours else []
    if node.level or module.split(".")[0] in _ALWAYS:
        return []
    late = [a for a in node.names if (a.asname or a.name) not in early and a.name != "*"]
    eager = [_as(a) for a in node.names if a not in late]
    if not late:
        return []
    call = f"_late(globals(), {module!r}, {', '.join(repr(_as(a)) for a in late)})"
    return ([f"from {module} import {', '.join(eager)}"] if eager else []) + [call]


def _as(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _early(tree: ast.Module) -> Set[str]:
    """Names used while the module is loaded, or used in a way that a stand-in cannot serve."""
    names: Set[str] = set()
    for node, inside, served in _nodes(tree, False):
        if isinstance(node, ast.Name) and not (inside and served and isinstance(node.ctx, ast.Load)):
            names.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
    return names


def _nodes(node: ast.AST, inside: bool) -> Iterator[Tuple[ast.AST, bool, bool]]:
    """(node, whether it is inside a function's body, whether a stand-in works there), without annotations."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        within = inside or (isinstance(node, _FUNCTIONS) and field == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child, within, _serves(node, field, child)
                yield from _nodes(child, within)


def _serves(parent: ast.AST, field: str, child: ast.AST) -> bool:
    """True if the use is a call, an attribute access, or the class in `isinstance`."""
    if isinstance(parent, ast.Call):
        asks = isinstance(parent.func, ast.Name) and parent.func.id in ("isinstance", "issubclass")
        return field == "func" or (asks and field == "args" and child is parent.args[1])
    return isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load)
