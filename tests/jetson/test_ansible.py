"""The Ansible role with a real ansible-playbook against real sshds: rolled out, verified, rolled back, idempotent."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

from tests.ports import free_port  # noqa: E402
from tests.remote.loopback import LoopbackBoard, keygen, missing  # noqa: E402

ANSIBLE = ROOT / "jetson/ansible"
PLAYBOOK = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
PIPELINE = """\
version: 1
artifact: artifact
source: {uri: "{{ camera }}"}
decode: {kind: none}
metrics: {prometheus_port: {{ metrics_port }}, fresh_s: 5}
stop_after: {seconds: 900}
# {{ note | default('') }}
"""
RESTART = """\
import os, signal, subprocess, sys
folder = sys.argv[1]
pid = os.path.join(folder, "pid")
if os.path.exists(pid):
    try:
        os.kill(int(open(pid).read()), signal.SIGKILL)
    except ProcessLookupError:
        pass
log = open(os.path.join(folder, "service.log"), "ab")
edgedla, pipeline = os.path.join(folder, "venv/bin/edgedla"), os.path.join(folder, "state/front/current/pipeline.yaml")
child = subprocess.Popen([edgedla, "run", pipeline], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
open(pid, "w").write(str(child.pid))
"""


class Fleet:
    """Boards with an inventory; `play` runs the playbook and returns what it says of each."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        keygen(folder / "key")
        (folder / "restart.py").write_text(RESTART)
        (folder / "front.yaml.j2").write_text(PIPELINE)
        self.boards: Dict[str, LoopbackBoard] = {}
        self.hosts: Dict[str, dict] = {}
        known = []
        for n in range(count):
            name = f"board{n}"
            (folder / name).mkdir()
            board = LoopbackBoard(folder / name, folder / "key")
            self.boards[name] = board
            known.append(f"[127.0.0.1]:{board.port} {board.host_key.with_suffix('.pub').read_text()}")
            self._venv(folder / name, board)
            port = free_port()
            self.hosts[name] = {
                "ansible_host": "127.0.0.1",
                "ansible_port": board.port,
                "camera": "synthetic://?rate=4",
                "metrics_port": port,
                "edgedla_venv": str(folder / name / "venv"),
                "edgedla_state": str(folder / name / "state"),
                "edgedla_health_url": f"http://127.0.0.1:{port}/healthz",
                "edgedla_restart_command": [sys.executable, str(folder / "restart.py"), str(folder / name)],
            }
        (folder / "known").write_text("".join(known))
        self.artifact("artifact", "fp16")

    def _venv(self, folder: Path, board: LoopbackBoard) -> None:
        (folder / "venv/bin").mkdir(parents=True)
        for name, words in (("python", ""), ("edgedla", "-m edgedla")):
            program = folder / "venv/bin" / name
            program.write_text(
                f'#!/bin/sh\nPYTHONPATH={ROOT} OMP_NUM_THREADS=1 EDGEDLA_ROOT={board.root} exec {sys.executable} {words} "$@"\n'
            )
            program.chmod(0o755)

    def artifact(self, name: str, precision: str) -> None:
        model = ROOT / "examples/00_shapes_detector/shapes_detector.onnx"
        command = [sys.executable, "-m", "edgedla", "build", str(model), "-o", str(self.folder / name), "--backend", "host"]
        subprocess.run([*command, "--precision", precision], check=True, capture_output=True, cwd=str(ROOT))

    def play(self, *words: str, artifact: str = "artifact") -> Dict[str, Dict[str, int]]:
        common = {
            "ansible_user": os.environ.get("USER") or "root",
            "ansible_ssh_private_key_file": str(self.folder / "key"),
            "ansible_python_interpreter": sys.executable,
            "edgedla_systemd": False,
            "edgedla_health_delay": 1,
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.folder}/known -o GlobalKnownHostsFile=/dev/null",
            "edgedla_health_retries": 12,
            "edgedla_health_settle": 2,
            "edgedla_artifact": str(self.folder / artifact),
            "edgedla_pipeline_file": str(self.folder / "front.yaml.j2"),
            "edgedla_owner": os.environ.get("USER") or "root",
        }
        inventory = {"jetsons": {"hosts": self.hosts, "vars": common}}
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        assert PLAYBOOK is not None
        env = {
            **os.environ,
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": f"/tmp/edgedla-a{os.getpid()}",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [
                PLAYBOOK,
                "-i",
                str(self.folder / "inventory.yml"),
                str(ANSIBLE / "playbook.yml"),
                "-e",
                '{"edgedla_serial": ["100%"], "edgedla_max_fail_percentage": 50}',
                *words,
            ],
            capture_output=True,
            text=True,
            env=env,
            timeout=900,
            cwd=str(self.folder),
        )
        self.said = done.stdout + done.stderr
        recap = re.findall(r"^(board\d+)\s*: (.*)$", done.stdout, re.M)
        assert len(recap) == len(self.hosts), self.said
        return {name: {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", counts)} for name, counts in recap}

    def release(self, name: str) -> str:
        return os.readlink(self.folder / name / "state/front/current")

    def healthy(self, name: str) -> bool:
        import urllib.error
        import urllib.request

        try:
            with urllib.request.urlopen(str(self.hosts[name]["edgedla_health_url"]), timeout=5) as answer:
                return bool(answer.status == 200)
        except urllib.error.URLError:
            return False

    def close(self) -> None:
        for name, board in self.boards.items():
            board.stop()
            pid = self.folder / name / "pid"
            if pid.exists():
                try:
                    os.kill(int(pid.read_text()), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        shutil.rmtree(f"/tmp/edgedla-a{os.getpid()}", ignore_errors=True)


@pytest.fixture
def fleet(tmp_path):
    if PLAYBOOK is None:
        pytest.skip("no ansible-playbook: pip install ansible-core")
    if missing():
        pytest.skip(missing())
    made = []

    def make(count):
        made.append(Fleet(tmp_path, count))
        return made[0]

    yield make
    for f in made:
        f.close()


@pytest.mark.slow
def test_a_rollout_to_five_boards_rolls_the_failing_one_back(fleet):
    boards = fleet(5)
    dry = boards.play("--check")
    assert all(r["failed"] == r["unreachable"] == 0 for r in dry.values()), boards.said
    assert not (boards.folder / "board0/state").exists(), "--check changes nothing"
    first = boards.play()
    assert all(r["failed"] == 0 and r["changed"] > 0 for r in first.values()), boards.said
    before = {name: boards.release(name) for name in boards.hosts}
    assert all(map(boards.healthy, boards.hosts))
    again = boards.play()
    assert all(r["changed"] == r["failed"] == 0 for r in again.values()), boards.said
    boards.artifact("artifact2", "int8")
    boards.hosts["board3"]["camera"] = f"{boards.folder}/no-such-video.mp4"
    second = boards.play(artifact="artifact2")
    assert {name: r["failed"] for name, r in second.items()} == {f"board{n}": int(n == 3) for n in range(5)}, boards.said
    assert "It is back at" in boards.said
    assert boards.release("board3") == before["board3"]
    assert boards.healthy("board3"), "the release of before runs again"
    for name in ("board0", "board1", "board2", "board4"):
        assert boards.release(name) != before[name]
        assert boards.healthy(name)


@pytest.mark.slow
def test_a_damaged_artifact_fails_the_rollout(fleet):
    boards = fleet(1)
    engine = next((boards.folder / "artifact").glob("model-*.onnx"))
    engine.write_bytes(engine.read_bytes()[:-1] + b"x")
    played = boards.play()
    assert played["board0"]["failed"] == 1
    assert "does not verify on this board" in boards.said
    assert not (boards.folder / "board0/state/front/current").exists()


def test_passwords_of_cameras_are_for_the_service_alone():
    """The pipeline file was readable by every user of the board."""
    tasks = yaml.safe_load((ANSIBLE / "roles/edgedla/tasks/release.yml").read_text())
    task = next(t for t in tasks if t["name"] == "Write the pipeline file")
    written = task["ansible.builtin.template"]
    assert (written["mode"], written["group"], task["diff"]) == ("0640", "{{ edgedla_pipeline_group }}", False)


def test_every_file_of_the_role_is_yaml_and_every_task_has_a_name():
    files = [*ANSIBLE.rglob("*.yml")]
    assert len(files) >= 8
    for path in files:
        document = yaml.safe_load(path.read_text())
        assert path.read_text().startswith("---\n"), path
        if path.parent.name == "tasks":
            assert all(task.get("name") for task in document), path


@pytest.mark.skipif(shutil.which("ansible-lint") is None, reason="ansible-lint is not installed")
def test_ansible_lint_passes():
    done = subprocess.run(["ansible-lint", "--offline", "-q", str(ANSIBLE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
