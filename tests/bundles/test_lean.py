"""What a bundle keeps of a module's source: everything except unused imports, docstrings and annotations."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from types import ModuleType
from typing import Any, Dict

import pytest

from edgedla.bundles.closure import PACKAGE
from edgedla.bundles.late import Pattern
from edgedla.bundles.lean import lean


def leaned(text: str, **others: str) -> str:
    sources = {"m": textwrap.dedent(text).lstrip(), **{k: textwrap.dedent(v) for k, v in others.items()}}
    return lean(sources)["m"]


@pytest.mark.parametrize(
    ("use", "late"),
    [
        ("def f():\n    return name(1)", True),
        ("def f():\n    return name.x.y", True),
        ("def f(v):\n    return isinstance(v, name)", True),
        ("def f(v: name) -> name:\n    w: name = v\n    return w", True),
        ("g = lambda: name()", True),
        ("class A:\n    def f(self):\n        return name()", True),
        ("x = name()", False),
        ("class A(name):\n    pass", False),
        ("class A:\n    x = name.y", False),
        ("def f(v=name.x):\n    pass", False),
        ("@name.wraps\ndef f():\n    pass", False),
        ("def f():\n    return name", False),
        ("def f():\n    return [1, 2][name]", False),
        ("def f():\n    try:\n        pass\n    except name:\n        pass", False),
        ("def f():\n    name.x = 3", False),
        ("def f():\n    global name\n    name()", False),
        ("def f():\n    del name\n    name()", False),
    ],
)
def test_an_import_is_made_lazy_only_where_a_stand_in_works(use: str, late: bool) -> None:
    for statement in ("from lib import name", "import name", "import lib as name", "from lib import other as name"):
        text = leaned(f"{statement}\n{use}\n")
        assert ("_late(globals()" in text) is late, text
        assert (statement in text) is not late, text


def test_imports_are_split_by_name_and_line_numbers_stay() -> None:
    text = leaned(
        '''
        """What it is for.

        More of it."""
        from __future__ import annotations
        from lib import (
            early,
            late as other,
        )
        x = early
        def f():
            """Two
            lines."""
        class A:
            "One line."; y = 1
        line = 15
        '''
    )
    tree = ast.parse(text)
    assert "What it is" not in text
    assert "lines" not in text
    assert "from lib import early; " in text
    assert "_late(globals(), 'lib', 'late as other')" in text
    assert tree.body[-1].lineno == 15
    names: Dict[str, object] = {}
    exec(compile(text.replace("from lib import early", "early = 1"), "m", "exec"), names)
    assert names["A"].y == 1  # type: ignore[attr-defined]


def test_annotations_of_functions_are_removed() -> None:
    text = leaned(
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import Dict, List
        @dataclass
        class A:
            x: int = 1
            def f(self, é: Dict[
                str, int
            ], *a: int, k: List[int] = [2], **more: int) -> Dict[
                str,
                int,
            ]: "Text."; return {str(é): k[0]}
        def g(
            x: int,
        ) -> (
            int
        ):
            return x
        line = 19
        """
    )
    tree = ast.parse(text)
    assert "Dict[" not in text
    assert "x: int = 1" in text
    assert [n.lineno for n in tree.body if isinstance(n, ast.Assign)][-1] == 19
    names: Dict[str, object] = {}
    exec(compile(tree, "m", "exec"), names)
    assert names["A"]().f(3) == {"3": 2}  # type: ignore[operator]
    assert names["A"].f.__annotations__ == {}  # type: ignore[attr-defined]
    assert names["g"](4) == 4  # type: ignore[operator]


def test_module_level_patterns_are_compiled_at_first_use() -> None:
    text = leaned("import re\nA = re.compile('a', re.I)\nB = [re.compile('b')]\ndef f():\n    return A.match('A')\n")
    names: Dict[str, Any] = {}
    exec(compile(text, "m", "exec"), names)
    assert type(names["A"]) is Pattern
    assert type(names["B"][0]) is re.Pattern
    assert names["f"]()
    assert names["A"].sub("x", "banA") == "bxnx"
    assert text.count("\n") == 5


def test_names_that_other_modules_import_stay_eager() -> None:
    text = "from lib import a, b\ndef f():\n    return a(b())\n"
    assert "from lib import a; " in leaned(text, n="from m import a\n")
    assert "from lib" not in leaned(text, n="from m import f\n")


def test_a_module_with_a_main_block_is_unchanged() -> None:
    text = 'import os\ndef f():\n    """Text."""\n    os.getpid()\nif __name__ == "__main__":\n    f()\n'
    assert leaned(text) == text


def test_every_leaned_module_compiles_with_the_same_names_and_lines() -> None:
    """Compiles, as many lines, the same names at its top."""
    files = sorted((PACKAGE / "runtime").rglob("*.py")) + sorted((PACKAGE / "builder" / "artifact").rglob("*.py"))
    before = {str(path): path.read_text(encoding="utf-8") for path in files}
    for name, text in lean(before).items():
        tree, old = ast.parse(text), ast.parse(before[name])
        # Constructors stand behind everything else.
        assert text.count("\n") >= before[name].count("\n")
        defined = [
            [
                n.name
                for n in t.body
                if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and not n.name.startswith("_ready_")
            ]
            for t in (tree, old)
        ]
        assert defined[0] == defined[1]


PLAIN = """
import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar, Dict, List
@dataclass(frozen=True)
class Plain:
    a: int
    b: List[int] = field(default_factory=list)
    c: str = field(default="x", compare=False, repr=False)
    d: Dict[str, int] = field(default_factory=lambda: {"k": 1}, metadata={"internal": True})
    e: float = -1.5
    def __post_init__(self):
        object.__setattr__(self, "e", self.e * 2)
@dataclass
class Empty:
    pass
@dataclass(eq=False)
class Identity:
    a: int = 3
@dataclass
class Below(Identity):
    z: int = 4
@dataclass
class Other:
    shared: ClassVar[int] = 5
    hidden: int = field(default=6, init=False)
    a: int = 7
FIRST = Plain(0)
"""


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": 1, "b": [2], "c": "y"}, {"a": 0, "d": {}, "e": 1.0}])
def test_generated_constructors_equal_those_of_dataclasses(
    arguments: Dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = leaned(PLAIN)
    modules = []
    for name, source in (("ours", text), ("theirs", PLAIN)):
        module = ModuleType(name)
        # dataclasses looks there for the names of annotations.
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, name, "exec"), vars(module))
        modules.append(vars(module))
    ours, theirs = modules
    assert re.findall(r"^_ready\((\w+)", text, re.M) == ["Plain", "Empty", "Identity"]
    one, other = ours["Plain"](**arguments), theirs["Plain"](**arguments)
    # Of `FIRST` before its end the module made one; the others take what was written.
    assert ours["Identity"].__init__.__qualname__ == "_ready_Identity.<locals>.__init__"
    assert repr(one) == repr(other)
    assert vars(one) == vars(other)
    assert one == ours["Plain"](**arguments) != ours["Plain"](8)
    assert ours["Plain"](1).b is not ours["Plain"](1).b
    for name in ("Empty", "Identity", "Below", "Other"):
        assert vars(ours[name]()) == vars(theirs[name]())
        assert repr(ours[name]()) == repr(theirs[name]())
        assert (ours[name]() == ours[name]()) is (theirs[name]() == theirs[name]())
        names = [[f.name for f in module["dataclasses"].fields(module[name])] for module in (ours, theirs)]
        assert names[0] == names[1]
        assert vars(module_copy(ours, name)) == vars(module_copy(theirs, name))
    assert ours["Identity"].__init__.__qualname__ == "_ready_Identity.<locals>.__init__"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        ours["Plain"]()


def module_copy(names: Dict[str, Any], name: str) -> Any:
    return names["dataclasses"].replace(names[name]())
