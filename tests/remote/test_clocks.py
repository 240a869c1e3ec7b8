"""A board whose clock has no battery: it starts in another year, and is set while jobs run. Also who holds it since when."""

from __future__ import annotations

import fcntl
import json
import os
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from edgedla.cli.fleet.board import board
from edgedla.remote import boards
from edgedla.remote import holder as words
from edgedla.remote.board_side import jobs, lock, runner, store
from edgedla.remote.connection import BoardRefused

YEARS_S = 8 * 365 * 86400.0
JOB = "20260101-000000-abcdef"
NOBODY = "the board is in use, its lock does not say by whom"


@pytest.fixture(autouse=True)
def _board(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGEDLA_BOARD_HOME", str(tmp_path / "board"))
    monkeypatch.setenv("EDGEDLA_ROOT", str(tmp_path / "root"))


def clock(monkeypatch, off_s):
    real = time.time
    monkeypatch.setattr(store.time, "time", lambda: real() + off_s)


def ended(at):
    """A job that ended at a time of the board's clock."""
    folder = os.path.join(store.home(), "jobs", JOB)
    os.makedirs(folder)
    runner.write_json(folder + "/job.json", {"id": JOB, "started": at, "up_s": lock.uptime_s() - 60, "boot": jobs._boot()})
    runner.write_json(folder + "/state.json", {"state": "ended", "rc": 0, "outputs": []})
    os.utime(folder, (at, at))
    return folder


def blob(at):
    path = store.blob_path("a" * 64)
    os.makedirs(os.path.dirname(path))
    with open(path, "w"):
        os.utime(path, (at, at))
    return path


@pytest.mark.parametrize("off_s", [-YEARS_S, YEARS_S])
def test_a_change_of_the_boards_clock_removes_no_job_or_file(off_s):
    """Nothing was used for years by the clock, and all of it a minute ago."""
    then = time.time() + off_s
    store.settle(then)
    folder, path = ended(then), blob(then)
    (listed,) = jobs.listing()
    assert listed["started"] == pytest.approx(time.time() - 60, abs=5)
    store.prune()
    assert os.path.isdir(folder)
    assert os.path.exists(path)


def test_jobs_and_files_unused_for_long_are_pruned():
    store.settle(time.time() - 86400)
    folder, path = ended(time.time() - store.KEEP_S - 100), blob(time.time() - store.KEEP_S - 100)
    store.prune()
    assert jobs.listing() == []
    assert not os.path.exists(folder)
    assert not os.path.exists(path)


@pytest.mark.parametrize("off_s", [-YEARS_S, YEARS_S])
def test_a_reservation_lasts_its_duration_despite_clock_changes(monkeypatch, tmp_path, off_s):
    started = time.monotonic()
    real, looks = time.time, []
    monkeypatch.setattr(runner.time, "time", lambda: real() + (off_s if looks or looks.append(1) else 0.0))
    runner._hold(str(tmp_path), {"hold_s": 0.5})
    assert 0.5 <= time.monotonic() - started < 5
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "ended"


@pytest.mark.parametrize(
    ("off_s", "said"),
    [
        (0.0, ""),
        (-90.0, ""),
        (-YEARS_S - 5, "WARN clock: 2920 days, 0:00:05 behind this machine's"),
        (7200.0, "2:00:00 ahead of"),
    ],
)
def test_doctor_reports_a_wrong_clock_of_a_board(monkeypatch, off_s, said):
    facts = {"python": "3.8.10", "now": time.time() + off_s}
    monkeypatch.setattr(boards, "Connection", lambda board: SimpleNamespace(ask=lambda *_, **__: facts, close=lambda: None))
    monkeypatch.setattr("edgedla.remote.job.run_on", lambda *_: SimpleNamespace(rc=0))
    printed = CliRunner().invoke(board, ["doctor", "orin1"], standalone_mode=False).output
    assert "ok   connection" in printed
    assert said in printed
    assert ("clock" in printed) == bool(said)


def taken(**info):
    return lock.acquire(
        {"owner": "ana@lap", "what": "edgedla bench art", "kind": "verb", "since": "1970-01-01 00:03:20 UTC", **info}
    )


def refusal():
    try:
        lock.acquire({"owner": "ben@lap"})
    except lock.Busy as e:
        answer = json.loads(json.dumps({"error": "busy", "holder": e.holder, "lock": e.path}))
        return BoardRefused.of(answer, "board orin1")
    raise AssertionError("it was free")


def test_the_holders_start_time_is_given_by_the_laptops_clock(monkeypatch):
    held = taken()
    real = lock.uptime_s
    monkeypatch.setattr(lock, "uptime_s", lambda: real() + 600)
    monkeypatch.setattr(words.time, "time", lambda: 1795000000.0)
    error = refusal()
    assert error.what == "the board is in use by ana@lap since 2026-11-18 10:56:40 UTC (edgedla bench art)"
    assert error.holder["since"] == "2026-11-18 10:56:40 UTC"
    assert "for_s" not in error.holder
    for fd in held:
        os.close(fd)


def test_a_lock_file_without_valid_content_is_described_as_unknown():
    """Another edgedla, another program, a file that only its owner may write."""
    (fd,) = [lock._open("jobs")]
    fcntl.flock(fd, fcntl.LOCK_EX)
    for text in (b"", b"{", b"[]", b'{"kind": 3}', b"\xff"):
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
        error = refusal()
        assert error.what == NOBODY
        assert error.hint == f"--wait waits for it; `fuser -v {lock._path('jobs')}` there shows its processes"
    os.close(fd)


def test_a_holder_that_has_not_yet_written_the_lock_is_waited_for(monkeypatch):
    held, real, looks = taken(), lock._read, []
    monkeypatch.setattr(lock, "_read", lambda fd: looks.append(fd) or (real(fd) if len(looks) > 2 else {}))
    assert "in use by ana@lap since" in refusal().what
    for fd in held:
        os.close(fd)


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ({"owner": "ana@lap"}, "in use by ana@lap"),
        ({"since": "2026-11-18 10:56:40 UTC"}, "in use since 2026-11-18 10:56:40 UTC"),
        ({"owner": "ana@lap", "what": "reserved"}, "in use by ana@lap (reserved)"),
        ({"owner": "a\x1b[2J\n", "for_s": -5, "since": "x"}, "in use by a\\x1b[2J\\n since x"),
        ({}, "in use, its lock does not say by whom"),
    ],
)
def test_the_holder_of_a_lock_is_described(holder, said):
    assert words.in_use(words.holder_from(holder)) == said
