"""The board's side and the words of this one, in plain files and processes: logs, ends of jobs, results, states, causes, summaries."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest

from edgedla.errors import RunError
from edgedla.identity import identity
from edgedla.remote import truth
from edgedla.remote.address import Address
from edgedla.remote.board_side import jobs, runner
from edgedla.remote.board_side.store import KEEP_S, Refused
from edgedla.remote.ssh import CAUSES, explain, login_of
from edgedla.rules import load_rules


def lines(path: Path) -> List[Dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- Logs


@pytest.mark.parametrize(("most", "kept"), [(40, ["a"]), (78, ["a"]), (79, ["a", "b"]), (200, ["a", "b", "c"])])
def test_a_log_is_cut_once(most: int, kept: List[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of one letter has 33 bytes."""
    row = len(json.dumps({"stream": "out", "text": "a"})) + 1
    monkeypatch.setattr(runner, "MAX_LOG_BYTES", {40: row + 1, 78: 2 * row - 1, 79: 2 * row, 200: 4 * row}[most])
    log = runner.Log(str(tmp_path / "log"))
    for text in "abc":
        log.write("out", text)
    log.write("out", "d" * 500)
    found = lines(tmp_path / "log")
    assert [r["text"] for r in found] == [*kept, "[the log is cut here]\n"]
    assert found[-1]["stream"] == "err"
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_a_log_on_a_full_disk_takes_the_space_that_was_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = tmp_path / "reserve"
    runner.reserve(str(space))
    assert space.stat().st_size == 256 << 10
    log, write = runner.Log(str(tmp_path / "log"), str(space)), os.write

    def full(fd: int, data: bytes) -> int:
        if space.exists():
            raise OSError(28, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    log.write("err", "last words")
    assert lines(tmp_path / "log") == [{"stream": "err", "text": "last words"}]
    assert not space.exists()


def test_a_pipe_is_copied_as_text_whatever_its_bytes(tmp_path: Path) -> None:
    log = runner.Log(str(tmp_path / "log"))
    ends = os.pipe()
    os.write(ends[1], "\u20ac".encode()[:2])
    os.close(ends[1])
    with os.fdopen(ends[0], "rb") as source:
        log.copy("out", source)
    assert lines(tmp_path / "log") == [{"stream": "out", "text": "\ufffd"}]


# --- Jobs


def ran(folder: Path, job: Dict[str, Any]) -> Dict[str, Any]:
    for name in ("in", "out"):
        (folder / name).mkdir()
    runner.reserve(str(folder / "reserve"))
    runner.run_job(str(folder), job, [])
    state: Dict[str, Any] = json.loads((folder / "state.json").read_text())
    assert not (folder / "reserve").exists()
    return state


@pytest.mark.parametrize(("code", "rc"), [("pass", 0), ("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_a_job_ends_with_its_code_and_its_results(code: str, rc: int, tmp_path: Path) -> None:
    text = f"import sys; open('out/b', 'w').write('x'); print('said'); print('wrong', file=sys.stderr, end=''); sys.stdout.flush(); {code}"
    state = ran(tmp_path, {"kind": "run", "argv": [sys.executable, "-c", text]})
    assert (state["state"], state["rc"]) == ("ended", rc)
    assert time.time() - state["ended"] < 60
    assert state["outputs"] == [{"path": "b", "sha256": hashlib.sha256(b"x").hexdigest(), "size": 1}]
    said = {stream: "".join(r["text"] for r in lines(tmp_path / "log") if r["stream"] == stream) for stream in ("out", "err")}
    assert said == {"out": "said\n", "err": "wrong"}
    assert not (tmp_path / "in").exists()


def test_a_program_that_cannot_be_started_ends_with_4(tmp_path: Path) -> None:
    assert ran(tmp_path, {"kind": "run", "argv": [str(tmp_path)]})["rc"] == 4
    (record,) = lines(tmp_path / "log")
    assert record == {"stream": "err", "text": f"{tmp_path} cannot be started: Permission denied\n"}


def test_a_jobs_environment_is_that_of_a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    text = "import json, os; json.dump(dict(os.environ), open('out/e', 'w'))"
    ran(tmp_path, {"kind": "run", "argv": [sys.executable, "-c", text], "env": {"OWN": "1"}})
    env = json.loads((tmp_path / "out" / "e").read_text())
    assert (env["PYTHONUNBUFFERED"], env["PYTHONUTF8"], env["OWN"]) == ("1", "1", "1")
    assert env["PATH"] == "/bin:/usr/local/cuda/bin:/usr/src/tensorrt/bin:/usr/sbin"


@pytest.mark.parametrize(("hold_s", "released"), [(0, False), (60, True)])
def test_a_reservation_ends_after_its_time_or_when_it_is_released(hold_s: int, released: bool, tmp_path: Path) -> None:
    if released:
        (tmp_path / "release").touch()
    state = ran(tmp_path, {"kind": "hold", "hold_s": hold_s})
    assert (state["state"], state["rc"], state["outputs"]) == ("ended", 0, [])


def test_results_are_plain_files_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2", "b/1", "a", ".hidden", ".lock", ".x.part", "x.part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with socket.socket(socket.AF_UNIX) as made:
        monkeypatch.chdir(tmp_path)
        made.bind("sock")
        assert [o["path"] for o in runner.outputs_of(str(tmp_path))] == [".hidden", "a", "x.part", "b/1", "b/2"]
    monkeypatch.setattr(runner, "MAX_OUTPUTS", 3)
    assert [o["path"] for o in runner.outputs_of(str(tmp_path))] == [".hidden", "a", "x.part"]


@pytest.mark.parametrize(("most", "said"), [(1, True), (2, False)])
def test_results_beyond_the_most_are_named_in_the_log(
    most: int, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MAX_OUTPUTS", most)
    state = ran(tmp_path, {"kind": "run", "argv": [sys.executable, "-c", "open('out/a', 'w').write('1')"]})
    assert len(state["outputs"]) == 1
    text = f"no more than 1 files come back; the others stay in {tmp_path}/out\n"
    assert [r["text"] for r in lines(tmp_path / "log")] == ([text] if said else [])


# --- States


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jobs, "home", lambda: str(tmp_path))
    monkeypatch.setattr(jobs, "settle", lambda: None)
    (tmp_path / "jobs").mkdir()
    return tmp_path / "jobs"


def job(home: Path, name: str, state: Optional[Dict[str, Any]], **facts: Any) -> Path:
    folder = home / name
    folder.mkdir()
    told = {"id": name, "kind": "run", "owner": "me", "what": "x", "started": 5.0, "boot": "other", **facts}
    (folder / "job.json").write_text(json.dumps(told))
    if state is not None:
        (folder / "state.json").write_text(json.dumps(state))
    return folder


FIRST, SECOND = "20260101-000000-aaaaaa", "20260101-000001-bbbbbb"
ENDED = {"state": "ended", "rc": 3, "outputs": [], "ended": 9.0}


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (ENDED, ENDED),
        ({"state": "running", "pid": 1}, {"state": "lost", "rc": 4, "outputs": []}),
        (None, {"state": "lost", "rc": 4, "outputs": []}),
    ],
)
def test_a_job_without_a_process_has_ended_or_is_lost(state: Any, found: Dict[str, Any], home: Path) -> None:
    assert jobs.state_of(str(job(home, FIRST, state))) == found


def test_jobs_are_listed_by_the_boards_clock_and_old_ones_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_boot", lambda: "this")
    monkeypatch.setattr(jobs, "uptime_s", lambda: 100.0)
    job(home, FIRST, ENDED, started=None)
    job(home, SECOND, ENDED, boot="this", up_s=70.0)
    (home / "20260101-000002-cccccc").mkdir()
    first, second = jobs.listing()
    assert first == {
        "id": FIRST,
        "kind": "run",
        "owner": "me",
        "what": "x",
        "started": None,
        "state": "ended",
        "rc": 3,
        "ended": 9.0,
    }
    assert second["id"] == SECOND
    assert abs(time.time() - 30.0 - second["started"]) < 20
    os.utime(home / FIRST, (0, time.time() - KEEP_S - 60))
    os.utime(home / SECOND, (0, time.time() - KEEP_S + 60))
    assert [row["id"] for row in jobs.listing()] == [SECOND]
    assert not (home / FIRST).exists()


def test_a_job_that_ended_is_not_cancelled_and_a_reservation_is_released(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job(home, FIRST, ENDED)
    with pytest.raises(Refused, match="has ended"):
        jobs.cancel(FIRST, "interrupt")
    monkeypatch.setattr(jobs, "_alive", lambda folder: True)
    held = job(home, SECOND, {"state": "running", "pid": 0}, kind="hold")
    jobs.cancel(SECOND, "interrupt")
    assert (held / "release").exists()


@pytest.mark.parametrize(("how", "number"), [("interrupt", 2), ("terminate", 15), ("kill", 9)])
def test_a_signal_goes_to_the_jobs_processes(how: str, number: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: List[Any] = []
    monkeypatch.setattr(jobs, "_alive", lambda folder: True)
    monkeypatch.setattr(os, "killpg", lambda pid, signal: sent.append((pid, int(signal))))
    job(home, FIRST, {"state": "running", "pid": 77})
    jobs.cancel(FIRST, how)
    assert sent == [(77, number)]


@pytest.mark.parametrize("path", ["", ".", "..", "a/../b", "a//b", "/a", "a/", "a\0b", None, 3])
def test_a_path_stays_below_its_folder(path: Any) -> None:
    with pytest.raises(Refused, match="not a path below a folder"):
        jobs.safe_join("/base", path)
    assert jobs.safe_join("/base", "a/.b") == "/base/a/.b"


# --- Words


@pytest.mark.parametrize("cause", CAUSES, ids=lambda c: c[0][:30])
def test_every_cause_of_a_failed_connection_is_told_with_ssh_s_words(cause: Any) -> None:
    text, what, hint = cause
    address = Address("orin", "me", 2222)
    found = explain(f"ssh: {text}\n", address)
    first = next(c for c in CAUSES if c[0] in text)
    assert found.what == f"no connection: {first[1]}"
    assert found.where == f"board {address}"
    told, _, words = (found.hint or "").rpartition("\n  ssh: ")
    assert told == first[2].format(login="-p 2222 me@orin", known="'[orin]:2222'")
    assert words == " ".join(text.split())


def test_another_failure_is_told_with_ssh_s_last_words() -> None:
    address = Address("orin", "", None)
    assert explain("", address).what == "no connection: ssh gave no reason"
    assert explain("ssh: a\n  b", address).what == "no connection: a b"
    assert explain("x" * 600, address).what == "no connection: " + "x" * 500


@pytest.mark.parametrize(
    ("address", "login"),
    [
        (Address("h", "", None), "h"),
        (Address("h", "u", None), "u@h"),
        (Address("h", "", 22), "-p 22 h"),
        (Address("h", "a b", 5), "-p 5 'a b@h'"),
    ],
)
def test_an_address_as_ssh_takes_it(address: Address, login: str) -> None:
    assert login_of(address) == login


def test_a_report_in_lines() -> None:
    time_ = {"mean_ms": 1.5, "predicted_ms": 2.25}
    model = {"precision": "int8", "layers": [1, 2, 3], "contradicted": 1, "moved": 2, "time": time_}
    report = {
        "models": [{**model, "simulated": True}, {"precision": "fp16", "failed": "RunError"}, {**model, "simulated": False}]
    }
    middle = "3 layers, TensorRT contradicts the rules on 1 and placed 2 otherwise than planned"
    assert truth.summary_lines(report) == [
        f"model 1, int8: {middle}; simulated 1.5 ms, predicted 2.25 ms",
        "model 2, fp16: RunError",
        f"model 3, int8: {middle}; measured 1.5 ms, predicted 2.25 ms",
    ]


def test_a_failure_in_a_report_names_nothing() -> None:
    error = RunError("secret.onnx fails")
    row = {"precision": "fp16", "failed": "RunError", "exit_code": error.exit_code}
    assert truth.failed_report(Path("secret.onnx"), "fp16", error, False) == row
    digest = hashlib.sha256(b"secret.onnx").hexdigest()[:12]
    assert truth.failed_report(Path("secret.onnx"), "fp16", error, True) == {"model": digest, **row}


def test_a_report_says_with_what_code_it_was_made() -> None:
    report = truth.board_report([{"a": 1}])
    assert report["models"] == [{"a": 1}]
    assert report["document"] == "edgedla.board-report"
    assert report["rules_version"] == load_rules().version
    assert report.items() >= identity().document.items()


def test_the_board_in_a_report(tmp_path: Path) -> None:
    facts = {"target": "x", "l4t": "36.4", "jetpack": "6.2", "power_mode": "MAXN", "clocks_mhz": {"gpu": 1}, "serial": "secret"}
    artifact = SimpleNamespace(board=facts, platform={"target": "orin", "trt": "10.3"}, software={"tensorrt": "10.3.0.30"})
    measured: Any = SimpleNamespace(artifact=artifact)
    told = {**facts, "target": "orin", "trt": "10.3.0.30"}
    del told["serial"]
    assert truth._board(measured) == told
    artifact.board, artifact.software = None, {}
    assert truth._board(measured) == {**dict.fromkeys(told), "target": "orin", "trt": "10.3"}
