"""`import edgedla` and every --help work with only click installed, and start fast."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import List

import pytest

from edgedla.cli.verbs import VERBS

#: Run before anything else in the child: these cannot be imported, as in an environment without them.
BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
"""
LIBRARIES = (
    "numpy onnx yaml _yaml rich jinja2 highspy flatbuffers onnxruntime cv2 tensorrt pycuda jtop google prometheus_client"
).split()


def run(code: str, blocked: List[str] = LIBRARIES) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(names=set(blocked)) + code],
        capture_output=True,
        text=True,
        timeout=60,
        # Without kept forms of rules, which need no PyYAML.
        env={**os.environ, "XDG_CACHE_HOME": os.devnull},
    )


def test_import_needs_no_library() -> None:
    done = run("import edgedla; print(edgedla.__version__); dir(edgedla)", [*LIBRARIES, "click"])
    assert done.returncode == 0, done.stderr


def test_the_public_names_can_all_be_imported() -> None:
    import edgedla

    for name in edgedla.__all__:
        assert getattr(edgedla, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        edgedla.nonsense  # noqa: B018


@pytest.mark.parametrize("verb", ["", *sorted(VERBS)])
def test_help_works_without_the_libraries(verb: str) -> None:
    args = [verb, "--help"] if verb else ["--help"]
    done = run(f"from edgedla.cli.main import exit_code_of; sys.exit(exit_code_of({args!r}))")
    assert done.returncode == 0, done.stderr
    assert "Usage: edgedla" in done.stdout


def test_a_missing_library_is_named_with_exit_code_4() -> None:
    done = run("from edgedla.cli.main import exit_code_of; sys.exit(exit_code_of(['targets']))")
    assert done.returncode == 4
    assert "'yaml'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_click_is_named_with_exit_code_4() -> None:
    """A wheel installed with --no-deps."""
    done = run("from edgedla.__main__ import run; run()", [*LIBRARIES, "click"])
    assert done.returncode == 4
    assert "'click'" in done.stderr
    assert "Traceback" not in done.stderr


def test_import_and_help_load_few_modules() -> None:
    """Times differ by machine and load; the number of imported modules does not. `--help` imports click, not the verbs."""

    def imported(code: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", f"{code}; import sys; print(len(sys.modules))"], check=True, capture_output=True, text=True
        )
        return int(done.stdout.split()[-1])

    bare = imported("pass")
    assert imported("import edgedla") - bare < 40
    assert imported("from edgedla.cli.main import exit_code_of; exit_code_of(['--help'])") - bare < 200
