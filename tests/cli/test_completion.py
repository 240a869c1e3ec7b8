"""Completion: each shell's own interpreter takes the script, and it completes commands, options and values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import List

import pytest

from edgedla.cli.completion import SHELLS
from edgedla.cli.main import exit_code_of

pytestmark = pytest.mark.once


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_script_asks_edgedla_at_each_tab(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_EDGEDLA_COMPLETE={shell}_complete" in script
    interpreter = shutil.which(shell)
    if interpreter is not None:
        subprocess.run([interpreter, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "completed"),
    [(["che"], "check"), (["check", "--max-lat"], "--max-latency"), (["check", "--precision", "in"], "int8")],
)
def test_commands_options_and_values_are_completed(words: List[str], completed: str) -> None:
    asked = {"_EDGEDLA_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["edgedla", *words]), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'edgedla'; from edgedla.cli import run; run()"],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
    )
    assert f"plain,{completed}" in done.stdout.splitlines(), done.stderr
