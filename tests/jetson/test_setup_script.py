"""jetson/setup.sh on a made-up board: what it would do, twice the same, and what it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "jetson" / "setup.sh"


def run(root, *arguments):
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**os.environ, "EDGEDLA_ROOT": str(root), "HOME": str(root)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def board(tmp_path, release):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text(f"# R{release} (release), REVISION: 4.3, GCID: 1, BOARD: generic\n")
    return tmp_path


@pytest.mark.skipif(
    shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here"
)
@pytest.mark.parametrize(
    ("release", "jetpack", "python"), [("35", 5, "python3.8"), ("36", 6, "python3.10"), ("39", 7, "python3.12")]
)
def test_each_jetpack_gets_its_python(tmp_path, release, jetpack, python):
    done = run(board(tmp_path, release), "--dry-run", "--venv", str(tmp_path / "v"))
    assert done.returncode == 0, done.stderr
    assert f"JetPack {jetpack} " in done.stdout
    assert f"would run: {python} -m venv --system-site-packages {tmp_path}/v" in done.stdout
    assert not (tmp_path / "v").exists(), "a dry run changes nothing"


@pytest.mark.skipif(
    shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here"
)
def test_a_second_run_keeps_the_environment(tmp_path):
    venv = tmp_path / "v" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text("#!/bin/sh\nexit 0\n")
    (venv / "python").chmod(0o755)
    done = run(board(tmp_path, "36"), "--dry-run", "--venv", str(tmp_path / "v"))
    assert "is there" in done.stdout
    assert "-m venv" not in done.stdout
    assert "install --quiet pycuda" not in done.stdout


def test_a_laptop_and_an_old_release_are_refused(tmp_path):
    assert run(tmp_path, "--dry-run").returncode == 4
    assert "JetPack 5, 6 or 7" in run(board(tmp_path, "32"), "--dry-run").stderr


def test_an_unknown_option_is_wrong_use(tmp_path):
    assert run(tmp_path, "--frobnicate").returncode == 2


def test_the_service_keeps_its_promises():
    unit = (ROOT / "jetson" / "edgedla-pipeline@.service").read_text()
    for line in (
        "Type=notify",
        "Restart=on-failure",
        "WatchdogSec=30",
        "KillSignal=SIGTERM",
        "RestartPreventExitStatus=2 3",
    ):
        assert line in unit
