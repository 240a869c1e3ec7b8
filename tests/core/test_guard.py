"""A command that crashes in native code, takes too much memory or is terminated: an error message and a documented exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List

import onnx
import pytest
from onnx import TensorProto, helper

from edgedla.cli.verbs import VERBS
from edgedla.processes import guard
from edgedla.processes.guard import GUARDED

pytestmark = pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="only Linux has what the guard needs")

HEAD = "import os, signal, sys, time\nfrom edgedla.processes.guard import guard_command\nguard_command(['check'], sys.stderr.write)\n"


def ended(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", HEAD + body], capture_output=True, text=True, timeout=60)


def started(body: str) -> subprocess.Popen[str]:
    """A guarded process that has written its own id and goes on with `body`."""
    body = HEAD + "print(os.getpid(), flush=True)\n" + body
    return subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_guarded_commands_are_commands() -> None:
    assert set(VERBS) > GUARDED


@pytest.mark.parametrize("code", [0, 1, 3, 70])
def test_the_guard_passes_the_exit_code_on(code: int) -> None:
    done = ended(f"print('out'); sys.exit({code})")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "")


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT"])
def test_a_native_crash_exits_with_3_and_names_the_signal(name: str) -> None:
    done = ended(f"os.kill(os.getpid(), signal.{name})")
    assert done.returncode == 3
    assert f"crashed ({name})" in done.stderr


def test_a_process_killed_by_the_system_exits_with_4() -> None:
    done = ended("os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 4
    assert "no memory left" in done.stderr


def test_more_memory_than_allowed_ends_the_command() -> None:
    done = ended(
        "from edgedla.processes.guard import hold_below\nhold_below(150 << 20)\nkept = [bytearray(b'x') * (1 << 20) for _ in range(100)]\n"
        "print('held', flush=True)\nfor _ in range(4000):\n    kept.append(bytearray(b'x') * (1 << 20))\n    time.sleep(0.001)\n"
    )
    assert done.returncode == 4
    assert done.stdout == "held\n"
    assert "more than 150 MiB" in done.stderr
    assert "--max-memory" in done.stderr


def test_the_memory_limit_holds_for_the_watched_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    guard.hold_below(1)
    guard.allow(1)
    watched = guard.Watched()
    monkeypatch.setattr(guard, "_watched", None)
    monkeypatch.setattr(guard, "_device", guard._DeviceWork())
    guard.watch(watched)
    guard.hold_below(5)
    guard.allow(3)
    assert watched.limit_bytes == 5
    guard.allow(7)
    assert watched.limit_bytes == 7
    watched.pid += 1
    guard.hold_below(9)
    assert watched.limit_bytes == 7


#: Grows by 400 MiB within TensorRT's work, under a limit of 150 MiB.
DEVICE = (
    "from edgedla.processes import guard\nfrom edgedla.errors import BuildError, RunError\nguard.hold_below(150 << 20)\n"
    "def grow(mib):\n    return [bytearray(b'x') * (1 << 20) for _ in range(mib)]\n"
    "with guard.device_work(BuildError):\n    kept = grow(400)\n    time.sleep(0.2)\n"
)


def test_what_tensorrt_takes_is_not_counted_and_the_limit_holds_again_after_it() -> None:
    done = ended(DEVICE + "kept += grow(40)\ntime.sleep(0.2)\nprint(guard.held_bytes() < 150 << 20)\n")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    done = ended(DEVICE + "print('held', flush=True)\nkept += grow(150)\ntime.sleep(5)\nprint('goes on')\n")
    assert (done.returncode, done.stdout) == (4, "held\n"), done.stderr


def test_overlapping_device_work_ends_with_the_last_block() -> None:
    body = (
        "with guard.device_work(RunError):\n    with guard.device_work(RunError):\n        pass\n    kept += grow(200)\n"
        "    time.sleep(0.2)\nprint('goes on')\n"
    )
    done = ended(DEVICE + body)
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


@pytest.mark.parametrize(("error", "code", "log"), [("BuildError", 5, True), ("RunError", 6, False)])
def test_a_crash_of_tensorrt_is_no_broken_model(error: str, code: int, log: bool) -> None:
    done = ended(DEVICE + f"with guard.device_work({error}):\n    os.kill(os.getpid(), signal.SIGSEGV)\n")
    assert done.returncode == code
    assert "TensorRT or CUDA crashed (SIGSEGV)" in done.stderr
    assert (".work/build.log" in done.stderr) == log


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_signals_to_the_guard_reach_the_command(sent: int, code: int) -> None:
    process = started(
        "from edgedla.cli import main\ndef wait(**_):\n    print('waits', flush=True)\n    time.sleep(60)\n"
        "main.main.main = wait\nsys.exit(main.exit_code_of([]))"
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().isdigit()
        assert process.stdout.readline() == "waits\n"
        process.send_signal(sent)
        assert process.wait(30) == code


#: A command that keeps a file in a temporary folder, and has another process keep one in another.
KEEPS = (
    "import subprocess, tempfile\nopen(tempfile.mkdtemp() + '/f', 'w').close()\n"
    "subprocess.run([sys.executable, '-c', 'import tempfile; tempfile.mkdtemp()'])\n"
    "print(guard.lasting_temporary_folder(), len(os.listdir(tempfile.gettempdir())), flush=True)\n"
)


@pytest.mark.parametrize("end", ["SIGTERM", "SIGHUP", "SIGINT", "SIGKILL", "SIGSEGV", "sys.exit(3)"])
def test_whatever_ends_a_command_leaves_no_temporary_folder(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    body = f"os.kill(os.getpid(), signal.{end})" if end.startswith("SIG") else end
    done = ended("from edgedla.processes import guard\n" + KEEPS + body)
    assert done.stdout == f"{tmp_path} 2\n", done.stderr
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_cannot_be_made_stops_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/proc/nowhere")
    done = ended("from edgedla.processes import guard\n" + KEEPS)
    assert (done.returncode, done.stderr) == (0, "")
    assert not done.stdout.startswith("/proc")


def test_the_command_ends_if_its_guard_is_killed() -> None:
    process = started("time.sleep(60)")
    with process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        assert worker != process.pid
        process.kill()
        process.wait(20)
    for _ in range(200):
        if not alive(worker):
            return
        time.sleep(0.05)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the command went on alone")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def growing(path: Path, doublings: int = 24) -> List[Any]:
    """A model of a few hundred bytes whose tensors' sizes are known when it runs: 4 KiB doubled again and again."""
    pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["t0"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Concat", [f"t{i}"] * 2, [f"t{i + 1}"], axis=1) for i in range(doublings)]
    nodes.append(helper.make_node("ReduceMean", [f"t{doublings}"], ["m"], keepdims=0))
    nodes.append(helper.make_node("Add", ["x", "m"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "growing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return [sys.executable, "-m", "edgedla", "build", str(path), "--target", "orin", "--backend", "host"]


def test_a_model_that_grows_at_run_time_stays_below_max_memory(tmp_path: Path) -> None:
    command = growing(tmp_path / "m.onnx")
    done = subprocess.run(
        [*command, "--max-memory", "400M", "-o", str(tmp_path / "a")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 4, done.stderr
    assert "more than 400 MiB" in done.stderr
    assert not (tmp_path / "a" / "artifact.json").exists()
