"""One user at a time, from any laptop; jobs are listed, cancelled, lost."""

from __future__ import annotations

import json
import os
import signal

import pytest

from edgedla import load_artifact
from edgedla.remote.board_side import runner
from edgedla.remote.job import Terminal, _progress
from tests.remote.loopback import MODEL

pytestmark = pytest.mark.once


@pytest.fixture
def two(new_laptop):
    """Two laptops and one board that both know."""
    ana, ben = new_laptop("ana"), new_laptop("ben")
    board = ana.add("orin1")
    with open(board.folder / "authorized_keys", "a") as f:
        f.write(ben.key.with_suffix(".pub").read_text())
    ben.boards["orin1"] = board
    ben.known.write_text(ana.known.read_text())
    ben.write()
    del ben.boards["orin1"]
    ana.env["LOGNAME"], ben.env["LOGNAME"] = "ana", "ben"
    return ana, ben


def bench(laptop, seconds, *words):
    return ("bench", "art", "--duration", seconds, "--board", "orin1", *words)


def built(laptop):
    assert laptop.edgedla("build", MODEL, "-o", "art", "--backend", "host", "--board", "orin1").returncode == 0


@pytest.mark.slow
def test_two_laptops_take_turns_on_a_board(two):
    ana, ben = two
    built(ana)
    built(ben)
    first = ana.popen(*bench(ana, 12))
    last = ""
    while not ("bench art" in last and "running" in last):
        last = ana.edgedla("board", "jobs", "orin1").stdout.splitlines()[-1]
        assert first.poll() is None
    refused = ben.edgedla(*bench(ben, 0.1))
    assert refused.returncode == 6
    assert "in use by ana@" in refused.stderr
    assert "edgedla bench art" in refused.stderr
    waited = ben.edgedla(*bench(ben, 0.1, "--wait"))
    assert waited.returncode == 0, waited.stderr
    assert "waiting, it is in use by ana@" in waited.stderr
    assert first.wait(60) == 0, "nobody disturbed it"
    first.communicate()


@pytest.mark.slow
def test_a_reserved_board_refuses_other_users(two):
    ana, ben = two
    assert ana.edgedla("board", "lock", "orin1", "--for", "5", "--note", "long bench").returncode == 0
    refused = ben.edgedla("build", MODEL, "-o", "art", "--backend", "host", "--board", "orin1")
    assert "in use by ana@" in refused.stderr
    assert "reserved: long bench" in refused.stderr
    built(ana)
    assert ben.edgedla("board", "lock", "orin1").returncode == 6
    assert ben.edgedla("monitor", "--count", "1", "--board", "orin1").returncode == 0, "looking is free"
    assert "not locked" in ben.edgedla("board", "lock", "orin1", "--release").stdout
    assert "is released" in ana.edgedla("board", "lock", "orin1", "--release").stdout
    built(ben)


@pytest.mark.long
def test_ctrl_c_ends_the_waiting_for_a_board(two):
    ana, ben = two
    built(ben)
    assert ana.edgedla("board", "lock", "orin1", "--for", "5").returncode == 0
    waits = ben.popen(*bench(ben, 0.1, "--wait"))
    while "waiting" not in waits.stderr.readline():
        assert waits.poll() is None
    waits.send_signal(signal.SIGINT)
    _, err = waits.communicate(timeout=20)
    assert (waits.returncode, err.strip()) == (130, "edgedla: interrupted")
    assert "bench" not in ana.edgedla("board", "jobs", "orin1").stdout
    assert list((ben.folder / "state" / "edgedla" / "jobs").iterdir()) == []


def test_ctrl_c_ends_the_sending_of_files():
    show = _progress(Terminal(stop=lambda: "interrupt"), 8)
    with pytest.raises(KeyboardInterrupt):
        show(1, 8)


@pytest.mark.long
def test_a_job_can_be_cancelled_and_a_killed_one_is_listed_as_lost(laptop):
    built(laptop)
    process = laptop.popen("bench", "art", "--duration", "60", "--board", "orin1")
    listing = []
    while not any(j["state"] == "running" for j in listing):
        listing = json.loads(laptop.edgedla("board", "jobs", "orin1", "--format", "json").stdout)["jobs"]
        assert process.poll() is None
    job = listing[-1]["id"]
    assert laptop.edgedla("board", "cancel", "orin1", job).returncode == 0
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert laptop.edgedla("board", "cancel", "orin1", job).returncode == 6, "it has ended"
    assert laptop.edgedla("board", "attach", "orin1", "../../etc").returncode == 2
    assert laptop.edgedla("board", "attach", "orin1", "20200101-000000-abcdef").returncode == 6
    folder = laptop.boards["orin1"].jobs / job
    (folder / "state.json").write_text(json.dumps({"state": "running", "pid": 0}))
    os.utime(folder, (0, 0))
    done = laptop.edgedla("board", "attach", "orin1", job)
    assert (done.returncode, "ended without an exit code" in done.stderr) == (6, True)


def test_attaching_to_a_job_of_another_laptop_needs_an_output_folder(two):
    ana, ben = two
    built(ana)
    job = ana.edgedla("board", "jobs", "orin1").stdout.split()[0]
    done = ben.edgedla("board", "attach", "orin1", job)
    assert "-o FOLDER" in done.stderr
    done = ben.edgedla("board", "attach", "orin1", job, "-o", "theirs")
    assert done.returncode == 0, done.stderr
    assert load_artifact(ben.folder / "theirs/art")


def test_boards_added_concurrently_are_all_kept(new_laptop):
    laptop = new_laptop()
    at_once = [laptop.popen("board", "add", f"nx{i}", f"10.0.0.{i}") for i in range(8)]
    for process in at_once:
        process.communicate(timeout=60)
    assert len(laptop.edgedla("board", "list").stdout.splitlines()) == 8


def test_results_named_like_lock_or_partial_files_are_kept(tmp_path, monkeypatch):
    for name in ("x.lock", "y.part", ".z", ".lock", ".x.lock.0a.part"):
        (tmp_path / name).write_text("x")
    assert [o["path"] for o in runner.outputs_of(str(tmp_path))] == [".z", "x.lock", "y.part"]
    monkeypatch.setattr(runner, "MAX_OUTPUTS", 2)
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    runner.run_job(str(tmp_path), {"kind": "verb", "argv": ["/bin/sh", "-c", "touch out/a out/b out/c"]}, [])
    assert len(json.loads((tmp_path / "state.json").read_text())["outputs"]) == 2
    assert "no more than 2 files come back" in (tmp_path / "log").read_text()


def test_the_inventory_is_preserved_and_parsed_strictly(laptop):
    assert ", free" in laptop.edgedla("board", "list", "--probe").stdout
    assert laptop.edgedla("board", "add", "nx2", "nvidia@10.0.0.7:2222", "--group", "lab", "--note", 'a "b"').returncode == 0
    assert laptop.edgedla("board", "add", "nx2", "other").returncode == 2
    refused = laptop.edgedla("board", "add", "n@x", "other")
    assert (refused.returncode, "NAME: 'n@x' is not a valid name of a board" in refused.stderr) == (2, True), refused.stderr
    listed = laptop.edgedla("board", "list")
    assert "nx2" in listed.stdout
    assert "nvidia@10.0.0.7:2222" in listed.stdout
    file = laptop.folder / "boards.yaml"
    for text, line in (
        ("boards:\n  a:\n    host: x\n    hosts: y\n", "boards.yaml:4"),
        ("boards:\n  a:\n    host: '-x'\n", "boards.yaml:3"),
        ("boards:\n  a:\n    host: x\n    python: 'python3; rm -rf /'\n", "boards.yaml:4"),
    ):
        file.write_text(text)
        done = laptop.edgedla("board", "list")
        assert (done.returncode, line in done.stderr) == (3, True), done.stderr
