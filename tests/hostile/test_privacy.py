"""For every command: nothing leaves the machine, and nothing is written outside the given paths."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from edgedla.cli.verbs import VERBS
from tests.hostile.commands import COMMANDS, Scene

pytestmark = pytest.mark.once

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
#: ONNX Runtime sends nothing where it believes to run in CI, which would hide what users see.
CI_MARKS = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "GITLAB_CI", "BUILD_ID", "BUILD_BUILDID", "JENKINS_URL", "CIRCLECI")
STRACE = shutil.which("strace")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    made = Scene(tmp_path_factory.mktemp("scene"))
    made.build_artifact()
    return made


def environment(home: Path) -> Dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in CI_MARKS and not k.startswith(("XDG_", "ORT_"))}
    return {**kept, "HOME": str(home), "TMPDIR": str(home / ".." / "tmp"), "PYTHONDONTWRITEBYTECODE": ""}


#: What SECURITY.md names of a checkout: rule files in a form that loads faster, unless PYTHONDONTWRITEBYTECODE is set.
KEPT_RULES = Path(".cache/edgedla/rules")


def files(folder: Path) -> List[str]:
    """What lies in a folder, but the rules that a checkout keeps."""
    found = sorted(p.relative_to(folder) for p in folder.rglob("*"))
    kept = {KEPT_RULES, *KEPT_RULES.parents}
    return [str(p) for p in found if p not in kept and not (p.parent == KEPT_RULES and p.suffix == ".json")]


def test_every_command_has_a_privacy_case() -> None:
    assert set(COMMANDS) == set(VERBS), "give the new verb a row in tests/hostile/commands.py"


@pytest.mark.long
@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_commands_write_only_to_given_paths_and_open_no_socket(verb: str, scene: Scene, tmp_path: Path) -> None:
    home, results, work, tmp = (tmp_path / name for name in ("home", "results", "work", "tmp"))
    for folder in (home, results, work, tmp):
        folder.mkdir()
    for args in scene.arguments(verb, results):
        trace = tmp_path / "trace"
        # -f: telemetry leaves from threads of its own.
        head = [STRACE, "-f", "-qq", "-e", "trace=socket", "-o", str(trace)] if STRACE else []
        done = subprocess.run(
            [*head, sys.executable, "-m", "edgedla", *args],
            cwd=str(work),
            env=environment(home),
            capture_output=True,
            text=True,
            timeout=300,
        )
        # 4: `monitor` needs a Jetson, `fix` a newer Python.
        assert done.returncode in ((0, 1, 4) if verb in ("monitor", "fix") else (0, 1)), (args, done.stderr)
        assert (files(home), files(work), files(tmp)) == ([], [], []), args
        if STRACE:
            sockets = [line for line in trace.read_text().splitlines() if "AF_INET" in line]
            assert sockets == [], args


@pytest.mark.slow
@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_a_pipeline_that_runs_for_a_while_opens_no_socket(scene: Scene, tmp_path: Path) -> None:
    """ONNX Runtime 1.31 made its first attempt after five seconds."""
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    (args,) = scene.arguments("run", tmp_path, seconds="12")
    subprocess.run(
        [str(STRACE), "-f", "-qq", "-e", "trace=socket", "-o", str(trace), sys.executable, "-m", "edgedla", *args],
        env=environment(home),
        check=True,
        capture_output=True,
        timeout=300,
    )
    assert [line for line in trace.read_text().splitlines() if "AF_INET" in line] == []
    assert files(home) == []


LATE = """
import onnxruntime
calls = []
onnxruntime.disable_telemetry_events = lambda: calls.append(1)
from edgedla.quantization.session import import_onnxruntime
import_onnxruntime()
assert calls == [1], calls
"""


def test_telemetry_is_off_even_if_onnxruntime_was_imported_first(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LATE], env=environment(tmp_path), check=True, timeout=60)


def test_a_telemetry_setting_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.quantization.session import TELEMETRY_SWITCH, import_onnxruntime

    monkeypatch.setenv(TELEMETRY_SWITCH, "0")
    import_onnxruntime()
    assert os.environ[TELEMETRY_SWITCH] == "0"
