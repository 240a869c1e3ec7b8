"""The recipe of the laptop's container: small, without root, of files that the context holds; linted by hadolint where that is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import List, Tuple

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "action" / "Dockerfile"


def instructions(text: str) -> List[Tuple[str, str]]:
    """(instruction, its arguments), with continued lines joined."""
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in joined.splitlines() if line.strip()]


def faults(text: str) -> List[str]:
    """What hadolint would say of these kinds, and what it does not look for."""
    steps = instructions(text)
    names = [name for name, _ in steps]
    found = []
    base = dict(steps).get("FROM", "")
    if names[:1] != ["FROM"] or names.count("FROM") != 1:
        found.append("one FROM, at the beginning")
    if not re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base):
        found.append(f"the base {base!r} is no pinned slim image")
    users = [value for name, value in steps if name == "USER"]
    if not users or users[-1].split(":")[0] in ("root", "0"):
        found.append("it runs as root")
    if "USER" in names and "RUN" in names[names.index("USER") :]:
        found.append("a RUN after USER")
    for name, value in steps:
        if name == "ADD":
            found.append("ADD in place of COPY")
        if name in ("ENTRYPOINT", "CMD") and not value.startswith("["):
            found.append(f"{name} as a shell's line")
        if name == "RUN" and "pip install" in value and "--no-cache-dir" not in value:
            found.append("pip keeps its cache")
        if name == "RUN" and re.search(r"\bsudo\b|curl[^|]*\|", value):
            found.append("sudo, or a download into a shell")
        if name == "RUN":
            shlex.split(value)
        if name not in ("FROM", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD", "ENV", "ARG", "LABEL"):
            found.append(f"unknown instruction {name}")
    return found


def test_the_recipe_is_slim_and_runs_without_root() -> None:
    assert faults(RECIPE.read_text()) == []
    assert ("ENTRYPOINT", '["edgedla"]') in instructions(RECIPE.read_text())


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3.12-slim-bookworm", "latest", "no pinned slim image"),
        ("USER edgedla", "USER root", "it runs as root"),
        ("USER edgedla\n", "", "it runs as root"),
        ("--no-cache-dir ", "", "pip keeps its cache"),
        ("COPY", "ADD", "ADD in place of COPY"),
        ('CMD ["--help"]', "CMD --help", "CMD as a shell's line"),
        ("WORKDIR /work", "RUN true", "a RUN after USER"),
    ],
)
def test_the_linter_sees_each_fault(old: str, new: str, said: str) -> None:
    text = RECIPE.read_text()
    assert old in text
    assert any(said in fault for fault in faults(text.replace(old, new)))


def test_the_extras_of_the_recipe_exist() -> None:
    extras = re.search(r"/src/edgedla\[([a-z,]+)\]", RECIPE.read_text())
    assert extras
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.M) for extra in extras[1].split(","))


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(["hadolint", str(RECIPE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
