"""Boards on this machine: each is a real sshd with a made-up Jetson tree, its own home and its own edgedla.

Where there is no sshd, pretended_ssh.py stands in place of ssh, so that a bare machine tests everything but OpenSSH itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

from tests.ports import free_port

SSHD = next((p for p in ("/usr/sbin/sshd", shutil.which("sshd") or "") if p and os.path.exists(p)), "")
CHECKOUT = Path(__file__).resolve().parents[2]
MODEL = CHECKOUT / "examples/00_shapes_detector/shapes_detector.onnx"


def missing() -> str:
    """Why there can be no real sshd here; "" where there can."""
    for program in ("ssh", "ssh-keygen", "ssh-keyscan"):
        if shutil.which(program) is None:
            return f"no {program}: apt install openssh-client"
    if not SSHD:
        return "no sshd: apt install openssh-server"
    if os.geteuid() != 0:
        return ""
    try:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    except OSError as e:
        return f"sshd needs /run/sshd: {e}"
    return ""


def jetson_tree(root: Path) -> Path:
    """What edgedla reads of an AGX Orin 64 GB with JetPack 6.2 in its 30 W mode."""
    files = {
        "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\n",
        "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\x00",
        "proc/meminfo": "MemTotal:       64337408 kB\n",
        "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
        "var/lib/nvpmodel/status": "pmode:0002 fmode:fanNull\n",
        "sys/class/devfreq/17000000.gpu/cur_freq": "624750000\n",
        "sys/class/devfreq/17000000.gpu/max_freq": "1300500000\n",
        "sys/devices/platform/bus@0/13e00000.host1x/15880000.nvdla0/power/runtime_active_time": "12\n",
        "run/lock/.keep": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


class LoopbackBoard:
    """One sshd on a port of its own, or what a pretended ssh takes for one.

    `python` runs the board's edgedla; `path` is added to PYTHONPATH.
    """

    def __init__(self, folder: Path, key: Path, python: str = sys.executable, path: str = "", **environment: str) -> None:
        self.folder, self.key = folder, key
        self.root, self.home = jetson_tree(folder / "root"), folder / "home"
        self.home.mkdir()
        self.edgedla = folder / "edgedla"
        self.edgedla.write_text(f'#!/bin/sh\nexec "{python}" -m edgedla "$@"\n')
        self.edgedla.chmod(0o755)
        self.port = free_port()
        self.host_key = folder / "host_key"
        keygen(self.host_key)
        environment = {
            "EDGEDLA_ROOT": str(self.root),
            "EDGEDLA_BOARD_HOME": str(self.home),
            "PYTHONPATH": f"{CHECKOUT}:{path}",
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        (folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.host_key}",
            f"PidFile {folder}/pid",
            f"AuthorizedKeysFile {folder}/authorized_keys",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 100",
            "LogLevel ERROR",
            "Subsystem sftp internal-sftp",
            "SetEnv " + " ".join(f"{k}={v}" for k, v in environment.items()),
        ]
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        self.process: Optional[subprocess.Popen] = None
        self.pretended = bool(missing())
        self.start()

    def start(self) -> None:
        if self.pretended:
            (self.folder / "pretended.json").write_text(json.dumps({"port": self.port}))
            return
        command = [SSHD, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        listens = self.folder / "pid"
        for _ in range(600):
            # While a child of the last sshd still holds the port, a new one ends.
            if self.process is None or self.process.poll() is not None:
                with open(self.folder / "sshd.log", "ab") as log:
                    self.process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
            time.sleep(0.05)
            # sshd writes its number once it listens.
            if listens.is_file() and listens.read_text().strip() == str(self.process.pid):
                return
        raise AssertionError((self.folder / "sshd.log").read_text())

    def stop(self) -> None:
        if self.pretended:
            (self.folder / "pretended.json").unlink(missing_ok=True)
            self.cut()
        if self.process is not None:
            self.cut()
            self.process.kill()
            self.process.wait()
            self.process = None

    def cut(self) -> int:
        """Ends the server's side of every connection, as a network that breaks; returns how many there were."""
        if self.pretended:
            connections = list((self.folder / "connections").glob("*"))
            children = [int(path.name) for path in connections]
            for path in connections:
                path.unlink()
        else:
            assert self.process is not None
            children = descendants(self.process.pid, "sshd")
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(children)

    @property
    def jobs(self) -> Path:
        return self.home / "jobs"


def descendants(pid: int, name: str) -> List[int]:
    """Processes of this name below a process."""
    parents: Dict[int, List[int]] = {}
    names: Dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            rest = text.rpartition(")")[2].split()
            names[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
            parents.setdefault(int(rest[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        for child in parents.get(todo.pop(), []):
            if names[child].startswith(name):
                found.append(child)
                todo.append(child)
    return found


def keygen(path: Path) -> None:
    if missing():
        path.write_text(f"{path}, as good as a key\n")
        path.with_suffix(".pub").write_text(f"the public part of {path}\n")
        return
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
