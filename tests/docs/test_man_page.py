"""The manual page: what the commands say now, and nothing that troff warns of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.generator.man_page import VARIABLES, man_page
from edgedla.cli.main import VERBS

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "edgedla.1"


def test_the_page_is_what_the_commands_say(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PAGE.write_text(man_page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == man_page(), "python -m docs.generator.man_page > docs/edgedla.1"
    assert PAGE.read_bytes().isascii()


def test_every_command_and_variable_has_its_entry() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^\.SS edgedla (.*)$", text, re.M) == [verb.replace("-", r"\-") for verb in VERBS]
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "edgedla").rglob("*.py"))
    assert all(f'"{name}"' in sources for name in VARIABLES)


@pytest.mark.skipif(shutil.which("man") is None or shutil.which("groff") is None, reason="man or groff is not installed")
def test_troff_has_no_warning() -> None:
    done = subprocess.run(
        ["man", "--warnings", "-l", str(PAGE)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "edgedla check" in done.stdout
