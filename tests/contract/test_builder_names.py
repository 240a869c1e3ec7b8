"""Every TensorRT name and keyword in the builder's and the runner's source exists in each release, or is guarded there.

Nothing is listed by hand: the names are read out of the source. TensorRT objects stand in variables named after their
class, and an attribute of any other variable than those of the two tables below fails the test.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from tests.fake_tensorrt.surface import load_surface

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    *(
        ROOT / "edgedla/builder/tensorrt" / f"{name}.py"
        for name in ("api", "bindings", "callbacks", "config", "inspection", "network")
    ),
    ROOT / "edgedla/runtime/runners/engine_reader.py",
    ROOT / "edgedla/runtime/runners/tensorrt_engine.py",
]
RELEASES = ["8.4.1", "8.5.2", "8.6.1", "10.3.0", "10.7.0", "11.4.0.106"]
TENSORRT = {
    "builder": "Builder",
    "network": "INetworkDefinition",
    "config": "IBuilderConfig",
    "parser": "OnnxParser",
    "error": "ParserError",
    "layer": "ILayer",
    "tensor": "ITensor",
    "cache": "ITimingCache",
    "memory": "IHostMemory",
    "context": "IExecutionContext",
    "runtime": "Runtime",
    "engine": "ICudaEngine",
    "inspector": "EngineInspector",
}
PYTHON = {
    "plan",
    "planned",
    "io",
    "pools",
    "drift",
    "lines",
    "line",
    "errors",
    "layers",
    "answers",
    "importlib",
    "json",
    "severity",
    "reasons",
    "signals",
    "interruption",
    "logger",
    "receiver",
    "reader",
    "writer",
    "signal",
    "socket",
    "threading",
    "thread",
    "os",
    "sys",
    "contextlib",
    "seen",
    "installed",
    "group",
    "_LOGGERS",
    "answer",
    "refused",
    "parts",
    "moved",
    "found",
    "model",
    "Support",
    "_LETTERS",
    "tensors",
    "re",
    "messages",
    "_FAILURE",
    "text",
    "raised",
    # of the runner
    "self",
    "board",
    "log",
    "logging",
    "b",
    "name",
    "_LEVELS",
    "clock",
}


@dataclass(frozen=True)
class Use:
    """One name of TensorRT in the source; `arguments` is (positional count, keywords) where it is called."""

    cls: str
    member: str
    where: str
    guards: Tuple[str, ...]
    arguments: Optional[Tuple[int, Tuple[str, ...]]] = None


SURFACES: Dict[str, Dict[str, Any]] = {r: load_surface(r) for r in RELEASES}


def uses(path: Path) -> Iterator[Use]:
    source = path.read_text()
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def guards(node: ast.AST) -> Iterator[str]:
        while node in parents:
            child, node = node, parents[node]
            if isinstance(node, (ast.If, ast.IfExp)) and child is not node.test:
                yield ast.get_source_segment(source, node.test) or ""
            if isinstance(node, ast.FunctionDef):
                early_returns = [n for n in node.body if isinstance(n, ast.If) and isinstance(n.body[0], ast.Return)]
                yield from (ast.get_source_segment(source, n.test) or "" for n in early_returns)
                if node.name.startswith("implicit_"):
                    yield "implicit"

    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("implicit_"):
            assert any("strongly_typed" in g or g == "implicit" for g in guards(node)), f"{where}: unguarded call"
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, (ast.Name, ast.Attribute)):
            continue
        base = node.value
        call = parents[node] if isinstance(parents[node], ast.Call) and parents[node].func is node else None  # type: ignore[attr-defined]
        arguments = (len(call.args), tuple(k.arg or "**" for k in call.keywords)) if call is not None else None
        if isinstance(base, ast.Name) and base.id == "trt":
            yield Use(node.attr, "", where, tuple(guards(node)), arguments)
        elif isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.value.id == "trt":
            yield Use(base.attr, node.attr, where, tuple(guards(node)), arguments)
        elif isinstance(base, ast.Name) and base.id in TENSORRT:
            yield Use(TENSORRT[base.id], node.attr, where, tuple(guards(node)), arguments)
        elif isinstance(base, ast.Name):
            assert base.id in PYTHON, f"{where}: is {base.id!r} a TensorRT object? Name it after its class"


ALL_USES: List[Use] = [use for source in SOURCES for use in uses(source)]


def missing(use: Use, surface: Dict[str, Any]) -> str:
    """Why the use does not fit the release; "" where it does."""
    if use.cls == "__version__":
        return ""
    if not use.member and use.cls in surface["functions"]:
        return "" if use.arguments is None else unfit(use.arguments, surface["functions"][use.cls])
    entry = surface["classes"].get(use.cls)
    if entry is None:
        return f"no {use.cls}"
    if not use.member:
        constructors = entry.get("methods", {}).get("__init__", [])
        return "" if use.arguments is None else unfit(use.arguments, constructors)
    if "members" in entry:
        return "" if use.member in (*entry["members"], "__members__") else f"no {use.cls}.{use.member}"
    if use.member in entry["methods"]:
        # Class.__init__(self) and Class.method(self, ...) hand self over by hand.
        if use.arguments is None or use.member == "__init__":
            return ""
        return unfit(use.arguments, entry["methods"][use.member])
    return "" if use.member in entry["properties"] or use.member in entry["constants"] else f"no {use.cls}.{use.member}"


def unfit(arguments: Tuple[int, Tuple[str, ...]], overloads: List[List[str]]) -> str:
    positional, keywords = arguments
    for overload in overloads:
        names = [p.rstrip("=") for p in overload]
        needed = {p for p in overload[positional:] if not p.endswith("=")}
        if positional <= len(names) and set(keywords) <= set(names[positional:]) and needed <= set(keywords):
            return ""
    return f"called with {positional} arguments and {keywords}, takes {overloads}"


def test_the_builders_source_names_its_tensorrt_uses() -> None:
    assert len(ALL_USES) > 60
    assert {"Builder", "IBuilderConfig", "IInt8EntropyCalibrator2", "IProgressMonitor"} <= {use.cls for use in ALL_USES}


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_exists_in_the_release_or_is_guarded(release: str) -> None:
    wrong = []
    for use in ALL_USES:
        problem = missing(use, SURFACES[release])
        guarded = any(
            "hasattr" in g or "plan.trt" in g or "strongly_typed" in g or (g == "implicit" and release.startswith("11"))
            for g in use.guards
        )
        if problem and not guarded:
            wrong.append(f"{use.where}: {problem}")
    assert not wrong


def test_every_name_exists_in_some_release() -> None:
    wrong = [f"{u.where}: {u.cls}.{u.member}" for u in ALL_USES if all(missing(u, s) for s in SURFACES.values())]
    assert not wrong


@pytest.mark.parametrize("release", RELEASES)
def test_methods_that_tensorrt_calls_back_take_what_it_passes(release: str) -> None:
    found, wrong = set(), []
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            bases = [b for b in getattr(node, "bases", []) if isinstance(b, ast.Attribute)]
            for cls in (b.attr for b in bases if ast.dump(b.value) == ast.dump(ast.Name("trt", ast.Load()))):
                surface = SURFACES[release]["classes"].get(cls)
                found.add(cls)
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and not method.name.startswith("_") and surface:
                        taken = len(method.args.args) - 1
                        if [taken] != sorted({len(p) for p in surface["methods"].get(method.name, [])}):
                            wrong.append(f"{cls}.{method.name}")
    assert {"ILogger", "IProfiler"} <= found
    assert not wrong


@pytest.mark.parametrize("release", RELEASES)
def test_enum_members_that_the_builder_looks_up_exist(release: str) -> None:
    classes = SURFACES[release]["classes"]
    assert {"LINEAR", "DLA_LINEAR", "DLA_HWC4", "CHW4", "CHW16", "CHW32"} <= set(classes["TensorFormat"]["members"])
    assert {"FLOAT", "HALF", "INT8", "INT32", "BOOL"} <= set(classes["DataType"]["members"])


@pytest.mark.parametrize("release", RELEASES)
def test_properties_that_are_written_can_be_written(release: str) -> None:
    wrong = []
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            for target in getattr(node, "targets", []):
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    if target.value.id == "self":
                        continue
                    cls = TENSORRT[target.value.id]
                    access = SURFACES[release]["classes"][cls]["properties"].get(target.attr)
                    # Absent ones are the business of the test above.
                    if access == "r" and not (target.attr == "dtype" and release.startswith("11")):
                        wrong.append(f"{cls}.{target.attr}")
    assert not wrong
