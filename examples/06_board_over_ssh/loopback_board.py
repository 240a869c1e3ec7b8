"""A board to practise with: an sshd of this machine on a port of its own, with a made-up Jetson tree. No root is needed.

python loopback_board.py start    writes board/ with keys, a tree, an inventory and `env`, and starts sshd for ten minutes
python loopback_board.py stop
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

BOARD = Path("board").resolve()
#: What edgedla reads of an AGX Orin 64 GB with JetPack 6.2.
TREE = {
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\n",
    "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "proc/meminfo": "MemTotal:       64337408 kB\n",
    "etc/nvpmodel.conf": "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=MODE_30W >\n",
    "var/lib/nvpmodel/status": "pmode:0002 fmode:fanNull\n",
    "run/lock/.keep": "",
}


def start() -> None:
    for name, text in TREE.items():
        (BOARD / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (BOARD / "root" / name).write_text(text)
    for key in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(BOARD / key)], check=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    edgedla = BOARD / "edgedla"
    edgedla.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edgedla "$@"\n')
    edgedla.chmod(0o755)
    path = os.environ.get("PYTHONPATH", "")
    variables = f"EDGEDLA_ROOT={BOARD}/root EDGEDLA_BOARD_HOME={BOARD}/home" + (f" PYTHONPATH={path}" if path else "")
    (BOARD / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {BOARD}/host_key\nPidFile {BOARD}/sshd.pid\n"
        f"AuthorizedKeysFile {BOARD}/key.pub\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nSetEnv {variables}\n"
    )
    host_key = (BOARD / "host_key.pub").read_text()
    (BOARD / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    (BOARD / "ssh_config").write_text(
        f"Host *\n  User {getpass.getuser()}\n  IdentityFile {BOARD}/key\n  UserKnownHostsFile {BOARD}/known_hosts\n"
    )
    (BOARD / "boards.yaml").write_text(
        f"boards:\n  orin1:\n    host: 127.0.0.1:{port}\n    groups: [lab]\n    python: {sys.executable}\n    edgedla: {edgedla}\n"
    )
    (BOARD / "env").write_text(
        f"export EDGEDLA_BOARDS={BOARD}/boards.yaml EDGEDLA_SSH='ssh -F {BOARD}/ssh_config' XDG_STATE_HOME={BOARD}/state\n"
    )
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or sys.exit("no sshd: apt install openssh-server")
    with open(BOARD / "sshd.log", "wb") as log:
        server = subprocess.Popen(
            ["timeout", "600", sshd, "-D", "-e", "-f", str(BOARD / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (BOARD / "pid").write_text(str(server.pid))
    for _ in range(200):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                print("orin1 is up for ten minutes")
                return
        time.sleep(0.05)
    sys.exit((BOARD / "sshd.log").read_text())


def stop() -> None:
    os.killpg(int((BOARD / "pid").read_text()), signal.SIGTERM)
    print("orin1 is off")


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]]()
