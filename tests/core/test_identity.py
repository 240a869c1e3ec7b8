"""The identity changes with every file that an answer rests on, and with nothing else."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Set, Tuple

import pytest

import edgedla
from edgedla.identity import Identity, identity, identity_of
from edgedla.io.data import rules_dir
from edgedla.remote.wheel import write_wheel


@pytest.fixture
def trees(tmp_path: Path) -> Tuple[Path, Path]:
    """A package and its rules/, with a file of each part."""
    for name in (
        "edgedla/rules/apply.py",
        "edgedla/reports/templates/style.css",
        "edgedla/schemas/check.json",
        "edgedla/_rules/a.yaml",
        "edgedla/__pycache__/a.py",
        "edgedla/.hidden/a.py",
        "edgedla/data.bin",
        "rules/layers/conv.yaml",
        "rules/releases.yaml",
        "rules/targets/orin.yaml",
        "rules/costs/dla2-int8.yaml",
        "rules/evidence/engines.yaml",
        "rules/RULES.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one\n")
    return tmp_path / "edgedla", tmp_path / "rules"


def differing(one: Identity, other: Identity) -> Set[str]:
    return {name for name, digest in one.digests.items() if digest != other.digests[name]}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("edgedla/rules/apply.py", "code"),
        ("edgedla/reports/templates/style.css", "code"),
        ("edgedla/schemas/check.json", "schemas"),
        ("rules/layers/conv.yaml", "rules"),
        ("rules/releases.yaml", "rules"),
        ("rules/targets/orin.yaml", "rules"),
        ("rules/costs/dla2-int8.yaml", "costs"),
        ("rules/evidence/engines.yaml", "costs"),
        ("edgedla/_rules/a.yaml", ""),
        ("edgedla/__pycache__/a.py", ""),
        ("edgedla/.hidden/a.py", ""),
        ("edgedla/data.bin", ""),
        ("rules/RULES.md", ""),
    ],
)
def test_a_changed_moved_or_removed_file_changes_its_part(trees: Tuple[Path, Path], name: str, part: str) -> None:
    before, path = identity_of(*trees), trees[0].parent / name
    expected = {part} - {""}
    path.write_text("two\n")
    assert differing(before, identity_of(*trees)) == expected
    path.write_text("one\r\n")
    assert differing(before, identity_of(*trees)) == set()
    path.rename(path.with_name(f"other{path.suffix}"))
    assert differing(before, identity_of(*trees)) == expected
    path.with_name(f"other{path.suffix}").unlink()
    assert differing(before, identity_of(*trees)) == expected


def test_the_wheel_that_is_sent_has_the_identity_of_the_code_that_runs(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_wheel(tmp_path)) as wheel:
        wheel.extractall(tmp_path)
    assert identity_of(tmp_path / "edgedla", tmp_path / "edgedla" / "_rules").digests == identity().digests


def test_a_copy_elsewhere_has_the_same_identity(tmp_path: Path) -> None:
    shutil.copytree(rules_dir(), tmp_path / "rules")
    assert identity_of(Path(edgedla.__file__).parent, tmp_path / "rules").digests == identity().digests
