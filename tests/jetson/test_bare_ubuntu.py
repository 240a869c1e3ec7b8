"""jetson/setup.sh on bare Ubuntu 20.04, 22.04 and 24.04: everything except NVIDIA's packages, which are not available there.

EDGEDLA_UBUNTU_ROOTS names a folder made by make_ubuntu_roots.sh. Needs root (chroot) and a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = os.environ.get("EDGEDLA_UBUNTU_ROOTS", "")
SUITES = {"focal": ("35", "python3.8"), "jammy": ("36", "python3.10"), "noble": ("39", "python3.12")}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("suite", SUITES)
def test_setup_on_bare_ubuntu_completes_and_names_missing_packages(suite: str) -> None:
    root = Path(ROOTS) / suite
    if not ROOTS or not (root / "usr/bin/apt-get").exists():
        pytest.skip("no bare Ubuntu: tests/jetson/make_ubuntu_roots.sh FOLDER, then EDGEDLA_UBUNTU_ROOTS=FOLDER")
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    major, python = SUITES[suite]
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    shutil.rmtree(root / "src", ignore_errors=True)
    for name in filter(None, map(os.fsdecode, files)):
        (root / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / "src" / name)
    (root / "etc/nv_tegra_release").write_text(f"# R{major} (release), REVISION: 4.1, GCID: 1\n")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    script = "mount -t proc proc /proc; bash /src/jetson/setup.sh --source /src --venv /opt/edgedla"
    command = ["unshare", "-m", "chroot", str(root), "sh", "-c", script]
    environment = {"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    trusted = os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt")
    if os.path.isfile(trusted):
        # A network may end TLS with a certificate of its own, which only this machine knows.
        shutil.copy(trusted, root / "etc/trusted-here.crt")
        environment["PIP_CERT"] = "/etc/trusted-here.crt"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    text = done.stdout
    assert done.returncode == 0, text[-2000:] + done.stderr[-2000:]
    assert f", {python}" in text
    assert text.count("TensorRT's Python module is not to be had") == 1
    assert text.count("pycuda is left out") == 1
    assert "looking at the board:" in text
    run = [*command[:4], "/opt/edgedla/bin/edgedla", "--version"]
    assert subprocess.run(run, env=environment, capture_output=True, check=False).returncode == 0


def test_python_3_8_with_ubuntus_pip_installs_the_package(tmp_path: Path) -> None:
    """Ubuntu 20.04's pip 20.0.2 knows no manylinux_2_24 tags and reads no sdist of highspy."""
    python = next((p for p in Path.home().glob(".pyenv/versions/3.8*/bin/python")), None) or shutil.which("python3.8")
    if python is None:
        pytest.skip("no Python 3.8 here")
    subprocess.run([str(python), "-m", "venv", str(tmp_path / "v")], check=True)
    pip = [str(tmp_path / "v/bin/python"), "-m", "pip"]
    # A folder of wheels that the machine offers would hide the fault.
    environment = {k: v for k, v in os.environ.items() if k != "PIP_FIND_LINKS"}
    environment["PIP_CONFIG_FILE"] = os.devnull
    wheel = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if wheel.returncode != 0 or subprocess.run([*pip, "install", "-q", "pip==20.0.2"], env=environment).returncode != 0:
        pytest.skip(f"no package index can be reached: {wheel.stderr[-200:]}")
    made = next(tmp_path.glob("edgedla-*.whl"))
    done = subprocess.run(
        [*pip, "install", "-q", str(made), "prometheus-client", "numpy<2"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert subprocess.run([str(tmp_path / "v/bin/edgedla"), "--version"], check=False).returncode == 0
