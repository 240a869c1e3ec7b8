"""The attack in small; `make attack` runs it for hours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.hostile import attack_builds, attack_models, attack_soak  # noqa: E402


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> attack_builds.Plans:
    attack_models.warm()
    return attack_builds.Plans(tmp_path_factory.mktemp("plans"))


def test_mutated_models_end_with_a_documented_exit_code() -> None:
    attack_models.warm()
    tally = attack_models.Tally()
    attack_models.run_cases(attack_models.mutation_case(attack_models.seeds(None), 1), 0, 160, tally.add)
    assert tally.wrong == []
    assert tally.cases == 160
    assert {"0", "3"} <= set(tally.codes), "the wounds are too deep or too light to show anything"


def test_interrupted_builds_leave_the_old_artifact_or_the_new_one(plans: attack_builds.Plans, tmp_path: Path) -> None:
    for number in range(25):
        assert attack_builds.kill_case(plans, tmp_path / "out", random.Random(number)) is None, number


def test_changed_artifacts_are_refused(plans: attack_builds.Plans, tmp_path: Path) -> None:
    for number in range(300):
        assert attack_builds.tamper_case(plans, tmp_path / "out", random.Random(number)) is None, number


def test_the_harness_sees_what_is_wrong(
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
        assert "exit code 70" in attack_models.case(["check", "absent.onnx"])["wrong"]
        patch.setattr("edgedla.cli.main._complain", lambda text: print("\x1b[2J"))
        patch.setattr("edgedla.cli.main._explained", lambda e: ("", 3))
        assert attack_models.case(["check", "absent.onnx"])["wrong"] == "control characters"


def test_a_case_that_never_ends_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def spin(e: Exception) -> tuple:
        while True:
            pass

    monkeypatch.setattr(attack_models, "CPU_S", 0.2)
    monkeypatch.setattr("edgedla.cli.main._explained", spin)
    assert "CPU s" in attack_models.case(["check", "absent.onnx"])["wrong"]


@pytest.mark.slow
@pytest.mark.skipif(attack_soak.possible() is not None, reason=str(attack_soak.possible()))
def test_a_camera_that_breaks_again_and_again() -> None:
    figures = attack_soak.soak(1.0, 1)
    assert figures["alive_to_the_end"]
    assert figures["results"] > 50
