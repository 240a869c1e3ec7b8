"""Locks, jobs, transfers and reconnections with the board's real side in a process of its own, and a pipe in place of ssh."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

import pytest

from edgedla.errors import DataError, EnvironmentMissing, RunError, UsageError
from edgedla.remote import client, connection, job, transfer
from edgedla.remote.address import parse_address
from edgedla.remote.board_side import jobs, lock, runner, store, wire
from edgedla.remote.connection import BoardRefused, Connection, ConnectionLost
from edgedla.remote.inventory import BoardEntry
from edgedla.remote.job import Request, Terminal, _show, run_on
from edgedla.remote.transfer import Output, fetch, file_to_send, send_files
from tests.runtime.waiting import until

pytestmark = pytest.mark.once

BOARD = BoardEntry("orin1", parse_address("127.0.0.1"), python=sys.executable)


class Said(Terminal):
    """Keeps what a job says; `at` is called with each text."""

    def __init__(self, at: Any = lambda text: None) -> None:
        self.texts: List[str] = []
        self.stops: List[str] = []

        def keep(text: str) -> None:
            self.texts.append(text)
            at(text)

        super().__init__(out=keep, err=keep, stop=lambda: self.stops.pop() if self.stops else None)

    @property
    def text(self) -> str:
        return "".join(self.texts)


@pytest.fixture(autouse=True)
def board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The board's home. Its side of each connection runs as `sh -c` of the command that ssh would run there."""
    monkeypatch.setenv("EDGEDLA_BOARD_HOME", str(tmp_path / "board"))
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOGNAME", "ana")
    monkeypatch.setattr(connection, "ssh_command", lambda address, command: ["sh", "-c", command])
    monkeypatch.setattr(job, "RECONNECT_S", (0.1, 0.1, 0.1))
    (tmp_path / "root/run/lock").mkdir(parents=True)
    return tmp_path / "board"


def shell(text: str, **more: Any) -> Request:
    """A job that runs a shell's words in its folder."""
    return Request(what="edgedla bench art", argv=("-c", text), program="/bin/sh", **more)


def job_of(board: Path) -> Path:
    (folder,) = (board / "jobs").iterdir()
    return folder


# --- Jobs


def test_a_job_gets_its_files_and_its_output_results_and_exit_code_come_back(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("weights")
    said = Said()
    request = shell(
        "cat in/1/model; echo said >&2; mkdir out/0/art; cp in/1/model out/0/art/copy; echo x > out/0/one; exit 3",
        files=(file_to_send(tmp_path / "model.txt", "1/model"),),
        slots={"0/art": tmp_path / "art", "0/one": tmp_path / "one"},
    )
    ended = run_on(BOARD, request, said)
    assert (ended.rc, sorted(p.name for p in ended.written)) == (3, ["art", "one"])
    assert "weights" in said.text
    assert "said\n" in said.text
    assert (tmp_path / "art/copy").read_text() == "weights"
    assert (tmp_path / "one").read_text() == "x\n"
    assert client.remembered(ended.job) is None
    assert not list(tmp_path.glob(".*"))


def test_a_job_killed_by_a_signal_ends_with_128_and_its_number() -> None:
    assert run_on(BOARD, shell("kill -9 $$"), Said()).rc == 137


def test_a_program_that_is_not_there_ends_with_4(board: Path) -> None:
    said = Said()
    assert run_on(BOARD, Request(what="x", argv=(), program="/nowhere/edgedla"), said).rc == 4
    assert "/nowhere/edgedla cannot be started" in said.text


def test_the_log_continues_where_a_broken_connection_left_it(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is killed while the job runs: nothing is lost, nothing comes twice."""
    opened: List[Any] = []
    begin = Connection.__init__

    def remembered(self: Any, *given: Any) -> None:
        opened.append(self)
        begin(self, *given)

    monkeypatch.setattr(Connection, "__init__", remembered)

    def cut(text: str) -> None:
        if text == "3\n":
            opened[-1]._ssh.kill()

    said = Said(cut)
    ended = run_on(BOARD, shell("for i in 1 2 3 4 5 6; do echo $i; sleep 0.15; done"), said)
    assert ended.rc == 0
    assert "the connection broke, connecting again" in said.text
    lines = "".join(t for t in said.texts if "connection" not in t).split()
    assert lines == list("123456")
    assert len(opened) >= 3


def test_a_board_that_does_not_return_leaves_the_job_and_says_how_to_attach(monkeypatch: pytest.MonkeyPatch, board: Path) -> None:
    def gone(text: str) -> None:
        if text == "now\n":
            monkeypatch.setattr(connection, "ssh_command", lambda address, command: ["sh", "-c", "exit 255"])
            raise ConnectionLost("cut", where="board orin1")

    with pytest.raises(ConnectionLost) as lost:
        run_on(BOARD, shell("echo now; sleep 0.3; echo done > out/0/late", slots={"0/late": Path("late")}), Said(gone))
    name = job_of(board).name
    assert lost.value.hint == f"the job {name} goes on: edgedla board attach orin1 {name}"
    assert client.remembered(name) is not None


def test_an_interrupt_reaches_the_job_and_its_exit_code_comes_back(board: Path) -> None:
    said = Said(lambda text: said.stops.append("interrupt") if text == "ready\n" else None)
    began = time.monotonic()
    assert run_on(BOARD, shell("trap 'exit 130' INT; echo ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; done"), said).rc == 130
    assert time.monotonic() - began < 8


def test_a_job_that_left_no_exit_code_is_lost(board: Path) -> None:
    """The process of the job was killed, or the board lost power."""
    folder = board / "jobs" / "20260101-000000-abcdef"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"id": folder.name, "kind": "verb"}))
    for state in ({"state": "running", "pid": 1}, {"state": "starting"}, None):
        if state is not None:
            (folder / "state.json").write_text(json.dumps(state))
        else:
            (folder / "state.json").unlink()
        assert jobs.state_of(str(folder))["state"] == "lost"
    with pytest.raises(RunError, match="ended without an exit code"):
        job.follow(BOARD, folder.name, Said())
    with pytest.raises(store.Refused, match="has ended"):
        jobs.cancel(folder.name, "interrupt")


def test_the_same_request_starts_a_job_once(board: Path) -> None:
    """The laptop repeats it if the answer was lost."""
    request = {"id": "20260101-000000-abcdef", "kind": "verb", "argv": ["/bin/sh", "-c", "echo x >> ../../ran"]}
    with Connection(BOARD) as there:
        for _ in range(3):
            assert there.ask("start", job=request, exclusive=False)["job"] == request["id"]
        while there.ask("jobs")["jobs"][0]["state"] != "ended":
            time.sleep(0.05)
    assert (board / "ran").read_text() == "x\n"


def test_a_running_job_is_listed_as_running_until_it_ends(board: Path) -> None:
    request = {
        "id": "20260101-000000-abcdef",
        "kind": "verb",
        "argv": ["/bin/sh", "-c", "while [ ! -e ../../go ]; do sleep 0.05; done"],
    }
    with Connection(BOARD) as there:
        there.ask("start", job=request, exclusive=True)
        states: List[str] = []

        def is_running() -> bool:
            (listed,) = there.ask("jobs")["jobs"]
            states.append(listed["state"])
            return states[-1] == "running"

        assert until(is_running)
        assert set(states) <= {"starting", "running"}
        (board / "go").touch()
        while there.ask("jobs")["jobs"][0]["state"] != "ended":
            time.sleep(0.05)


@pytest.mark.parametrize("name", ["../../etc", "20260101-000000-abcdeg", "", None, "20260101-000000-abcdef\n"])
def test_names_that_are_no_jobs_are_refused_on_both_sides(name: Any) -> None:
    with pytest.raises(store.Refused, match="is not a job"):
        jobs.job_folder(name)
    with pytest.raises(store.Refused, match="is not a job"):
        jobs.start({"id": name}, [])
    if isinstance(name, str):
        with pytest.raises(UsageError, match="is not a job"):
            client.remembered(name)


def test_the_names_of_the_board_are_shown_as_the_users_longest_first() -> None:
    said = Said()
    names = {"in/1": "FOLDER", "in/1/model.onnx": "my.onnx", "in/1/model.onnx.data": "my.data"}
    _show({"text": "in/1/model.onnx.data in/1/model.onnx in/1/x\n"}, names, said)
    assert said.text == "my.data my.onnx FOLDER/x\n"


# --- Locks


def take(owner: str, kind: str = "verb") -> List[int]:
    return lock.acquire({"owner": owner, "kind": kind, "what": "x", "since": "2026-01-01 00:00:00 UTC"})


def free(*descriptors: List[int]) -> None:
    for fds in descriptors:
        for fd in fds:
            os.close(fd)


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        # Its owner passes a reservation, with jobs alone.
        (("ana", "hold"), ("ana", "verb"), True),
        (("ana", "hold"), ("ben", "verb"), False),
        (("ana", "hold"), ("ana", "hold"), False),
        (("ana", "hold"), ("ben", "hold"), False),
        # A job passes nobody, whoever runs it.
        (("ana", "verb"), ("ana", "verb"), False),
        (("ana", "verb"), ("ben", "verb"), False),
        (("ana", "verb"), ("ana", "hold"), False),
    ],
)
def test_who_passes_whom(first: Any, second: Any, passes: bool) -> None:
    held = take(*first)
    if passes:
        more = take(*second)
        # Two jobs of its owner take turns.
        with pytest.raises(lock.Busy):
            take(*second)
        free(more)
    else:
        with pytest.raises(lock.Busy) as busy:
            take(*second)
        assert busy.value.holder["owner"] == first[0]
    free(held)
    free(take(*second))
    assert lock.holder() is None


def test_a_lock_held_by_another_process_is_seen_and_ends_with_it(tmp_path: Path) -> None:
    code = (
        "import sys, time; from edgedla.remote.board_side import lock\n"
        "held = lock.acquire({'owner': 'ben', 'kind': 'verb', 'what': 'x'}); print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(lock.__file__).parents[3])
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    assert (lock.holder() or {})["owner"] == "ben"
    with pytest.raises(lock.Busy):
        take("ana")
    other.kill()
    other.wait()
    other.stdout.close()
    free(take("ana"))


@pytest.mark.parametrize("name", ["jobs", "board"])
def test_a_lock_is_no_link(tmp_path: Path, name: str) -> None:
    """Anybody may write into the folder of locks: a link there must not let us write elsewhere."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"root/run/lock/edgedla-{name}.lock").symlink_to(victim)
    with pytest.raises(OSError):
        take("ana")
    assert victim.read_text() == "mine"
    with pytest.raises(BoardRefused, match="the board's system"), Connection(BOARD) as there:
        there.ask("start", job={"id": "20260101-000000-abcdef", "kind": "verb", "argv": ["true"]}, exclusive=True)


def test_a_busy_board_is_refused_or_waited_for() -> None:
    held = take("ben@lap")
    with pytest.raises(BoardRefused, match="in use by ben@lap"):
        run_on(BOARD, shell("echo ran"), Said())
    threading.Timer(0.5, lambda: free(held)).start()
    said = Said()
    assert run_on(BOARD, shell("echo ran", wait_s=30.0), said).rc == 0
    assert "waiting, it is in use by ben@lap" in said.text
    assert "ran\n" in said.text


def test_a_job_holds_the_lock_until_its_last_process_ends(board: Path) -> None:
    said = Said()
    assert run_on(BOARD, shell("sleep 1 > /dev/null 2>&1 & echo $! > ../../pid"), said).rc == 0
    with pytest.raises(lock.Busy):
        take("ben")
    os.kill(int((board / "pid").read_text()), signal.SIGKILL)
    until = time.monotonic() + 10
    while lock.holder() is not None:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_an_interrupt_ends_the_wait_for_a_busy_board(board: Path) -> None:
    held = take("ben@lap")
    said = Said(lambda text: said.stops.append("interrupt") if "waiting" in text else None)
    with pytest.raises(KeyboardInterrupt):
        run_on(BOARD, shell("echo ran", wait_s=30.0), said)
    free(held)
    assert not (board / "jobs").exists()
    assert not list((client.state_folder() / "jobs").iterdir())


# --- Files


def content(size: int) -> Dict[str, Any]:
    data = os.urandom(size)
    return {"data": data, "sha256": hashlib.sha256(data).hexdigest(), "size": size}


def part(board: Path, sha256: str, data: bytes) -> Path:
    path = board / "parts" / f"{sha256}.me"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", [0, 1, wire.CHUNK_BYTES - 1, wire.CHUNK_BYTES, wire.CHUNK_BYTES + 1, 3_000_001])
def test_a_file_is_sent_once(board: Path, tmp_path: Path, size: int) -> None:
    made = content(size)
    (tmp_path / "file").write_bytes(made["data"])
    file, seen = file_to_send(tmp_path / "file", "1/x"), []
    with Connection(BOARD) as there:
        assert send_files(there, [file, file], "me", lambda done, of: seen.append((done, of))) == size
        assert not size or seen[-1] == (size, size)
        assert send_files(there, [file], "me", lambda done, of: None) == 0
    assert (board / "blobs" / made["sha256"]).read_bytes() == made["data"]
    assert not list((board / "parts").iterdir())


@pytest.mark.parametrize(
    ("there", "sent"),
    [("nothing", 1000), ("beginning", 600), ("all", 0), ("other", None), ("all of another", 1000), ("longer", 1000)],
)
def test_a_file_continues_where_the_last_connection_ended(board: Path, tmp_path: Path, there: str, sent: Any) -> None:
    """Also if that ended after the last byte, before the file was verified: then nothing is left to send."""
    made = content(1000)
    data = made["data"]
    (tmp_path / "file").write_bytes(data)
    present = {
        "beginning": data[:400],
        "all": data,
        "other": b"x" * 400,
        "all of another": b"x" * 1000,
        "longer": data + b"x",
    }.get(there)
    if present is not None:
        part(board, made["sha256"], present)
    with Connection(BOARD) as connected:
        file = file_to_send(tmp_path / "file", "1/x")
        if sent is None:
            with pytest.raises(BoardRefused, match="not the one announced"):
                send_files(connected, [file], "me", lambda done, of: None)
            sent = 1000
        assert send_files(connected, [file], "me", lambda done, of: None) == sent
    assert (board / "blobs" / made["sha256"]).read_bytes() == data
    assert not list((board / "parts").iterdir())


def test_the_offset_of_a_part_is_below_the_size(board: Path) -> None:
    made = content(100)
    assert store.offset_of(made["sha256"], 100, "me") == 0
    for size, offset in ((99, 99), (100, 0), (101, 0)):
        part(board, made["sha256"], b"x" * size)
        assert store.offset_of(made["sha256"], 100, "me") == offset, "another content starts anew"
        assert store.offset_of(made["sha256"], 100, "other") == 0


@pytest.mark.parametrize("present", [b"", b"0123", b"0123456789", b"0123456789 and more", b"xxxx"])
def test_what_an_earlier_fetch_left_is_continued_or_replaced(board: Path, tmp_path: Path, present: bytes) -> None:
    folder = board / "jobs" / "20260101-000000-abcdef"
    (folder / "out/0").mkdir(parents=True)
    (folder / "out/0/r").write_bytes(b"0123456789")
    output = Output("0/r", hashlib.sha256(b"0123456789").hexdigest(), 10)
    target = tmp_path / "r"
    target.write_bytes(present)
    with Connection(BOARD) as there:
        if present == b"xxxx":
            with pytest.raises(RunError, match="another SHA-256"):
                fetch(there, folder.name, output, target)
            assert not target.exists()
        fetch(there, folder.name, output, target)
    assert target.read_bytes() == b"0123456789"


def test_a_board_that_sends_more_than_it_announced_is_stopped(board: Path, tmp_path: Path) -> None:
    folder = board / "jobs" / "20260101-000000-abcdef"
    (folder / "out").mkdir(parents=True)
    (folder / "out/r").write_bytes(b"0123456789")
    with Connection(BOARD) as there, pytest.raises(RunError, match="sends more than the 9 bytes"):
        fetch(there, folder.name, Output("r", "0" * 64, 9), tmp_path / "r")
    assert (tmp_path / "r").stat().st_size <= 9


def test_a_full_disk_here_is_noticed_before_the_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free_bytes, fits in ((9, False), (10, True)):
        monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path, n=free_bytes: SimpleNamespace(free=n))
        with Connection(BOARD) as there, pytest.raises(BoardRefused if fits else EnvironmentMissing):
            fetch(there, "20260101-000000-abcdef", Output("r", "0" * 64, 10), tmp_path / "r")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        file_to_send(tmp_path / "nothing", "1/x")


@pytest.mark.parametrize(("count", "fits"), [(3, True), (4, False)])
def test_a_folder_has_no_more_than_its_most_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, fits: bool
) -> None:
    assert transfer.MAX_INPUTS == 20_000
    monkeypatch.setattr(transfer, "MAX_INPUTS", 3)
    for n in range(count):
        (tmp_path / f"f{n}").write_text(str(n))
    (tmp_path / ".hidden").write_text("x")
    if fits:
        assert [f.path for f in transfer.folder_files(tmp_path, "1/d")] == [f"1/d/f{n}" for n in range(3)]
        return
    with pytest.raises(UsageError, match="more than 3 files"):
        transfer.folder_files(tmp_path, "1/d")


@pytest.mark.parametrize(("length", "taken"), [(255, True), (256, False)])
def test_a_results_name_has_no_more_bytes_than_a_file_may_have(length: int, taken: bool) -> None:
    entries = [{"path": "0/" + "n" * length, "sha256": "0" * 64, "size": 1}]
    if taken:
        assert transfer.checked_outputs(entries, "board x")[0].size == 1
        return
    with pytest.raises(RunError, match="names a result"):
        transfer.checked_outputs(entries, "board x")


@pytest.mark.parametrize(("name", "count"), [("m.onnx", 2), ("m.ONNX", 2), ("m.engine", 1)])
def test_weights_go_along_with_onnx_files_alone(tmp_path: Path, name: str, count: int) -> None:
    import numpy as np
    import onnx

    from tests.hostile.commands import small_model

    onnx.save(
        small_model(),
        str(tmp_path / name),
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    assert np.fromfile(tmp_path / "w.bin", np.float32).size >= 216
    assert [f.path for f in transfer.model_files(tmp_path / name, f"1/{name}")] == [f"1/{name}", "1/w.bin"][:count]


def test_a_board_is_given_up_after_twelve_heartbeats() -> None:
    assert connection.SILENCE_S == 12 * connection.HEARTBEAT_S == 60


def test_a_result_for_a_pipe_is_written_into_it(tmp_path: Path) -> None:
    from edgedla.remote.results import place

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "staged").write_text("result")
    read: List[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    place(tmp_path / "staged", True, tmp_path / "pipe", None)
    reader.join(10)
    assert read == ["result"]
    assert not (tmp_path / "staged").exists()


def test_the_folder_of_shared_connections_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgedla.remote import ssh

    monkeypatch.setattr(ssh, "_SOCKET_BYTES", 4096)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = ssh._socket_folder()
    assert folder == str(tmp_path / "edgedla")
    for spare, name in ((41, folder), (40, None)):
        monkeypatch.setattr(ssh, "_SOCKET_BYTES", len(folder) + spare)
        assert ssh._socket_folder() == name, "a socket's path is short"
    monkeypatch.setattr(ssh, "_SOCKET_BYTES", 4096)
    os.chmod(folder, 0o750)
    assert ssh._socket_folder() is None, "others can read it"


# --- Frames


def frames(data: bytes) -> wire.Wire:
    read, write = os.pipe()
    threading.Thread(target=lambda: (os.write(write, data), os.close(write)), daemon=True).start()
    return wire.Wire(read, os.open(os.devnull, os.O_WRONLY))


@pytest.mark.parametrize(("size", "taken"), [((4 << 20), True), ((4 << 20) + 1, False), (-1, False), (True, False), (1.0, False)])
def test_a_payload_has_no_more_than_its_most_bytes(size: Any, taken: bool) -> None:
    line = json.dumps({"bytes": size}).encode() + b"\n"
    if taken:
        with pytest.raises(wire.WireClosed):
            frames(line).receive()
        return
    with pytest.raises(wire.WireBroken, match="a payload of"):
        frames(line).receive()


@pytest.mark.parametrize("spare", [0, 1])
def test_a_header_ends_within_its_most_bytes(monkeypatch: pytest.MonkeyPatch, spare: int) -> None:
    assert wire.MAX_HEADER_BYTES == 16 << 20
    monkeypatch.setattr(wire, "MAX_HEADER_BYTES", 100)
    reader = frames(b"x" * (100 + spare))
    with pytest.raises(wire.WireBroken if spare else wire.WireClosed):
        reader.receive()


@pytest.mark.parametrize(("more", "cut"), [(0, False), (1, True)])
def test_a_log_has_no_more_than_its_most_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, cut: bool) -> None:
    assert runner.MAX_LOG_BYTES == 64 << 20
    line = len(json.dumps({"stream": "out", "text": "x" * 50})) + 1
    monkeypatch.setattr(runner, "MAX_LOG_BYTES", 2 * line - more)
    log = runner.Log(str(tmp_path / "log"))
    for _ in range(3):
        log.write("out", "x" * 50)
    texts = [json.loads(text)["text"] for text in (tmp_path / "log").read_text().splitlines()]
    assert texts == ["x" * 50] * (2 - cut) + ["[the log is cut here]\n"]


def test_a_log_is_read_from_an_offset_by_whole_lines(tmp_path: Path) -> None:
    lines = [json.dumps({"stream": "out", "text": str(n)}) + "\n" for n in range(3)]
    (tmp_path / "log").write_text("".join(lines) + '{"stream": "ou')
    every = list(jobs.log_from(str(tmp_path), 0))
    assert [record["text"] for _, record in every] == ["0", "1", "2"]
    assert [offset for offset, _ in every] == [len(lines[0]) * n for n in (1, 2, 3)]
    assert [record["text"] for _, record in jobs.log_from(str(tmp_path), every[0][0])] == ["1", "2"]
    assert list(jobs.log_from(str(tmp_path / "nothing"), 0)) == []
