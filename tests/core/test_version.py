"""Where the version comes from: the commit of a checkout, the metadata of an installation; else it says unknown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgedla
from edgedla.remote.wheel import write_wheel
from edgedla.version import RELEASE, UNKNOWN, version

pytestmark = pytest.mark.once

FILE = Path(edgedla.__file__).parent / "version.py"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


def told(root: Path, **environment: str) -> str:
    """What the copy of version.py below `root` says."""
    (root / "edgedla").mkdir(exist_ok=True)
    shutil.copy(FILE, root / "edgedla")
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['version']())"
    command = [sys.executable, "-c", code, str(root / "edgedla" / "version.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout.strip()


def git(root: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(root), *own, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    return root


@needs_git
def test_a_checkout_is_named_by_its_commit(checkout: Path) -> None:
    git(checkout, "init", "-q")
    for count in (1, 2):
        git(checkout, "commit", "-q", "--allow-empty", "-m", "a")
        commit = git(checkout, "rev-parse", "HEAD")[:8]
        # A hook of another repository runs with its GIT_DIR.
        assert told(checkout, GIT_DIR="/nowhere") == f"{RELEASE}.dev{count}+g{commit}"
    git(checkout, "tag", "v9.9.9")
    assert told(checkout) != RELEASE
    git(checkout, "tag", f"v{RELEASE}")
    assert told(checkout) == RELEASE


@needs_git
def test_the_commit_of_an_enclosing_repository_is_not_ours(checkout: Path) -> None:
    git(checkout.parent, "init", "-q")
    git(checkout.parent, "commit", "-q", "--allow-empty", "-m", "a")
    assert told(checkout) == UNKNOWN


def test_without_git_a_checkout_says_so(checkout: Path) -> None:
    (checkout / ".git").mkdir()
    assert told(checkout, PATH="") == UNKNOWN
    assert told(checkout) == UNKNOWN


def test_a_source_distribution_has_the_version_of_its_metadata(checkout: Path) -> None:
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: edgedla\nVersion: 0.2.0.dev7+gabc\n\nVersion: 9\n")
    assert told(checkout) == "0.2.0.dev7+gabc"


def test_an_installation_has_the_version_of_its_own_metadata(tmp_path: Path) -> None:
    assert told(tmp_path) == UNKNOWN
    folder = tmp_path / "edgedla-0.2.0.dev7+gabc.dist-info"
    folder.mkdir()
    assert told(tmp_path) == UNKNOWN
    (folder / "METADATA").write_text("Name: edgedla\nVersion: 0.2.0.dev7+gabc\n")
    assert told(tmp_path) == "0.2.0.dev7+gabc"


def test_the_wheel_for_a_board_has_the_version_that_runs(tmp_path: Path) -> None:
    shutil.unpack_archive(str(write_wheel(tmp_path)), tmp_path / "site", "zip")
    assert told(tmp_path / "site") == version() == edgedla.__version__


def test_version_with_verbose_names_digests_and_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    from edgedla.cli.main import exit_code_of
    from edgedla.identity import identity, libraries

    assert exit_code_of(["--version", "--verbose"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"edgedla, version {version()}"
    expected = {**identity().digests, "python": sys.version.split()[0], **libraries()}
    assert dict(line.split(None, 1) for line in rest) == {k: v or "not installed" for k, v in expected.items()}
    assert exit_code_of(["--verbose", "--version"]) == 0
