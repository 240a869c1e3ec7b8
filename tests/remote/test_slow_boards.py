"""A slow board, a hanging one, and Ctrl-C while waiting for either: our side of the connection, in this process."""

from __future__ import annotations

import errno
import os
import threading
import time
from types import SimpleNamespace

import pytest

from edgedla.errors import EdgedlaError
from edgedla.remote import connection as ours
from edgedla.remote import job
from edgedla.remote.board_side import agent, jobs, lock, runner, store
from edgedla.remote.board_side.wire import Wire
from edgedla.remote.connection import BoardRefused, Connection, ConnectionLost
from edgedla.remote.job import Terminal
from edgedla.remote.transfer import Output, fetch, file_to_send, send_files

#: Ten times as fast as in use.
SILENCE_S, HEARTBEAT_S = 0.6, 0.1
JOB = "20260101-000000-abcdef"


class Local(Connection):
    """Our side, and pipes in place of ssh."""

    def __init__(self, *_: object) -> None:
        self.board, self.look, self._since = SimpleNamespace(name="slow", edgedla=None), lambda: None, 0.0
        (board_read, write), (read, board_write) = os.pipe(), os.pipe()
        os.set_blocking(write, False)
        self._wire, self.theirs = Wire(read, write), Wire(board_read, board_write)

    def serve(self) -> Local:
        threading.Thread(target=agent.Agent(self.theirs).serve, daemon=True).start()
        return self

    def close(self) -> None:
        if self._wire._write_fd >= 0:
            os.close(self._wire._write_fd)
            self._wire._write_fd = -1

    def _stderr_text(self) -> str:
        return ""


@pytest.fixture(autouse=True)
def _fast(monkeypatch, tmp_path):
    monkeypatch.setattr(ours, "SILENCE_S", SILENCE_S)
    monkeypatch.setattr(agent, "HEARTBEAT_S", HEARTBEAT_S)
    monkeypatch.setenv("EDGEDLA_BOARD_HOME", str(tmp_path / "board"))


def slow(monkeypatch, seconds):
    """Every way to the card takes its time."""
    real = os.fsync
    monkeypatch.setattr(store.os, "fsync", lambda fd: (time.sleep(seconds), real(fd)))


def send(connection, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(3 << 20))
    return send_files(connection, [file_to_send(tmp_path / "file", "1/x")], "me", lambda done, todo: None)


def test_a_slow_storage_card_does_not_time_out(monkeypatch, tmp_path):
    slow(monkeypatch, 3 * SILENCE_S)
    connection = Local().serve()
    assert send(connection, tmp_path) == 3 << 20
    assert len(os.listdir(tmp_path / "board" / "blobs")) == 1
    connection.close()


def test_a_failed_request_is_answered_and_the_connection_continues():
    """The connection goes on."""
    connection = Local().serve()
    for op, fields, said in (
        ("nothing", {}, "KeyError"),
        ("have", {"blobs": [{}], "client": "me"}, "KeyError"),
        ("get", {}, "KeyError"),
    ):
        with pytest.raises(BoardRefused, match=said):
            connection.ask(op, **fields)
    assert connection.ask("jobs")["jobs"] == []
    connection.close()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "the board's disk: No space left on device: /x\n  free some space below"),
        (errno.EDQUOT, "the board's disk: Disk quota exceeded: /x\n  free some space below"),
        (errno.EROFS, "the board's system: Read-only file system: /x"),
    ],
)
def test_an_os_error_on_the_board_is_reported_with_its_reason(monkeypatch, number, said):
    def listing():
        raise OSError(number, os.strerror(number), "/x")

    monkeypatch.setattr(jobs, "listing", listing)
    connection = Local().serve()
    with pytest.raises(BoardRefused) as refused:
        connection.ask("jobs")
    assert said in str(refused.value)
    connection.close()


def test_an_unusable_home_on_the_board_is_named_with_its_variable(tmp_path):
    (tmp_path / "board").write_text("a file")
    connection = Local().serve()
    with pytest.raises(BoardRefused, match="File exists: .*/board") as refused:
        connection.ask("hello")
    assert refused.value.hint == f"it works below {tmp_path}/board; EDGEDLA_BOARD_HOME there names another folder"
    connection.close()


def test_a_job_that_fills_the_disk_still_records_its_end(monkeypatch, tmp_path):
    kept, real = str(tmp_path / "reserve"), os.write
    runner.reserve(kept)

    def full(fd, data):
        if os.path.exists(kept):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(runner.os, "write", full)
    log = runner.Log(str(tmp_path / "log"), kept)
    log.write("err", "the disk is full\n")
    assert [record["text"] for _, record in jobs.log_from(str(tmp_path), 0)] == ["the disk is full\n"]


def test_a_hung_storage_card_ends_the_connection(monkeypatch, tmp_path):
    monkeypatch.setattr(agent, "STUCK_S", 0.5)
    slow(monkeypatch, 4.0)
    connection, started = Local().serve(), time.monotonic()
    with pytest.raises(ConnectionLost, match="nothing came"):
        send(connection, tmp_path)
    assert time.monotonic() - started < 3.5


def test_a_board_that_does_not_read_ends_the_connection(tmp_path):
    started = time.monotonic()
    with pytest.raises(ConnectionLost, match="nothing came"):
        Local().send("put", bytes(1 << 20))
    assert SILENCE_S <= time.monotonic() - started < 10 * SILENCE_S


def test_ctrl_c_interrupts_sending_to_a_board_that_does_not_read():
    connection = Local()
    connection.look = Terminal(stop=lambda: "interrupt").look
    with pytest.raises(KeyboardInterrupt):
        connection.send("put", bytes(1 << 20))


def test_a_frame_may_come_in_parts():
    connection = Local()

    def slowly():
        for part in (b'{"done":true,"by', b'tes":4}\nab', b"cd"):
            os.write(connection.theirs._write_fd, part)
            time.sleep(0.3)

    threading.Thread(target=slowly, daemon=True).start()
    assert connection.answer()["bytes"] == 4


def test_a_board_sends_keepalives_while_its_lock_is_waited_for(monkeypatch):
    until = time.monotonic() + 3 * SILENCE_S

    def acquire(info):
        if time.monotonic() < until:
            raise lock.Busy({"owner": "ana"})
        return []

    monkeypatch.setattr(lock, "acquire", acquire)
    monkeypatch.setattr(jobs, "start", lambda job, held: JOB)
    connection, waiting = Local().serve(), []
    connection.send("start", job={"id": JOB}, exclusive=True, wait_s=60.0)
    assert connection.answer(lambda message, _: waiting.append(message))["job"] == JOB
    assert waiting[0] == {"waiting": {"owner": "ana"}}
    assert set(map(str, waiting[1:])) == {str({"alive": True})}


def test_the_first_ctrl_c_ends_the_fetching_of_results(monkeypatch, tmp_path):
    """What was fetched goes, the results stay on the board, and it is said how to get them."""
    presses, words = [], []

    def served(connection):
        requests = iter(connection.theirs.receive, None)
        assert next(requests)[0]["op"] == "follow"
        outputs = [{"path": "0/art/a", "sha256": "0" * 64, "size": 1 << 30}]
        connection.theirs.send({"done": True, "state": "ended", "rc": 0, "outputs": outputs})

    def sends(connection):
        assert connection.theirs.receive()[0]["op"] == "get"
        presses.append("interrupt")
        for _ in range(20):
            connection.theirs.send({"chunk": True}, bytes(1000))
            time.sleep(0.1)

    parts = iter([served, sends])

    def connect(board, look):
        connection = Local()
        connection.look = look
        threading.Thread(target=next(parts), args=(connection,), daemon=True).start()
        return connection

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(job, "Connection", connect)
    job.client.remember(JOB, {"board": "slow", "slots": {"0/art": str(tmp_path / "art")}})
    terminal = Terminal(err=words.append, stop=lambda: presses.pop() if presses else None)
    with pytest.raises(KeyboardInterrupt):
        job.follow(SimpleNamespace(name="slow"), JOB, terminal)
    assert f"the results stay on the board: edgedla board attach slow {JOB} fetches them\n" in words
    assert job.client.remembered(JOB) is not None
    assert not [p for p in tmp_path.iterdir() if "art" in p.name]


def test_ctrl_c_ends_the_search_for_a_board_that_is_gone(monkeypatch, tmp_path):
    presses, words = [], []

    def connect(board, look):
        presses.append("interrupt")
        raise ConnectionLost("the connection broke")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(job, "Connection", connect)
    with pytest.raises(KeyboardInterrupt):
        job.follow(SimpleNamespace(name="slow"), JOB, Terminal(err=words.append, stop=presses.pop))
    assert words[-1] == f"the job {JOB} goes on: edgedla board attach slow {JOB}\n"


def test_malformed_frames_of_a_board_are_refused(monkeypatch, tmp_path):
    """Words without a place, an end that is none: no traceback of ours."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shown = []
    for frame in (
        b'{"text":"x"}\n',
        b'{"text":"x","offset":[]}\n',
        b'{"offset":1}\n',
        b'{"done":1,"outputs":7}\n',
        b"7\n",
        b"\xff\n",
    ):
        connection = Local()
        os.write(connection.theirs._write_fd, frame)
        os.close(connection.theirs._write_fd)
        monkeypatch.setattr(job, "RECONNECT_S", ())
        monkeypatch.setattr(job, "Connection", lambda *_, c=connection: c)
        with pytest.raises(EdgedlaError):
            job.follow(SimpleNamespace(name="slow"), JOB, Terminal(out=shown.append))
    assert shown == []


def test_a_result_that_comes_slowly_comes(monkeypatch, tmp_path):
    connection = Local()

    def sends():
        connection.theirs.receive()
        for byte in b"abcdef":
            connection.theirs.send({"chunk": True}, bytes([byte]))
            time.sleep(SILENCE_S / 2)
        connection.theirs.send({"done": True})

    threading.Thread(target=sends, daemon=True).start()
    sha256 = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721"
    fetch(connection, JOB, Output("0/a", sha256, 6), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"abcdef"
