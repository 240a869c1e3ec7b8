"""The attack in a small form; `make attack` runs it for hours."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.amounts import amount  # noqa: E402
from tests.hostile import attack, attack_builds, attack_files, attack_models, attack_processes, attack_soak  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Any]:
    """The attack forks, so it runs in a process of its own: this one has the threads of other tests."""
    output = tmp_path_factory.mktemp("attack") / "attack.json"
    options = ["--models", "160", "--kills", "25", "--tampers", "300", "--files", "24", "--processes", "1", "-o", str(output)]
    command = [sys.executable, "-m", "tests.hostile.attack", *options]
    done = subprocess.run(command, cwd=str(ROOT), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(output.read_text(encoding="utf-8"))


def test_mutated_models_end_with_a_documented_exit_code(figures: Dict[str, Any]) -> None:
    tally = figures["mutated_models"]
    assert tally["first_wrong"] == []
    assert tally["cases"] == 160
    assert {"0", "3"} <= set(tally["exit_codes"]), "the wounds are too deep or too light to show anything"


@pytest.mark.parametrize(("part", "count"), [("kills", 25), ("tampered_artifacts", 300)])
def test_attacked_artifacts_load_as_old_or_new_or_are_refused(figures: Dict[str, Any], part: str, count: int) -> None:
    assert figures[part]["first_wrong"] == []
    assert figures[part]["cases"] == count


@pytest.mark.parametrize("surface", attack_files.SURFACES)
def test_files_of_others_end_with_a_documented_exit_code(figures: Dict[str, Any], surface: str) -> None:
    tally = figures[f"files_{surface}"]
    assert tally["first_wrong"] == []
    assert tally["native_crashes"] == []
    assert tally["cases"] == 24
    assert tally["most_memory_mib"] < 256


@pytest.mark.parametrize("kind", attack_processes.PROCESSES)
def test_whole_processes_end_with_a_documented_exit_code_and_leave_whole_files(figures: Dict[str, Any], kind: str) -> None:
    lacking = attack_processes.lacking(kind)
    if lacking is not None:
        pytest.skip(f"no {lacking} here")
    assert figures[f"processes_{kind}"] == {"cases": 1, "wrong": 0, "first_wrong": []}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> attack_builds.Plans:
    return attack_builds.Plans(tmp_path_factory.mktemp("plans"))


def test_the_attack_harness_detects_planted_defects(
    plans: attack_builds.Plans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An artifact that loads without its hashes, and a command that crashes, hangs or prints an escape."""
    from edgedla.builder.artifact import load

    with monkeypatch.context() as patch:
        patch.setattr(load, "_verify_file", lambda folder, entry: None)
        answers = [attack_builds.tamper_case(plans, tmp_path / "out", random.Random(n)) for n in range(60)]
        assert any(answers)
    with monkeypatch.context() as patch:
        patch.setattr("edgedla.cli.main._explained", lambda e: ("bug", 70))
        assert "exit code 70" in attack_models.case(["layers", "absent.onnx"])["wrong"]
        patch.setattr("edgedla.cli.main._complain", lambda text: print("\x1b[2J"))
        patch.setattr("edgedla.cli.main._explained", lambda e: ("", 3))
        assert attack_models.case(["layers", "absent.onnx"])["wrong"] == "control characters"


def test_the_attack_harness_detects_an_endless_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def spin(e: Exception) -> tuple:
        while True:
            pass

    monkeypatch.setattr(attack_models, "CPU_S", 0.2)
    monkeypatch.setattr("edgedla.cli.main._explained", spin)
    assert "CPU s" in attack_models.case(["layers", "absent.onnx"])["wrong"]


def test_the_attack_harness_refuses_a_shell_with_a_low_memory_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each case would end in an error that says nothing about edgedla."""
    monkeypatch.setattr(attack_models.resource, "getrlimit", lambda kind: (4 << 30, 4 << 30))
    monkeypatch.setattr(sys, "argv", ["attack", "--models", "1"])
    with pytest.raises(SystemExit) as ended:
        attack.main()
    assert ended.value.code == 2
    assert "allows 4096 MiB of address space (ulimit -v); the attack needs 6144 MiB" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(attack_soak.possible() is not None, reason=str(attack_soak.possible()))
def test_a_pipeline_survives_a_camera_that_breaks_repeatedly() -> None:
    figures = attack_soak.soak(amount(20, 60) / 60, 1)
    assert figures["alive_to_the_end"]
    assert figures["results"] > 15
