"""CONTRIBUTING.md's "one place" is one: a file or row that is missing in a table is named here."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Dict, Set

import click
import pytest

from edgedla.cli.running.run import run
from edgedla.cli.verbs import VERBS
from edgedla.fixes.rewrites import ORDER
from edgedla.graph.kinds import KINDS, kind_class
from edgedla.graph.kinds.base import Kind
from edgedla.rules import load_rules
from edgedla.runtime.decode import DECODERS
from edgedla.runtime.sources import OPENERS, SCHEMES
from edgedla.targets.modules import modules

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "edgedla"
SOURCES_PAGE = "examples/04_camera_pipeline/README.md"


def stems(folder: str) -> Set[str]:
    return {p.stem for p in (PACKAGE / folder).glob("*.py")}


def test_every_layer_kind_is_listed_in_its_table() -> None:
    shared = {"__init__", "base", "kernelled"}
    assert stems("graph/kinds") - shared == {module for module, _ in KINDS.values()}, "KINDS has a row for each file"


@pytest.mark.parametrize("layer_type", sorted(KINDS))
def test_every_layer_kind_has_numbers_and_rules(layer_type: str) -> None:
    assert issubclass(kind_class(layer_type), Kind)
    assert kind_class(layer_type) is not Kind
    assert any(layer_type in rule.kinds for rule in load_rules().rules()), f"rules/layers/ has no rule for {layer_type}"


def test_every_rewrite_is_listed_in_its_table() -> None:
    rewrites = PACKAGE / "fixes" / "rewrites"
    written = {
        ".".join(path.relative_to(rewrites).with_suffix("").parts)
        for path in rewrites.rglob("*.py")
        if re.search(r"^REWRITE = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert written == set(ORDER), "ORDER in edgedla/fixes/rewrites/__init__.py has one row for each file with a REWRITE"


def test_every_command_is_listed_in_its_table() -> None:
    modules = {place.partition(":")[0].rpartition(".")[2] for place, _ in VERBS.values()}
    commands = {
        path.stem
        for path in (PACKAGE / "cli").rglob("*.py")
        if re.search(r"^@click\.(command|group)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert commands - {"main"} == modules, "VERBS in edgedla/cli/verbs.py has a row for each command"
    for verb, (place, line) in VERBS.items():
        module, _, attribute = place.partition(":")
        assert getattr(importlib.import_module(module), attribute).help, verb
        assert line.endswith("."), verb


def test_every_module_file_is_a_target() -> None:
    files = {p.stem for p in (ROOT / "rules" / "targets").glob("*.yaml")}
    assert files == set(modules())


def test_every_source_of_frames_has_an_opener_and_a_line_in_the_table() -> None:
    lone = set(OPENERS) ^ set(SCHEMES)
    assert lone == set(), "OPENERS (edgedla/runtime/sources/__init__.py) and TAKES (uri.py) name every scheme"
    page = (ROOT / SOURCES_PAGE).read_text(encoding="utf-8")
    rows = "\n".join(re.findall(r"^\| (.*?) \|", page, re.MULTILINE))
    untold = [s for s in SCHEMES if {"file": "a file", "images": "a folder of images"}.get(s, f"{s}://") not in rows]
    assert untold == [], f"the table of sources in {SOURCES_PAGE} has no row for them"


def test_every_module_is_named_by_another() -> None:
    imported: Set[str] = set()
    texts: Dict[Path, Set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for found in ast.walk(tree):
            if isinstance(found, ast.ImportFrom):
                imported.update((str(found.module), *(f"{found.module}.{name.name}" for name in found.names)))
            elif isinstance(found, ast.Constant) and isinstance(found.value, str):
                # Tables name a module by its path, or by the last part of it.
                texts.setdefault(path, set()).update(re.findall(r"\w+", found.value))
    alone = [
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*.py")
        if not path.stem.startswith("__")
        # Programs that run by themselves import what stands beside them by its bare name.
        and not {".".join(path.relative_to(ROOT).with_suffix("").parts), path.stem} & imported
        and not any(path.stem in words for other, words in texts.items() if other != path)
    ]
    assert alone == [], "nothing uses these files: the row of a table is missing, or they are left over"


def test_every_decoder_is_a_function_and_is_documented() -> None:
    assert all(callable(d) for d in DECODERS.values())
    told = "".join(str(o.help) for o in run.params if isinstance(o, click.Option) and "--decode" in o.opts)
    untold = [name for name in DECODERS if not re.search(rf"\b{name}\b", told)]
    assert untold == [], "the help of --decode in edgedla/cli/running/run.py names every decoder"


@pytest.mark.parametrize(
    "place",
    sorted(
        set(re.findall(r"`((?:edgedla|rules|tests|examples)/[\w/.-]+)`", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    ),
)
def test_every_place_that_contributing_names_exists(place: str) -> None:
    assert "NN_" in place or (ROOT / place).exists()


def test_every_example_has_a_page_that_readme_or_another_page_names() -> None:
    folders = {p.name for p in (ROOT / "examples").iterdir() if p.is_dir() and not p.name.startswith((".", "_"))}
    pages = {p.parent.name for p in (ROOT / "examples").glob("*/README.md")}
    assert folders == pages
