"""The reference names every command, option, public name, id, field and exit code, and its links lead somewhere."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import posixpath
import re
import typing
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import click
import pytest
import yaml

import edgedla
from docs.generator.check_site import faults
from docs.generator.document_pages import _fields
from docs.generator.search_order import LATER, with_order
from docs.generator.site import generated_pages, write_site
from docs.generator.versions import write_versions
from edgedla import errors
from edgedla.cli.main import main
from edgedla.cli.verbs import VERBS
from edgedla.io.documents import DOCUMENTS, schema
from edgedla.rules import load_rules
from edgedla.rules.messages import messages
from edgedla.rules.remedies import all_entries, remedies
from edgedla.runtime.pipeline.config import PipelineConfig
from edgedla.targets.modules import module_ids
from edgedla.text.pages import FOLDERS, page_path

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^()\s#]+)(?:#[^()\s]*)?\)")


@pytest.fixture(scope="module")
def pages() -> Dict[str, str]:
    return generated_pages()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("site"))


def commands(command: click.Command, path: Tuple[str, ...] = ()) -> Iterator[Tuple[Tuple[str, ...], click.Command]]:
    """Every command below a group, asked of the command line itself."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from commands(below, (*path, name))


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_every_command_is_on_its_page(pages: Dict[str, str], verb: str) -> None:
    text = pages[f"{FOLDERS['command']}/{verb}.md"]
    missing: List[str] = []
    for path, command in commands(main):
        if path[0] == verb:
            missing += [] if f"edgedla {' '.join(path)}" in text else [" ".join(path)]
            options = [param for param in command.params if isinstance(param, click.Option)]
            for name in (name for option in options for name in (*option.opts, *option.secondary_opts)):
                missing += [] if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) else [name]
    assert missing == []


def test_every_option_stands_in_a_guide() -> None:
    """The reference says what an option does; a page that a person wrote says when one needs it."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"), ROOT / "jetson" / "README.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    missing = [
        f"{' '.join(path)} {option.opts[0]}"
        for path, command in commands(main)
        for option in command.params
        if isinstance(option, click.Option)
        and not option.hidden
        and not any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in (*option.opts, *option.secondary_opts))
    ]
    assert missing == [], "docs/guide/seldom-needed.md, or a page of its own"


def test_every_public_name_is_shown_by_its_own_definition(pages: Dict[str, str]) -> None:
    text = "".join(page for path, page in pages.items() if path.startswith("reference/python/"))
    wrong = []
    for name in edgedla.__all__:
        shown = re.search(rf'<span id="edgedla\.{re.escape(name)}"></span>\n\n::: ([\w.]+)\n', text)
        if name == "__version__":
            continue
        module, _, attribute = shown[1].rpartition(".") if shown else ("", "", "")
        if not shown or getattr(importlib.import_module(module), attribute) is not getattr(edgedla, name):
            wrong.append(name)
        wrong += [] if f"#edgedla.{name})" in pages["reference/python/index.md"] else [f"{name} is not in the list"]
    assert wrong == []


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("rule", [rule.id for rule in load_rules().rules()]),
        ("message", [message.id for message in messages()]),
        ("remedy", list(remedies())),
        ("rewrite", list(all_entries())),
        ("document", list(DOCUMENTS)),
        ("module", list(module_ids())),
        ("command", list(VERBS)),
    ],
)
def test_every_id_has_a_page_and_is_in_its_index(pages: Dict[str, str], kind: str, ids: List[str]) -> None:
    assert len(ids) >= 10
    assert [name for name in ids if page_path(kind, name, "md") not in pages] == []
    assert [name for name in ids if f"]({name}.md)" not in pages[f"{FOLDERS[kind]}/index.md"]] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_field_of_a_document_has_a_meaning(name: str) -> None:
    fields = list(_fields(schema(name), schema(name), "", ()))
    assert fields
    assert [path for path, _, text in fields if len(text.split()) < 2] == []


def test_times_and_sizes_in_documents_name_their_unit() -> None:
    units = {"_us": "microsecond", "_mj": "millijoule", "_ms": "millisecond", "_bytes": "byte", "_db": "dB", "_mhz": "MHz"}
    bare = [
        f"{name}: {path}: {text}"
        for name in DOCUMENTS
        for path, _, text in _fields(schema(name), schema(name), "", ())
        for ending, unit in units.items()
        if path.rstrip("?").endswith(ending) and unit not in text
    ]
    assert bare == []


def test_a_short_page_leads_to_its_list_and_its_neighbours(pages: Dict[str, str]) -> None:
    ids = [message.id for message in messages()]
    text = pages[page_path("message", ids[1], "md")]
    way = f"[All messages](index.md) · before: [{ids[0]}]({ids[0]}.md) · next: [{ids[2]}]({ids[2]}.md)\n"
    assert f"# {ids[1]} {messages()[1].name}\n\n{way}" in text
    assert yaml.safe_load(text.split("---\n")[1])["search"]["boost"] < 1
    for kind in ("rule", "remedy", "rewrite", "module", "document"):
        leaves = [p for p in pages if p.startswith(f"{FOLDERS[kind]}/") and Path(p).stem not in ("index", "sources")]
        assert [p for p in leaves if p.endswith(".md") and "](index.md)" not in pages[p]] == [], kind


def test_the_search_sorts_by_our_order_first() -> None:
    worker = "self.onmessage=f;x.items.sort(ht(...s))"
    ordered = with_order(worker)
    assert ordered.endswith("self.onmessage=f;x.items.sort(ht(self.edgedlaOrder,...s))")
    assert with_order(ordered) == ordered
    with pytest.raises(ValueError, match="sorts in 0 places"):
        with_order("self.onmessage=f;x.items.sort(by(rank))")


def test_short_pages_stand_behind_commands_and_those_behind_written_ones() -> None:
    steps = {
        "howto/cudla.html": 0,
        "glossary.html#loadable": 0,
        "reference/commands/check.html": 1,
        "reference/rules/index.html": 1,
        "reference/rules/CONV010.html#limits": 2,
        "reference/documents/edgedla.check.html": 2,
        "reference/python/rules.html": 2,
        "project/changelog.html": 2,
    }
    assert {path: sum(bool(re.match(pattern, path)) for pattern in LATER) for path in steps} == steps


def test_a_rule_page_holds_all_fields_of_the_rule(pages: Dict[str, str]) -> None:
    for rule in load_rules().rules():
        text = pages[page_path("rule", rule.id, "md")]
        assert rule.name in text
        for case in rule.cases:
            assert str(case.scope) in text
            assert case.status in text
        assert all(f"(../remedies/{fix}.md)" in text for fix in rule.fixes)


def keys(cls: Any) -> Iterator[str]:
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if not field.metadata.get("internal"):
            yield field.name
            for hint in (hints[field.name], *typing.get_args(hints[field.name])):
                if dataclasses.is_dataclass(hint):
                    yield from keys(hint)


def test_every_key_of_a_pipeline_file_is_named(pages: Dict[str, str]) -> None:
    text = pages["reference/pipeline.md"]
    assert [key for key in keys(PipelineConfig) if not re.search(rf"[`.]{key}`", text)] == []


def test_every_exit_code_is_named(pages: Dict[str, str]) -> None:
    codes = {cls.exit_code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "exit_code")}
    text = pages["reference/exit-codes.md"]
    assert [code for code in sorted({0, 130, *codes}) if f"| {code} |" not in text] == []
    for mistake, error in errors.MISTAKES:
        assert any(mistake in line and f"| {error.exit_code} |" in line for line in text.splitlines()), mistake


def test_every_environment_variable_is_named() -> None:
    files = [*(ROOT / "edgedla").rglob("*.py"), ROOT / "jetson" / "setup.sh"]
    read = {v for path in files for v in re.findall(r"\bEDGEDLA_[A-Z_]+\b", path.read_text(encoding="utf-8"))}
    # The end mark of a text within a script.
    read -= {"EDGEDLA_CALIBRATION_CACHE"}
    page = (ROOT / "docs" / "reference" / "environment.md").read_text(encoding="utf-8")
    assert len(read) >= 10
    assert sorted(read) == sorted(set(re.findall(r"`(EDGEDLA_[A-Z_]+)`", page)))


def test_every_extra_is_named_where_it_is_installed() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", block, re.M)) - {"test", "dev"}
    assert {"host", "fix"} <= extras
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert sorted(extras) == sorted(set(re.findall(r"^\| `(\w+)` \|", page, re.M)))


def test_links_between_pages_lead_to_existing_pages(site: Path) -> None:
    folder = site.parent / "pages"
    broken: List[str] = []
    followed = 0
    for path in sorted(folder.rglob("*.md")):
        text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for link in LINK.findall(text):
            followed += 1
            target = posixpath.normpath(posixpath.join(path.parent.relative_to(folder).as_posix(), link))
            broken += [] if (folder / target).is_file() else [f"{path.relative_to(folder)}: {link}"]
    assert followed > 500
    assert broken == []


def test_the_navigation_names_pages_that_exist(site: Path) -> None:
    def named(nav: Any) -> Iterator[str]:
        for entry in nav:
            for value in entry.values() if isinstance(entry, dict) else [entry]:
                yield from named(value) if isinstance(value, list) else [value]

    config = yaml.safe_load(site.read_text(encoding="utf-8"))
    folder = site.parent / "pages"
    listed = list(named(config["nav"]))
    assert [page for page in listed if not (folder / page).is_file()] == []
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*.md")}
    by_id = tuple(f"{FOLDERS[kind]}/" for kind in ("rule", "message", "remedy", "rewrite", "module", "document"))
    assert sorted(page for page in written - set(listed) if not page.startswith(by_id)) == []


def test_broken_links_and_external_scripts_of_a_built_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#x">b</a><a href="b.html#y">b</a><a href="c.html">c</a><a href="https://x.y">x</a>'
        '<script src="https://cdn.example/a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="x">B</p><a href="a.html#top">a</a>')
    wrong, followed = faults(tmp_path)
    assert followed == 4
    assert [line.partition(": ")[2] for line in wrong] == [
        "loads https://cdn.example/a.js",
        "b.html#y has no such anchor",
        "c.html is no file",
    ]


def test_releases_are_listed_the_newest_first(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").write_text("x")
    assert write_versions(tmp_path) == ["0.10.0", "0.9.0"]
    assert [entry["aliases"] for entry in json.loads((tmp_path / "versions.json").read_text())] == [["latest"], []]
    assert "0.10.0/index.html" in (tmp_path / "index.html").read_text()


def test_every_public_function_is_used_in_a_tested_example() -> None:
    source = (ROOT / "docs" / "guide" / "python.md").read_text(encoding="utf-8")
    examples = "\n".join(m[1] for m in re.finditer(r"^```python[^\n]*\n(.*?)^```$", source, re.M | re.S))
    functions = [name for name in edgedla.__all__ if inspect.isfunction(getattr(edgedla, name))]
    assert "deploy" in functions
    assert [name for name in functions if f"edgedla.{name}(" not in examples] == []
