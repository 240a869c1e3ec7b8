"""Fixtures: loopback boards, and a laptop that knows them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence

import pytest

from tests.remote.loopback import CHECKOUT, LoopbackBoard, keygen, missing


class Laptop:
    """Runs edgedla as a user would, with an inventory, keys and a state of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = folder / "key"
        keygen(self.key)
        self.boards: Dict[str, LoopbackBoard] = {}
        self.known = folder / "known_hosts"
        # A Unix socket's path is short.
        self.sockets = Path(tempfile.mkdtemp(prefix="ed", dir="/tmp"))
        self.env: Dict[str, str] = {
            **os.environ,
            "EDGEDLA_BOARDS": str(folder / "boards.yaml"),
            "EDGEDLA_SSH": f"{sys.executable} {PRETENDED} {folder}" if missing() else f"ssh -F {folder}/ssh_config",
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(self.sockets),
            "PYTHONPATH": str(CHECKOUT),
            "OMP_NUM_THREADS": "1",
        }
        self.write()

    def add(self, name: str, **options: Any) -> LoopbackBoard:
        folder = self.folder / name
        folder.mkdir()
        self.boards[name] = LoopbackBoard(folder, self.key, **options)
        with open(self.known, "a") as f:
            host = f"[127.0.0.1]:{self.boards[name].port}"
            f.write(f"{host} {self.boards[name].host_key.with_suffix('.pub').read_text()}")
        self.write()
        return self.boards[name]

    def write(self) -> None:
        (self.folder / "ssh_config").write_text(
            f"Host *\n  User {os.environ.get('USER') or 'root'}\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known}\n  GlobalKnownHostsFile {self.known}\n"
        )
        entries = [
            f"  {name}:\n    host: 127.0.0.1:{b.port}\n    python: {sys.executable}\n    edgedla: {b.edgedla}\n    groups: [lab]\n"
            for name, b in self.boards.items()
        ]
        (self.folder / "boards.yaml").write_text("boards:\n" + "".join(entries) if entries else "boards: {}\n")

    def popen(self, *words: Any, cwd: Any = None) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", "edgedla", *(str(w) for w in words)],
            env=self.env,
            cwd=str(cwd or self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def edgedla(self, *words: Any, cwd: Any = None) -> subprocess.CompletedProcess:
        process = self.popen(*words, cwd=cwd)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def python(self, code: str, *words: Any) -> subprocess.CompletedProcess:
        command: Sequence[str] = [sys.executable, "-c", code, *(str(w) for w in words)]
        return subprocess.run(command, env=self.env, cwd=str(self.folder), text=True, capture_output=True, timeout=300)

    def close(self) -> None:
        for board in self.boards.values():
            board.stop()
        shutil.rmtree(self.sockets, ignore_errors=True)


PRETENDED = Path(__file__).with_name("pretended_ssh.py")


@pytest.fixture
def _openssh() -> None:
    """For tests of what OpenSSH itself does: keys of hosts, login shells, jumps."""
    if missing():
        pytest.skip(missing())


@pytest.fixture
def new_laptop(tmp_path: Path) -> Iterator[Callable[..., Laptop]]:
    """`new_laptop("ana")`: a laptop without boards."""
    made: List[Laptop] = []

    def make(name: str = "laptop") -> Laptop:
        (tmp_path / name).mkdir()
        made.append(Laptop(tmp_path / name))
        return made[-1]

    yield make
    for laptop in made:
        laptop.close()


@pytest.fixture
def laptop(new_laptop: Callable[..., Laptop]) -> Laptop:
    """A laptop with one board, orin1."""
    made = new_laptop()
    made.add("orin1")
    return made
