"""Pages on the public Python names: mkdocstrings fills in signatures and docstrings."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Tuple

import edgedla
from docs.generator.markdown import code, page, plain, table

FOLDER = "reference/python"
#: The functions that the list of names begins with.
FIRST = ("check", "place", "fix", "build", "deploy", "open_pipeline")
#: Room of the package -> title of its page. A room that is not named gets a page under its own name.
TITLES = {
    "accuracy": "Quantize",
    "builder": "Build",
    "costs": "Profiles of costs",
    "documents": "Documents",
    "errors": "Errors",
    "fixes": "Fix",
    "graph": "Layers",
    "importers": "Import",
    "inspection": "Inspect",
    "placement": "Place and predict",
    "regions": "Check",
    "remote": "Boards",
    "rules": "Findings",
    "runtime": "Run",
    "targets": "Platforms",
    "version": "Version",
}


def public_names() -> Dict[str, str]:
    """Public name -> the dotted path of what it stands for, where it is defined."""
    return {name: _defined(name) for name in edgedla.__all__ if name != "__version__"}


def _defined(name: str) -> str:
    value: Any = getattr(edgedla, name)
    module = getattr(value, "__module__", None)
    return f"{module}.{getattr(value, '__qualname__', name)}" if module else f"edgedla.{name}"


def api_pages() -> Dict[str, str]:
    """Path within the site -> Markdown: a page for each room, and a list of all names."""
    rooms: Dict[str, List[str]] = {}
    defined = public_names()
    for name, path in defined.items():
        rooms.setdefault(path.split(".")[1], []).append(name)
    made = {
        f"{FOLDER}/{room}.md": page(
            TITLES.get(room, room.capitalize()),
            *([f'<span id="edgedla.{name}"></span>', "", f"::: {defined[name]}", ""] for name in names),
        )
        for room, names in rooms.items()
    }
    rows = []
    for name in sorted(defined, key=_place):
        room = defined[name].split(".")[1]
        rows.append([f"[{code('edgedla.' + name)}]({room}.md#edgedla.{name})", _first_line(name)])
    made[f"{FOLDER}/index.md"] = page(
        "Python",
        [
            "Every public name, imported when it is first used. [Python in examples](../../guide/python.md) shows them at work.",
            "",
        ],
        table(["Name", "What it is"], rows),
    )
    return made


def _place(name: str) -> Tuple[int, int, str]:
    """Functions first, those that most people call before the others; then types, then errors."""
    value: Any = getattr(edgedla, name)
    error = inspect.isclass(value) and issubclass(value, Exception)
    group = 2 if error else 1 if inspect.isclass(value) else 0
    return group, FIRST.index(name) if name in FIRST else len(FIRST), name.lower()


def _first_line(name: str) -> str:
    value: Any = getattr(edgedla, name)
    text = inspect.getdoc(value) or ""
    if text.startswith(f"{name}("):  # what dataclasses write by themselves
        text = ""
    return plain(text.split("\n\n")[0]) if callable(value) else "-"
