"""The tutorials run in an environment that holds what the install line of README.md brings, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_commands import follow

ROOT = Path(__file__).resolve().parents[2]
#: Pages that show the line.
SHOW_IT = ("README.md", "docs/index.md", "docs/install.md")
#: tutorials/jetpack-7.md and the others need no more than these extras.
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def install_line(page: str) -> str:
    found = re.search(r"^pip install '(\.\[.*?\])'$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert found, f"{page} has no install line"
    return found[1]


def test_all_pages_show_the_same_install_line() -> None:
    assert len({install_line(page) for page in SHOW_IT}) == 1


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    line = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*line, install_line("README.md")], cwd=ROOT, capture_output=True, text=True)
    if "Could not find a version" in done.stderr:
        pytest.skip(f"the libraries cannot be fetched here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.skipif(sys.version_info < (3, 10), reason="fix needs Python 3.10")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_after_the_install_line(page: Path, programs: Path, tmp_path: Path) -> None:
    wrong, _ = follow(page, tmp_path, programs)
    assert not wrong, "\n\n".join(wrong)
