"""`edgedla costs wanted`: what is listed for which module, and a script whose commands exist."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click
import pytest

from edgedla.cli import main
from edgedla.costs.wanted import script, wanted
from edgedla.targets import platform_for

#: Stands for each program on the board: notes its arguments, and makes the artifact or the file that -o asks for.
FAKE = """#!/bin/bash
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/}" in tegrastats) exec sleep 60;; sleep) exit 0;; esac
"""


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("agx-orin-64gb", ["rails", "dla-rails", "memory-clock", "int8-parts", "processes", "clocks"]),
        ("agx-xavier-32gb", ["rails", "dla-rails", "processes", "clocks"]),
        ("orin-nano-8gb", ["rails", "clocks"]),
    ],
)
def test_a_module_is_asked_for_what_its_engines_can_tell(target: str, names) -> None:
    assert [run.name for run in wanted(platform_for(target))] == names


def ran(target: str, tmp_path: Path, *arguments: str) -> list:
    """The commands that the script runs on a board of fakes, in order."""
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name in ("edgedla", "tegrastats", "nvpmodel", "jetson_clocks", "sleep"):
        (programs / name).write_text(FAKE)
        (programs / name).chmod(0o755)
    clocks = tmp_path / "clk"
    for name, most in (("emc", 3199000000), ("nafll_dla0_core", 1600000000)):
        (clocks / name).mkdir(parents=True)
        (clocks / name / "max_rate").write_text(f"{most}\n")
    text = script(platform_for(target)).replace("/sys/kernel/debug/bpmp/debug/clk", str(clocks))
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls)}
    done = subprocess.run(
        ["bash", "-c", text, "wanted.sh", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "edgedla costs fit" in done.stdout
    # As it was before: at the most, and free.
    left = {f"{f.parent.name}/{f.name}": f.read_text().strip() for f in clocks.glob("*/*") if f.name != "max_rate"}
    given_back = {"emc/rate": "3199000000", "nafll_dla0_core/rate": "1600000000"}
    unlocked = {"emc/mrq_rate_locked": "0", "nafll_dla0_core/mrq_rate_locked": "0"}
    assert left == ({**given_back, **unlocked} if "memory-$rate" in text else {})
    return calls.read_text().splitlines()


@pytest.mark.parametrize("target", ["agx-orin-64gb", "orin-nano-8gb"])
def test_the_scripts_commands_exist_and_clocks_are_given_back(target: str, tmp_path: Path) -> None:
    calls = ran(target, tmp_path, "model.onnx", "scales.cache")
    ours = [c.split()[1:] for c in calls if c.startswith("edgedla ")]
    assert len(ours) >= 4
    for command, *arguments in ours:
        # Every option is one that the command has; nothing runs.
        found = main.main.get_command(click.Context(main.main), command)
        assert found is not None
        found.make_context(command, arguments)
    assert [c for c in calls if c.startswith("jetson_clocks")][-1] == "jetson_clocks --restore wanted/clocks"
    assert any("--calib scales.cache" in c for c in calls) == (target == "agx-orin-64gb")
    memory = [c.rsplit("/", 1)[-1] for c in calls if "memory/" in c]
    pairs = [f"{emc}-{dla}.json" for dla in (1230000000, 615000000) for emc in (3199000000, 2132666666)]
    assert memory == (pairs if target == "agx-orin-64gb" else [])


def test_without_scales_no_int8_engine_is_built(tmp_path: Path) -> None:
    assert not any("--precision int8" in call for call in ran("agx-orin-64gb", tmp_path, "model.onnx"))


def test_the_command_lists_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wanted.sh"
    assert main.exit_code_of(["costs", "wanted", "--target", "orin-nx-16gb", "-o", str(path)]) == 0
    told = capsys.readouterr().out
    assert "6 measurements that no published figure replaces" in told
    assert max(map(len, told.splitlines()[:-1])) <= 80
    assert path.read_text() == script(platform_for("orin-nx-16gb"))
    assert main.exit_code_of(["costs", "wanted", "--format", "json"]) == 0
    assert {"name", "what", "settles"} == set(json.loads(capsys.readouterr().out)[0])
    assert main.exit_code_of(["costs", "wanted", "--target", "moon"]) == 2


@pytest.mark.parametrize(("fails", "code"), [(False, 0), (True, 6)])
def test_doctor_runs_the_script_on_a_board(fails: bool, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("edgedla", "tegrastats", "nvpmodel", "jetson_clocks", "sleep", "cat"):
        (programs / name).write_text("#!/bin/bash\nexit 1\n" if fails and name == "nvpmodel" else FAKE)
        (programs / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setattr("edgedla.costs.wanted.script", lambda platform: "set -e; nvpmodel -q; edgedla bench $1\n")
    assert main.exit_code_of(["doctor", "--deep", "--costs", "model.onnx"]) == code
    assert fails or "edgedla bench model.onnx" in (tmp_path / "calls").read_text()


def test_doctor_says_where_a_board_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert main.exit_code_of(["doctor", "--deep", "--costs", "model.onnx"]) == 4
    assert "costs wanted" in capsys.readouterr().err
    assert main.exit_code_of(["doctor", "--costs", "model.onnx"]) == 2
