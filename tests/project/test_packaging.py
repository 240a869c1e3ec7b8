"""The wheel contains what the code reads at run time, and nothing that only the checkout needs."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path
from typing import Set

import pytest

from edgedla.io import strict_yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel; pip install -e .[test] brings it")
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def names(wheel: Path) -> Set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_module_and_data_file(names: Set[str]) -> None:
    kept = [p for p in (ROOT / "edgedla").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.relative_to(ROOT).as_posix() for p in kept} <= names


def test_the_wheel_holds_the_rules_at_the_path_that_the_code_reads(names: Set[str]) -> None:
    kept = [p for p in (ROOT / "rules").rglob("*.yaml") if p.is_file()]
    assert len(kept) > 20
    assert {f"edgedla/_rules/{p.relative_to(ROOT / 'rules').as_posix()}" for p in kept} <= names


def test_the_wheel_holds_a_compiled_form_of_each_rule_file_that_counts(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    rules = tmp_path / "edgedla" / "_rules"
    assert len(list(rules.glob("layers/*-without-examples.json"))) == len(list(rules.glob("layers/*.yaml")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_yaml, "loads", lambda *_: pytest.fail("a rule file has no form that counts"))
        for path in rules.rglob("*.yaml"):
            strict_yaml.load(path)
        for path in rules.glob("layers/*.yaml"):
            strict_yaml.load(path, frozenset({"examples"}))


def test_the_wheel_holds_every_page_that_help_prints(names: Set[str]) -> None:
    from edgedla.cli.terminal.topics import topics

    assert len(topics()) > 20
    assert {f"edgedla/_docs/{topic.path}" for topic in topics().values()} <= names


def test_the_wheel_holds_the_manual_page_as_a_data_file(names: Set[str]) -> None:
    assert [name.split("/", 1)[1] for name in names if name.endswith(".1")] == ["data/share/man/man1/edgedla.1"]


def test_one_file_names_the_projects_addresses() -> None:
    """They are placeholders: whoever publishes it changes one file."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("no checkout")
    text = (ROOT / "pyproject.toml").read_text()
    host = re.search(r"\[project.urls\]\n\w+ = \"https://([^/]+)/", text)
    assert host
    kinds = (".py", ".md", ".toml", ".yml", ".yaml", ".cff", ".json")
    holding = [name for name in listed if name.endswith(kinds) and host[1] in (ROOT / name).read_text(errors="replace")]
    assert holding == ["pyproject.toml"]


def test_the_wheel_holds_nothing_else(names: Set[str]) -> None:
    assert {name.split("/")[0] for name in names if not name.startswith("edgedla-")} == {"edgedla"}
    assert not [name for name in names if name.endswith((".pyc", ".onnx", ".engine"))]


def test_the_wheel_holds_the_licence(names: Set[str]) -> None:
    assert any(name.endswith("LICENSE") for name in names)
