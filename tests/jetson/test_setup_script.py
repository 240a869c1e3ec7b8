"""jetson/setup.sh on a made-up board: its actions, that a second run changes nothing, and its refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "jetson" / "setup.sh"


#: Users and groups of the made-up board: those of this machine say nothing about it.
GETENT = 'case "$1 $2" in "group video" | "group render") exit 0;; "passwd edgedla") [ -n "$SERVICE_USER" ];; *) exit 2;; esac'


def run(root, *arguments, **environment):
    if not (root / "accounts").is_dir():
        programs(root / "accounts", getent=GETENT)
    path = f"{root}/accounts:{environment.pop('PATH', os.environ['PATH'])}"
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**os.environ, "EDGEDLA_ROOT": str(root), "HOME": str(root), "SERVICE_USER": "", "PATH": path, **environment},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=60,
    )


def board(tmp_path, release):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text(f"# R{release} (release), REVISION: 4.3, GCID: 1, BOARD: generic\n")
    return tmp_path


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here")
@pytest.mark.parametrize(
    ("release", "jetpack", "python"), [("35", 5, "python3.8"), ("36", 6, "python3.10"), ("39", 7, "python3.12")]
)
def test_each_jetpack_gets_its_python(tmp_path, release, jetpack, python):
    done = run(board(tmp_path, release), "--dry-run", "--venv", str(tmp_path / "v"))
    assert done.returncode == 0, done.stderr
    assert f"JetPack {jetpack} " in done.stdout
    assert f"would run: {python} -m venv --system-site-packages {tmp_path}/v" in done.stdout
    assert not (tmp_path / "v").exists(), "a dry run changes nothing"


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here")
def test_a_second_run_keeps_the_environment(tmp_path):
    venv = tmp_path / "v" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text("#!/bin/sh\nexit 0\n")
    (venv / "python").chmod(0o755)
    done = run(board(tmp_path, "36"), "--dry-run", "--venv", str(tmp_path / "v"))
    assert "is there" in done.stdout
    assert "-m venv" not in done.stdout
    assert "install --quiet pycuda" not in done.stdout


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here")
@pytest.mark.parametrize("there", ["", "yes"])
def test_a_user_of_the_service_is_made_once(tmp_path, there):
    done = run(board(tmp_path, "36"), "--dry-run", "--service", SERVICE_USER=there)
    assert done.returncode == 0, done.stderr
    assert ("useradd" in done.stdout) is not bool(there)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the script is for Debian and Ubuntu: no dpkg-query here")
def test_a_service_gets_its_user_environment_and_unit_once(tmp_path):
    base = board(tmp_path, "36")
    done = run(base, "--dry-run", "--service")
    assert done.returncode == 0, done.stderr
    said = done.stdout.replace("sudo ", "")
    assert "-m venv --system-site-packages /opt/edgedla" in said
    assert "would run: useradd --system --no-create-home --shell /usr/sbin/nologin edgedla" in said
    assert "would write: /etc/systemd/system/edgedla-pipeline@.service" in said
    assert "would run: systemctl daemon-reload" in said
    there = base / "etc/systemd/system/edgedla-pipeline@.service"
    there.parent.mkdir(parents=True)
    there.write_text((ROOT / "jetson" / there.name).read_text())
    again = run(base, "--dry-run", "--service").stdout
    assert "systemd unit: it is there" in again
    assert "daemon-reload" not in again


def test_jetpacks_opencv_keeps_its_numpy():
    """JetPack's OpenCV is built with NumPy 1; a NumPy 2 in the environment would hide the board's cameras."""
    for file in ("setup.sh", "Dockerfile"):
        text = (ROOT / "jetson" / file).read_text()
        installs = [
            line
            for line in text.splitlines()
            if "pip install" in line and "upgrade pip" not in line and "--no-deps" not in line and "say " not in line
        ]
        assert installs
        assert all("'numpy<2'" in line for line in installs)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_passes():
    done = subprocess.run(["shellcheck", str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_verifies_the_unit(tmp_path):
    unit = tmp_path / "edgedla-pipeline@.service"
    unit.write_text((ROOT / "jetson" / unit.name).read_text().replace("/opt/edgedla/bin/edgedla", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "edgedla-pipeline@front.service")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_laptop_and_an_old_release_are_refused(tmp_path):
    assert run(tmp_path, "--dry-run").returncode == 4
    assert "JetPack 5, 6 or 7" in run(board(tmp_path, "32"), "--dry-run").stderr


def programs(folder, **texts):
    """A PATH with these programs before all others."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


#: A board with a Python that has all that is asked for; apt's packages are missing.
BARE = {"dpkg_query": "exit 1", "apt_cache": "exit 0", "python3.10": "exit 0", "id": "echo 1000"}


def test_a_password_prompt_that_nobody_can_answer_is_explained(tmp_path):
    """Over SSH sudo has no terminal: its words about one were all that came."""
    path = programs(tmp_path / "bin", **BARE, sudo='[ "$1" = -n ] && exit 1; echo "a terminal is required" >&2; exit 1')
    done = run(board(tmp_path, "36"), "--venv", str(tmp_path / "v"), PATH=path)
    assert done.returncode == 4
    assert "root is needed for: apt-get update" in done.stderr
    assert "--no-packages" in done.stderr


def test_without_a_network_setup_says_how_to_get_each_package(tmp_path):
    sudo = '[ "$1" = -n ] && exit 0; case "$*" in *update*) exit 100;; *apt-get*) [ -n "$APT" ] && exit 0; exit 100;; esac'
    path = programs(tmp_path / "bin", **BARE, sudo=sudo)
    base = board(tmp_path, "36")
    done = run(base, "--venv", str(tmp_path / "v"), PATH=path)
    assert done.returncode == 4
    assert "warning: not every package source answered" in done.stdout
    assert "these packages could not be installed: gstreamer1.0-tools" in done.stderr
    venv = tmp_path / "v" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").write_text('#!/bin/sh\n[ "$4" = --version ] || case "$*" in *install*) exit 1;; esac\n')
    (venv / "python").chmod(0o755)
    done = run(base, "--venv", str(tmp_path / "v"), PATH=path, APT="1")
    assert done.returncode == 4
    assert "edgedla board setup NAME --offline" in done.stderr


@pytest.mark.parametrize("parts", [("home", "nvidia", "edgedla"), ("root", "e"), ("root",), ("opt", "a b"), ("opt", "100%")])
def test_a_venv_that_the_unit_cannot_see_is_refused_for_a_service(tmp_path, parts):
    """The unit hides home folders (ProtectHome): systemd would end with 203/EXEC."""
    venv = os.path.join(os.sep, *parts)
    done = run(board(tmp_path, "36"), "--dry-run", "--service", "--venv", venv)
    assert done.returncode == 2
    assert venv in done.stderr


def test_a_relative_venv_of_a_service_becomes_absolute(tmp_path):
    path = programs(tmp_path / "bin", **BARE)
    done = subprocess.run(
        ["bash", str(SCRIPT), "--dry-run", "--service", "--venv", "v"],
        env={**os.environ, "EDGEDLA_ROOT": str(board(tmp_path, "36")), "PATH": path},
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert f"-m venv --system-site-packages {tmp_path}/v" in done.stdout


def test_setup_names_the_owner_and_activation_of_the_environment(tmp_path):
    path = programs(tmp_path / "bin", **{**BARE, "id": "echo 0"})
    done = run(board(tmp_path, "36"), "--dry-run", PATH=path, SUDO_USER="nvidia")
    assert "warning: by sudo the environment becomes root's" in done.stdout
    assert f"source {tmp_path}/edgedla/bin/activate" in done.stdout


def test_pycudas_build_log_is_created_by_mktemp():
    """Of /tmp/edgedla-pycuda.log: one that another user had made stopped the build."""
    assert "mktemp" in SCRIPT.read_text()
    assert "/edgedla-pycuda.log" not in SCRIPT.read_text()


def test_an_unknown_option_is_wrong_use(tmp_path):
    assert run(tmp_path, "--frobnicate").returncode == 2


def test_the_service_unit_has_the_documented_settings():
    unit = (ROOT / "jetson" / "edgedla-pipeline@.service").read_text()
    for line in (
        "Type=notify",
        "Restart=on-failure",
        "WatchdogSec=30",
        "KillSignal=SIGTERM",
        "RestartPreventExitStatus=2\n",
        # As long as the manifest for Kubernetes lets a start take.
        "TimeoutStartSec=300",
        "SuccessExitStatus=130",
        "StartLimitIntervalSec=0",
    ):
        assert line in unit
    assert "PrivateTmp=true" not in unit, "it would hide /tmp/argus_socket, and with it every CSI camera"
