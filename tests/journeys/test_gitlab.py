"""The guide's `.gitlab-ci.yml`, run by gitlab-ci-local with the shell instead of an image: npm install -g gitlab-ci-local."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.journeys.test_pre_commit import git
from tests.journeys.test_pull_request import PLACE, edgedla, falls_back, fits
from tests.models import save

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "ci.md"
MISSING = [tool for tool in ("gitlab-ci-local", "rsync", "git") if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.once,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def job(repository: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["gitlab-ci-local", "--force-shell-executor", "dla"],
        cwd=repository,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(GUIDE.parents[2])},
    )


def test_the_guides_job_passes_until_a_model_gets_worse(tmp_path: Path) -> None:
    snippet = re.search(r"```yaml\n(# \.gitlab-ci\.yml\n.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert snippet
    repository, programs = tmp_path / "repository", tmp_path / "programs"
    programs.mkdir()
    for name, line in (("edgedla", f'exec "{sys.executable}" -m edgedla "$@"'), ("pip", 'echo "not installed here: $@"')):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    save(fits(), repository / "models" / "first.onnx")
    (repository / ".gitlab-ci.yml").write_text(snippet[1], encoding="utf-8")
    written = edgedla(repository, "check", "models", *PLACE, "-q", "--baseline", "dla.json", "--update-baseline")
    assert written.returncode == 0, written.stderr
    # The runner knows a project by its remote.
    for words in (["init", "-q"], ["remote", "add", "origin", "git@host.invalid:a/b.git"], ["add", "-A"], ["commit", "-qm", "a"]):
        git(repository, *words)
    done = job(repository, programs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "first on orin-nx-16gb" in done.stdout
    assert (repository / ".gitlab-ci-local" / "artifacts" / "dla" / "dla.md").is_file()
    save(falls_back(), repository / "models" / "first.onnx")
    git(repository, "add", "-A")
    done = job(repository, programs)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worse: models/first.onnx" in done.stdout + done.stderr
