"""The project's files only speak of the project: no package index, no path of somebody's machine, no foreign graphs."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path
from typing import List

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
#: Parts are joined here so that this file does not hold them.
INDEX_HOSTS = ["pypi" + ".org", "pythonhosted" + ".org", "registry.npm" + "js.org", "conda.anaconda" + ".org"]
MACHINE_PATHS = ["/wo" + "rk/", "/tm" + "p/team", "/ho" + "me/", "/ro" + "ot/"]


#: What a bundle runs on a board in place of the command line.
PROGRAMS = ("edgedla/bundles/start.py", "edgedla/bundles/program.py")


def tracked() -> List[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> List[Path]:
    return [path for path in tracked() if b"\0" not in path.read_bytes()[:4096]]


@pytest.mark.parametrize("word", INDEX_HOSTS + MACHINE_PATHS)
def test_no_file_holds_a_forbidden_word_or_path(word: str) -> None:
    found = []
    for path in texts():
        text = path.read_text(encoding="utf-8", errors="replace")
        # A path that begins a word, not the tail of a URL or of another path.
        if re.search(r"(?<![\w.~-])" + re.escape(word), text):
            found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_no_yolo_graph_is_carried() -> None:
    assert [p for p in tracked() if "yolo" in p.name.lower() and p.suffix in (".onnx", ".gz", ".engine", ".pt")] == []


def test_every_module_begins_with_a_docstring() -> None:
    silent = []
    for path in tracked():
        # A program of its own, as an Ansible module is, begins with its interpreter.
        text = re.sub(r"\A#!.*\n", "", path.read_text(encoding="utf-8")) if path.suffix == ".py" else '"""'
        if not text.startswith('"""'):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []


def test_nothing_outside_the_command_line_prints() -> None:
    # ruff's T20 sees print(); this sees writes to the streams.
    found = []
    for path in tracked():
        place = path.relative_to(ROOT).as_posix()
        if place.startswith("edgedla/") and not place.startswith(("edgedla/cli/", *PROGRAMS)) and path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            found += [place] if re.search(r"\bsys\.(stdout|stderr)\.write\(|(?<![\w.])print\(", text) else []
    assert found == []


def test_the_version_has_an_entry_in_the_changelog() -> None:
    from edgedla.version import RELEASE, version

    heading = f"## {RELEASE}" if version() == RELEASE else "## Unreleased"
    assert heading in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_generated_rules_document_is_fresh() -> None:
    from edgedla.rules.docs import rules_markdown

    path = ROOT / "rules" / "RULES.md"
    assert path.read_text(encoding="utf-8") == rules_markdown(), "run: edgedla rules docs -o rules/RULES.md"


def test_messages_say_is_not_in_place_of_is_no() -> None:
    """`is no placement` reads as a translation; there is no, and no longer, are plain."""
    wrong = re.compile(r"(?<!there )\b(?:is|are|was|were) no (?!longer|more|better|faster|slower|lower|higher)[a-z{]", re.I)
    # Of a message that stands in several literals, quotes may be between both words. Few files are parsed.
    maybe = re.compile(r"\b(?:is|are|was|were)\b[\s\"'f]+no\b", re.I)
    found = []
    for path in tracked():
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith("edgedla/") or path.suffix != ".py":
            continue
        source = path.read_text(encoding="utf-8")
        if not maybe.search(source):
            continue
        tree = ast.parse(source)
        bodies = [node.body[0] for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list) and node.body]
        told = {id(body.value) for body in bodies if isinstance(body, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
                text = node.value
            else:
                continue
            found += [f"{place}:{node.lineno}: {text}"] if wrong.search(text) else []
    assert found == []
