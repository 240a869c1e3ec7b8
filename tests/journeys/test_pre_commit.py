"""The hook as another repository uses it: pre-commit itself fetches this one, installs it and runs on what is committed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

from tests.journeys.test_pull_request import falls_back, fits
from tests.models import save

pytestmark = [pytest.mark.once, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """\
repos:
  - repo: {address}
    rev: v0.2.0
    hooks:
      - id: edgedla-check
        args: [--target, orin-nx-16gb, --baseline, dla.json]
"""


def git(folder: Path, *words: str) -> str:
    """Nothing of the machine's or the user's git settings counts."""
    clean: Dict[str, str] = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example", "-c", "init.defaultBranch=main", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**clean, "GIT_CONFIG_GLOBAL": os.devnull},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as it is now, as a repository with a release's tag."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    if not listed:
        pytest.skip("no checkout")
    folder = tmp_path_factory.mktemp("released")
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "release"], ["tag", "v0.2.0"]):
        git(folder, *words)
    return folder


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_fails_where_a_model_got_worse_and_passes_where_not(released: Path, tmp_path: Path) -> None:
    pytest.importorskip("pre_commit", reason="pre-commit is not installed: pip install pre-commit")
    git(tmp_path, "init", "-q")
    for name, model in (("first", fits()), ("second", falls_back())):
        save(model, tmp_path / "models" / f"{name}.onnx")
    (tmp_path / ".pre-commit-config.yaml").write_text(CONFIG.format(address=released), encoding="utf-8")
    baseline = ["check", "models", "--target", "orin-nx-16gb", "-q", "--baseline", "dla.json", "--update-baseline"]
    subprocess.run([sys.executable, "-m", "edgedla", *baseline], cwd=tmp_path, check=True, capture_output=True)
    git(tmp_path, "add", "-A")

    def hook() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--verbose"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "PYTHONPATH": ""},
        )

    done = hook()
    if "Could not find a version" in done.stdout + done.stderr:
        pytest.skip("the libraries cannot be fetched here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "edgedla check" in done.stdout
    assert "Passed" in done.stdout
    git(tmp_path, "commit", "-qm", "two models")

    save(falls_back(), tmp_path / "models" / "first.onnx")
    git(tmp_path, "add", "-A")
    done = hook()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worse: models/first.onnx" in done.stdout
    assert "second" not in done.stdout

    save(fits(), tmp_path / "models" / "first.onnx")
    (tmp_path / "notes.txt").write_text("no model", encoding="utf-8")
    git(tmp_path, "add", "-A")
    assert "no files to check" in hook().stdout
